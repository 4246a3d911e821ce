"""Builds computations and modules in Python, with shapes inferred by the opset.

Example:
    >>> from xladev.hlo import dtype as dt
    >>> from xladev.hlo.builder import HloBuilder
    >>> from xladev.hlo.shape import array
    >>> b = HloBuilder("double")
    >>> x = b.parameter(array(dt.F32, (2,)))
    >>> module = b.module(b.op("add", x, x))
    >>> module.entry.root.shape
    Shape(element_type=f32, dims=(2,), layout=None, dynamic=(), tuple_shapes=())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xladev.errors import ShapeError
from xladev.hlo.device_scope import placed_note
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import (
    DEFAULT_HEADER,
    NO_ANNOTATIONS,
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
)
from xladev.hlo.jit_scope import scoped_note
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.names import with_unique_names
from xladev.hlo.opdef import OpCall, OpDef
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape


def infer_shape(
    op: OpDef,
    operands: Sequence[HloInstruction],
    attrs: dict[str, Any],
    declared: Shape | None = None,
) -> Shape:
    """Shape of the result of an opcode.

    Raises:
        ShapeError: the operands or attributes break a rule of the opcode; cites its id.
    """
    if not op.accepts(len(operands)):
        least, most = op.arity_range
        wanted = f"{least}" if least == most else f"{least} to {most if most >= 0 else 'any'}"
        raise ShapeError(
            f"{op.name} takes {wanted} operands, not {len(operands)}",
            why=f"constraint {op.name}_arity",
        )
    for attr in op.attrs:
        if attr.required and attrs.get(attr.name) is None:
            raise ShapeError(
                f"{op.name} needs attribute {attr.name}", why=f"constraint {op.name}_{attr.name}"
            )
    call = OpCall(op, tuple(o.shape for o in operands), attrs, declared)
    return call.result() if op.infer is None else op.infer(call)


def make_instruction(
    opcode: str,
    operands: Sequence[HloInstruction] = (),
    attrs: dict[str, Any] | None = None,
    *,
    shape: Shape | None = None,
    name: str = "",
    note: Annotations = NO_ANNOTATIONS,
) -> HloInstruction:
    """One checked instruction; ``shape`` is needed only where it cannot be inferred."""
    op = opdef(opcode)
    given = dict(attrs or {})
    for key in given:
        op.attr(key)
    inferred = infer_shape(op, operands, given, shape)
    return HloInstruction(op, shape or inferred, tuple(operands), given, name, note)


class HloBuilder:
    """Collects the instructions of one computation.

    Names are made unique within the builder as ``opcode.N`` unless given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._instructions: list[HloInstruction] = []
        self._names: set[str] = set()
        self._parameters = 0

    def parameter(self, shape: Shape, name: str = "") -> HloInstruction:
        """The next parameter."""
        number = self._parameters
        self._parameters += 1
        return self.op("parameter", shape=shape, parameter_number=number, name=name)

    def constant(self, value: Any, element_type: PrimitiveType | None = None) -> HloInstruction:
        """A constant from a literal, scalar, nested list or array."""
        literal = value if isinstance(value, Literal) else literal_of(value, element_type)
        return self.op("constant", shape=literal.shape, literal=literal)

    def op(
        self,
        opcode: str,
        *operands: HloInstruction,
        shape: Shape | None = None,
        name: str = "",
        note: Annotations = NO_ANNOTATIONS,
        **attrs: Any,
    ) -> HloInstruction:
        """Appends one instruction.

        Raises:
            ShapeError: a rule of the opcode is broken.
        """
        made = make_instruction(
            opcode,
            operands,
            attrs,
            shape=shape,
            name=name or self._fresh(opcode),
            note=scoped_note(placed_note(note, opcode), opcode),
        )
        return self.append(made)

    def append(self, instruction: HloInstruction) -> HloInstruction:
        """Appends an instruction made elsewhere; its operands must be here already."""
        if instruction.name in self._names:
            instruction = replace(instruction, name=self._fresh(instruction.name))
        self._names.add(instruction.name)
        self._instructions.append(instruction)
        return instruction

    def _fresh(self, stem: str) -> str:
        count = len(self._instructions) + 1
        while f"{stem}.{count}" in self._names:
            count += 1
        return f"{stem}.{count}"

    def build(self, root: HloInstruction | None = None) -> HloComputation:
        """The computation; its root is the last instruction unless given.

        Raises:
            ShapeError: it has no instructions.
        """
        if not self._instructions:
            raise ShapeError(f"computation {self.name} has no instructions")
        return HloComputation(self.name, tuple(self._instructions), root or self._instructions[-1])

    def module(
        self, root: HloInstruction | None = None, header: ModuleHeader = DEFAULT_HEADER
    ) -> HloModule:
        """A module whose entry is this computation; names in callees are made unique."""
        return with_unique_names(HloModule(self.name, self.build(root), header))
