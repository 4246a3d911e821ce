"""From HLO instructions to the nodes of a stage: inlines what is elementwise or only moves data.

What cannot be read through strides is put in memory first, by a stage of its own (`Memory.array`).

What a vendor replaces: the opcodes that get nodes here, if their hardware has more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

import numpy as np

from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.template_npu.codegen.access_map import (
    AccessMap,
    NotAffineError,
    element_strides,
)
from xladev.platforms.template_npu.codegen.nodes import (
    Array,
    Constant,
    Input,
    Iota,
    Load,
    Node,
    Operation,
    union,
)
from xladev.platforms.template_npu.codegen.opcodes import BINARY, instruction_of, type_number
from xladev.platforms.template_npu.device import isa

S32, PRED, F32 = (isa.TYPE_NUMBERS[n] for n in ("s32", "pred", "f32"))


class Memory(Protocol):
    """Where arrays lie."""

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

    def __init__(self, memory: Memory, extents: tuple[int, ...]) -> None:
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
        rule = _RULES.get(i.opcode)
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
            self._constants[key] = Constant(key[1], self._everywhere, (), bits)
        return self._constants[key]

    def operation(
        self, opcode: str, function: str, type_: int, *operands: Node, imm: int = 0
    ) -> Node:
        """A vector instruction."""
        depends = union([o.depends for o in operands], len(self.extents))
        return Operation(type_, depends, operands, opcode, function, imm)

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


# Movement


def _constant(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    if i.shape.size != 1:
        raise NotAffineError
    return e.constant(i["literal"].array.reshape(-1)[0], i.shape.element_type)


def _broadcast(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    operand = i.operands[0]
    if operand.shape.size == 1:
        return e.node(operand, _at_zero(e, operand))
    return e.node(operand, at.chosen(i["dimensions"], i.shape.dims))


def _at_zero(e: Expression, i: HloInstruction) -> AccessMap:
    zero = (0, (0,) * len(e.extents))
    return AccessMap(e.extents, (zero,) * i.shape.rank)


def _transpose(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    order = i["dimensions"]
    return e.node(
        i.operands[0], at.chosen([order.index(d) for d in range(len(order))], i.shape.dims)
    )


def _same(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    return e.node(i.operands[0], at)


def _reshape(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    operand = i.operands[0]
    if operand.shape.dims == i.shape.dims:
        return e.node(operand, at)
    if operand.shape.size == 1:
        return e.node(operand, _at_zero(e, operand))
    moved = at.reshaped(i.shape.dims)
    with suppress(NotAffineError):  # arrays in memory and elementwise opcodes need no more
        moved = moved.by_dimension(operand.shape.dims)
    return e.node(operand, moved)


def _slice(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    starts, steps = [s.start for s in i["slice"]], [s.stride for s in i["slice"]]
    return e.node(i.operands[0], at.scaled(starts, steps, i.shape.dims))


def _reverse(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    flipped = i["dimensions"]
    dims = i.shape.dims
    starts = [n - 1 if d in flipped else 0 for d, n in enumerate(dims)]
    steps = [-1 if d in flipped else 1 for d in range(len(dims))]
    return e.node(i.operands[0], at.scaled(starts, steps, dims))


def _iota(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    start, steps = at.by_dimension(i.shape.dims).rows[i["iota_dimension"]]
    return e.iota(start, steps, number_of(i.shape.element_type))


def _bitcast(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    if source.bits != target.bits:  # the same bytes, with a dimension more or less
        return e.load(e.memory.array(i.operands[0]), i, at)
    return e.operation("unary", "copy", number_of(target), e.node(i.operands[0], at))


def _bytes(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    if i.shape.element_type is i.operands[0].shape.element_type:
        return _reshape(e, i, at)
    return e.load(e.memory.array(i.operands[0]), i, at)


# Reads at computed indices


def _dynamic_slice(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    operand, *starts = i.operands
    rows = at.by_dimension(i.shape.dims)
    index = dynamic_offset(e, starts, operand.shape.dims, i.shape.dims)
    position, steps = rows.position(operand.shape.dims)
    return e.load_at(e.memory.array(operand), i.shape.element_type, position, steps, index)


def dynamic_offset(
    e: Expression,
    starts: Sequence[HloInstruction],
    dims: tuple[int, ...],
    window: tuple[int, ...],
) -> Node:
    """Where a window starts in an array, in elements, clamped so that it fits."""
    parts: list[Node] = []
    for d, (size, width, stride) in enumerate(
        zip(dims, window, element_strides(dims), strict=True)
    ):
        if len(starts) == 1 and starts[0].shape.rank == 1:
            start = e.node(starts[0], AccessMap(e.extents, ((d, (0,) * len(e.extents)),)))
        else:
            start = e.node(starts[d], AccessMap(e.extents, ()))
        parts.append(scaled_index(e, start, size - width, stride))
    return added(e, parts)


def scaled_index(e: Expression, index: Node, most: int, stride: int) -> Node:
    """An index of any integer type limited to 0..most, times a stride, in s32."""
    limited = clamped_index(e, index, most)
    return e.operation("binary", "mul", S32, limited, e.constant(stride, dt.S32))


def clamped_index(e: Expression, index: Node, most: int) -> Node:
    """An index of any integer type limited to 0..most, in s32."""
    type_ = isa.TYPES[index.type]
    dtype = dt.by_name(type_.name)
    largest = (1 << (8 * type_.nbytes - type_.is_signed)) - 1
    high = e.constant(min(most, largest), dtype)
    limited = e.operation("binary", "min", index.type, index, high)
    if type_.is_signed:
        limited = e.operation("binary", "max", index.type, limited, e.constant(0, dtype))
    return e.converted(limited, S32)


def added(e: Expression, parts: Sequence[Node]) -> Node:
    """The sum of s32 values; 0 for none."""
    total = parts[0] if parts else e.constant(0, dt.S32)
    for part in parts[1:]:
        total = e.operation("binary", "add", S32, total, part)
    return total


def _gather(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    operand, indices = i.operands
    rows = at.by_dimension(i.shape.dims).rows
    offset_dims: tuple[int, ...] = i["offset_dims"]
    batch = [rows[d] for d in range(i.shape.rank) if d not in offset_dims]
    sizes, dims = i["slice_sizes"], operand.shape.dims
    strides = element_strides(dims)
    parts = [
        scaled_index(e, index_component(e, indices, batch, i, n), dims[d] - sizes[d], strides[d])
        for n, d in enumerate(i["start_index_map"])
    ]
    place = _window_rows(e, i, rows, batch)
    position, steps = AccessMap(e.extents, place).position(dims)
    index = added(e, parts)
    return e.load_at(e.memory.array(operand), i.shape.element_type, position, steps, index)


def _window_rows(
    e: Expression,
    i: HloInstruction,
    rows: Sequence[tuple[int, tuple[int, ...]]],
    batch: Sequence[tuple[int, tuple[int, ...]]],
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Where in the gathered slice, and along batching dimensions, an element lies."""
    zero = (0, (0,) * len(e.extents))
    batching = dict(zip(i["operand_batching_dims"], i["start_indices_batching_dims"], strict=True))
    skipped = {*i["collapsed_slice_dims"], *i["operand_batching_dims"]}
    offsets = iter(i["offset_dims"])
    made = []
    for d in range(i.operands[0].shape.rank):
        row = zero if d in skipped else rows[next(offsets)]
        if d in batching:
            axis = batching[d]
            row = batch[axis - (1 if axis > i["index_vector_dim"] else 0)]
        made.append(row)
    return tuple(made)


