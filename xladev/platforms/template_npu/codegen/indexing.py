"""Reads at indices that are known when the program runs: DMA descriptors with an index operand.

What a vendor replaces: all of it, if their DMA takes no indices; `support.py` then says no.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.platforms.template_npu.codegen.access_map import AccessMap, Row, element_strides
from xladev.platforms.template_npu.codegen.expression import S32, Expression
from xladev.platforms.template_npu.codegen.nodes import Node
from xladev.platforms.template_npu.device import isa


def read_dynamic_slice(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """A dynamic-slice: a load whose place is computed from scalars on the device."""
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


def read_gather(e: Expression, i: HloInstruction, at: AccessMap) -> Node:
    """A gather: a load whose place is computed from the indices, clamped to the operand."""
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
    rows: Sequence[Row],
    batch: Sequence[Row],
) -> tuple[Row, ...]:
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
    batch: Sequence[Row],
    i: HloInstruction,
    component: int,
) -> Node:
    """Component of the index vectors of gather or scatter, at the batch coordinates."""
    at: int = i["index_vector_dim"]
    rows = [*batch]
    if at < indices.shape.rank:
        rows.insert(at, (component, (0,) * len(e.extents)))
    return e.node(indices, AccessMap(e.extents, tuple(rows)))
