"""One elementwise operation to emit: opcode, element types, attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.scalar.elements import Element
from xladev.hlo.dtype import PrimitiveType


@dataclass(frozen=True, slots=True)
class ScalarOperation:
    """What an elementwise HLO instruction does to one element.

    Attributes:
        opcode: as spelled in HLO text.
        operands: element type of each operand.
        result: element type of the result.
        attributes: the instruction's, by their text spelling.
    """

    opcode: str
    operands: tuple[PrimitiveType, ...]
    result: PrimitiveType
    attributes: Mapping[str, object]

    @property
    def dtype(self) -> PrimitiveType:
        """Element type of the first operand."""
        return self.operands[0]

    def __str__(self) -> str:
        operands = ", ".join(str(t) for t in self.operands)
        return f"{self.result} {self.opcode}({operands})"


IntegerEmitter = Callable[[FunctionBuilder, PrimitiveType, Sequence[Value]], Value]
FloatEmitter = Callable[[FunctionBuilder, Sequence[Value]], Value]
GeneralEmitter = Callable[[FunctionBuilder, ScalarOperation, Sequence[Element]], Element]