def index_component(
    e: Expression,
    indices: HloInstruction,
    batch: Sequence[tuple[int, tuple[int, ...]]],
    i: HloInstruction,
    component: int,
) -> Node:
    """Component of the index vectors of gather or scatter, at the batch coordinates."""
    at: int = i["index_vector_dim"]
    rows = [*batch]
    if at < indices.shape.rank:
        rows.insert(at, (component, (0,) * len(e.extents)))
    return e.node(indices, AccessMap(e.extents, tuple(rows)))


# Windows


def _reduce_window(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    if len(i.operands) != 2:
        raise NotAffineError
    array, dims = e.memory.window_array(i)
    window = i["window"]
    rows = at.by_dimension(i.shape.dims).rows
    total = e.node(i.operands[1], _at_zero(e, i.operands[1]))
    dtype = i.shape.element_type
    wide = accumulates_in_f32(i["to_apply"], dtype)
    total = e.converted(total, F32) if wide else total
    for offsets in np.ndindex(*(w.size for w in window)):
        placed = tuple(
            (start * w.stride + o * w.window_dilation, tuple(c * w.stride for c in coefficients))
            for (start, coefficients), w, o in zip(rows, window, offsets, strict=True)
        )
        position, steps = AccessMap(e.extents, placed).position(dims)
        element = e.load_at(array, dtype, position, steps)
        total = combine(e, i["to_apply"], [total], [e.converted(element, total.type)])[0]
    return e.converted(total, number_of(dtype))


def accumulates_in_f32(reducer: HloComputation, dtype: PrimitiveType) -> bool:
    """True for sums and products of bf16, which are kept wide until the end."""
    return dtype is dt.BF16 and reducer.root.opcode in ("add", "multiply")


def combine(
    e: Expression, reducer: HloComputation, left: Sequence[Node], right: Sequence[Node]
) -> list[Node]:
    """A reducer on two sets of values; one instruction on f32 where it keeps bf16 wide."""
    declared = number_of(reducer.parameters[0].shape.element_type)
    if len(left) == 1 and left[0].type != declared:
        return [e.operation("binary", BINARY[reducer.root.opcode], left[0].type, *left, *right)]
    return e.called(reducer, [*left, *right])


def name_input(e: Expression, name: object, type_: int, depends: tuple[bool, ...]) -> Node:
    """A value that will lie in the scratchpad."""
    return Input(type_, depends, (), name)


Rule = Callable[[Expression, HloInstruction, AccessMap], Node]
_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "constant": _constant,
        "broadcast": _broadcast,
        "transpose": _transpose,
        "reshape": _reshape,
        "bitcast": _bytes,
        "copy": _same,
        "opt-barrier": _same,
        "slice": _slice,
        "reverse": _reverse,
        "iota": _iota,
        "bitcast-convert": _bitcast,
        "dynamic-slice": _dynamic_slice,
        "gather": _gather,
        "reduce-window": _reduce_window,
    }
)
"""Opcodes that are no stage of their own and not elementwise."""
