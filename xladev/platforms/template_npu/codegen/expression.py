"""From HLO instructions to the nodes of a stage: inlines what is elementwise or only moves data.

What cannot be read through strides is put in memory first, by a stage of its own: see
`ArrayReads.array`.

What a vendor replaces: nothing; `codegen/rules.py` says what gets nodes here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from xladev.errors import UnsupportedError
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, NotAffineError
from xladev.platforms.template_npu.codegen.nodes import (
    Array,
    ConstantNode,
    Input,
    Iota,
    Load,
    Node,
    OperationNode,
    union,
)
from xladev.platforms.template_npu.codegen.opcodes import instruction_of, type_number
from xladev.platforms.template_npu.device import isa

S32, PRED, F32 = (isa.TYPE_NUMBERS[n] for n in ("s32", "pred", "f32"))


class ArrayReads(Protocol):
    """Where arrays are, and how they are read."""

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Nodes of opcodes that are neither elementwise nor a stage of their own."""
        ...

    def find(self, instruction: HloInstruction) -> Array | None:
        """The array of an instruction that is in memory; None if it is not."""
        ...

    def array(self, instruction: HloInstruction) -> Array:
        """The array of an instruction, computed into memory if it is not there."""
        ...

    def window_array(self, instruction: HloInstruction) -> tuple[Array, tuple[int, ...]]:
        """The padded operand of a reduce-window, and its dimensions."""
        ...


class Expression:
    """Builds the nodes of one stage.

    Attributes:
        extents: of the iteration variables.
        inputs: instructions whose value is in the scratchpad, under the map given.
    """

    def __init__(self, memory: ArrayReads, extents: tuple[int, ...]) -> None:
        self.extents = extents
        self.memory = memory
        self.inputs: dict[HloInstruction, tuple[AccessMap, Node]] = {}
        self._made: dict[tuple[HloInstruction, AccessMap], Node] = {}
        self._constants: dict[tuple[int, int], Node] = {}
        self._everywhere = (False,) * len(extents)

    def node(self, i: HloInstruction, at: AccessMap) -> Node:
        """The value of an instruction under a map."""
        key = (i, at)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._node(i, at)
        return found

    def _node(self, i: HloInstruction, at: AccessMap) -> Node:
        given = self.inputs.get(i)
        if given is not None and given[0] == at:
            return given[1]
        held = self.memory.find(i)
        if held is not None:
            return self.load(held, i, at)
        rule = self.memory.rules.get(i.opcode)
        if rule is None and not (i.op.elementwise and instruction_of(i)):
            return self.load(self.memory.array(i), i, at)
        try:
            return rule(self, i, at) if rule else self._elementwise(i, at)
        except NotAffineError:
            return self.load(self.memory.array(i), i, at)

    def load(self, array: Array, i: HloInstruction, at: AccessMap) -> Node:
        """The elements of an array in memory."""
        position, steps = at.position(i.shape.dims)
        return self.load_at(array, i.shape.element_type, position, steps)

    def load_at(
        self,
        array: Array,
        dtype: PrimitiveType,
        position: int,
        steps: tuple[int, ...],
        index: Node | None = None,
    ) -> Node:
        """Elements at affine positions, to which an index may be added."""
        own = tuple(s != 0 and n > 1 for s, n in zip(steps, self.extents, strict=True))
        operands = () if index is None else (index,)
        depends = union([own, *(o.depends for o in operands)], len(own))
        return Load(number_of(dtype), depends, operands, array, position, steps)

    def constant(self, value: object, dtype: PrimitiveType) -> Node:
        """A number."""
        bits = constant_bits(value, dtype)
        key = (bits, number_of(dtype))
        if key not in self._constants:
            self._constants[key] = ConstantNode(key[1], self._everywhere, (), bits)
        return self._constants[key]

    def operation(
        self, opcode: str, function: str, type_: int, *operands: Node, imm: int = 0
    ) -> Node:
        """A vector instruction."""
        depends = union([o.depends for o in operands], len(self.extents))
        return OperationNode(type_, depends, operands, opcode, function, imm)

    def converted(self, node: Node, type_: int) -> Node:
        """A value in another type."""
        return node if node.type == type_ else self.operation("convert", "", type_, node)

    def iota(self, position: int, steps: tuple[int, ...], type_: int) -> Node:
        """Numbers that grow with the iteration variables."""
        own = tuple(s != 0 and n > 1 for s, n in zip(steps, self.extents, strict=True))
        unsigned = isa.TYPE_NUMBERS["u32"]
        made = Iota(unsigned if type_ == unsigned else S32, own, (), position, steps)
        return self.converted(made, type_)

    def called(self, computation: HloComputation, arguments: Sequence[Node]) -> list[Node]:
        """Values of a computation of scalars, applied to each element of its arguments."""
        values: dict[HloInstruction, Node] = dict(
            zip(computation.parameters, arguments, strict=True)
        )
        for i in computation.instructions:
            if i in values or i.opcode == "tuple":
                continue
            if i.opcode == "constant":
                values[i] = self.constant(i["literal"].array.reshape(-1)[0], i.shape.element_type)
            elif i.opcode in ("reshape", "broadcast"):
                values[i] = values[i.operands[0]]
            else:
                values[i] = self.computed(i, [values[o] for o in i.operands])
        root = computation.root
        return [values[o] for o in (root.operands if root.opcode == "tuple" else (root,))]

    def computed(self, i: HloInstruction, operands: Sequence[Node]) -> Node:
        """An elementwise instruction on these operands."""
        found = instruction_of(i)
        if found is None:
            raise UnsupportedError(f"the template NPU has no {i.opcode}", where=repr(i))
        type_ = number_of(i.shape.element_type)
        if i.opcode == "clamp":
            low, x, high = operands
            return self.operation(
                "binary", "min", type_, self.operation("binary", "max", type_, x, low), high
            )
        if i.opcode == "real":
            return operands[0]
        if i.opcode == "imag":
            return self.constant(0, i.shape.element_type)
        if i.opcode == "reduce-precision":
            widths = i["exponent_bits"], min(i["mantissa_bits"], 255)
            return self.operation("quantize", "", type_, *operands, imm=widths[0] * 256 + widths[1])
        return self.operation(*found, type_, *operands)

    def _elementwise(self, i: HloInstruction, at: AccessMap) -> Node:
        scalar = AccessMap(self.extents, ())
        return self.computed(
            i, [self.node(o, at if o.shape.dims == i.shape.dims else scalar) for o in i.operands]
        )


def number_of(dtype: PrimitiveType) -> int:
    """The device's number of an element type.

    Raises:
        UnsupportedError: it has not got it.
    """
    number = type_number(dtype)
    if number is None:
        raise UnsupportedError(f"the template NPU has no {dtype}")
    return number


def constant_bits(value: object, dtype: PrimitiveType) -> int:
    """The bits of a number, as `fill` wants them."""
    raw = np.asarray(value).astype(dtype.np).tobytes()
    return int.from_bytes(raw, "little")


def name_input(e: Expression, name: object, type_: int, depends: tuple[bool, ...]) -> Node:
    """A value that will be in the scratchpad."""
    return Input(type_, depends, (), name)


def at_zero(e: Expression, i: HloInstruction) -> AccessMap:
    """The map of an array of one element."""
    zero = (0, (0,) * len(e.extents))
    return AccessMap(e.extents, (zero,) * i.shape.rank)


Rule = Callable[[Expression, HloInstruction, AccessMap], Node]
"""The node of an instruction under a map; raises NotAffineError where strides cannot say it."""
