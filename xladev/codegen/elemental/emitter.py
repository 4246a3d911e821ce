"""The elemental emitter: code for one element of any instruction of a fused computation.

An instruction is read from memory if the kernel was given an array for it; otherwise its element
is computed from elements of its operands, wherever the index mapping of its opcode says. Elements
that were computed already at the same index are used again where control flow allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import Index, IndexMath
from xladev.codegen.llvm import FunctionBuilder
from xladev.codegen.scalar.constants import literal_element
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.errors import UnsupportedError
from xladev.hlo.ir import HloInstruction

ElementRule = Callable[["ElementalEmitter", HloInstruction, Index], Element]
"""Code for one element of an instruction of one opcode."""


class ElementalEmitter:
    """Emits elements of instructions into one function.

    Attributes:
        b: where to emit.
        at: index arithmetic on the same builder.
        arrays: instructions that are in memory; one array per leaf of their shape.
        scalars: instructions whose single element is known as a value (parameters of reducers).
        rules: code for opcodes that are not elementwise, by opcode.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        rules: Mapping[str, ElementRule],
        arrays: Mapping[HloInstruction, tuple[IrArray, ...]] = MappingProxyType({}),
        scalars: Mapping[HloInstruction, tuple[Element, ...]] = MappingProxyType({}),
    ) -> None:
        self.b = b
        self.at = IndexMath(b)
        self.rules = rules
        self.arrays = arrays
        self.scalars = scalars
        self._made: list[dict[tuple[HloInstruction, Index], Element]] = [{}]

    def nested(self, scalars: Mapping[HloInstruction, tuple[Element, ...]]) -> ElementalEmitter:
        """An emitter for another computation of scalars, into the same function."""
        return ElementalEmitter(self.b, self.rules, scalars=scalars)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Code that may not run: elements made inside are forgotten at its end."""
        self._made.append({})
        yield
        self._made.pop()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Code of another function: what was made outside is not known inside, nor the reverse."""
        held, self._made = self._made, [{}]
        try:
            yield
        finally:
            self._made = held

    def scopes(self) -> int:
        """How many scopes are open, for `leave`."""
        return len(self._made)

    def leave(self, count: int) -> None:
        """Closes all scopes but ``count``, and forgets elements made in the last of them."""
        del self._made[count:]
        self._made[-1].clear()

    def element(self, instruction: HloInstruction, index: Index) -> Element:
        """One element of an array instruction.

        Raises:
            UnsupportedError: an opcode without elemental code.
        """
        key = (instruction, index)
        for made in reversed(self._made):
            if key in made:
                return made[key]
        element = self._emit(instruction, index)
        self._made[-1][key] = element
        return element

    def hold(self, instruction: HloInstruction, index: Index, element: Element) -> None:
        """Says what an element is, until the scope ends; it is not computed any more."""
        self._made[-1][instruction, index] = element

    def operand(self, instruction: HloInstruction, number: int, index: Index) -> Element:
        """One element of an operand."""
        return self.element(instruction.operands[number], index)

    def single(self, instruction: HloInstruction, index: Index) -> Element:
        """One element to be used as an index, or part of one."""
        return self.element(instruction, index)

    def operand_index(self, operand: HloInstruction, index: Index) -> Index:
        """Where an elementwise instruction at ``index`` reads an operand."""
        return index if operand.shape.rank == len(index) else ()

    def _emit(self, instruction: HloInstruction, index: Index) -> Element:
        held = self.scalars.get(instruction)
        if held is not None:
            return held[0]
        arrays = self.arrays.get(instruction)
        if arrays is not None:
            return arrays[0].load(self.b, index)
        rule = self.rules.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, index)
        if instruction.opcode == "constant" and instruction.shape.is_scalar:
            return literal_element(instruction["literal"])
        if instruction.op.elementwise:
            return self._elementwise(instruction, index)
        raise UnsupportedError(
            f"no elemental code for {instruction.opcode}", where=repr(instruction)
        )

    def _elementwise(self, instruction: HloInstruction, index: Index) -> Element:
        operands = [self.element(o, self.operand_index(o, index)) for o in instruction.operands]
        return emit_elementwise(
            self.b,
            instruction.opcode,
            [o.shape.element_type for o in instruction.operands],
            instruction.shape.element_type,
            operands,
            instruction.attrs,
        )
