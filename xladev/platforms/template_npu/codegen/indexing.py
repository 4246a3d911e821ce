"""Reads at indices that are known when the program runs: DMA descriptors with an index operand.

What a vendor replaces: all of it, if their DMA takes no indices; `support.py` then says no.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
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
    dims, sizes = IndexDims.of_gather(i), i["slice_sizes"]
    batch = [rows[d] for d in dims.batch_axes(i.shape.rank)]
    whole = operand.shape.dims
    strides = element_strides(whole)
    parts = [
        scaled_index(
            e, index_component(e, indices, batch, dims, n), whole[d] - sizes[d], strides[d]
        )
        for n, d in enumerate(dims.index_map)
    ]
    place = window_rows(e, dims, operand.shape.rank, rows, batch)
    position, steps = AccessMap(e.extents, place).position(whole)
    index = added(e, parts)
    return e.load_at(e.memory.array(operand), i.shape.element_type, position, steps, index)


def window_rows(
    e: Expression, dims: IndexDims, rank: int, rows: Sequence[Row], batch: Sequence[Row]
) -> tuple[Row, ...]:
    """Where in its window, and along batching dimensions, an element of the windowed side is.

    Args:
        e: whose loops coordinates depend on.
        dims: of a gather or a scatter.
        rank: of the array that is indexed.
        rows: coordinates of the windowed side.
        batch: those of them that run over the index vectors.

    Returns:
        Coordinates by dimension of the array; 0 where the window does not show it.
    """
    zero = (0, (0,) * len(e.extents))
    batching, hidden, shown = dims.batch_numbers, dims.hidden, iter(dims.window)
    made: list[Row] = []
    for d in range(rank):
        if d in batching:
            made.append(batch[batching[d]])
        else:
            made.append(zero if d in hidden else rows[next(shown)])
    return tuple(made)


def index_component(
    e: Expression,
    indices: HloInstruction,
    batch: Sequence[Row],
    dims: IndexDims,
    component: int,
) -> Node:
    """Component of the index vectors of gather or scatter, at the batch coordinates."""
    rows = [*batch]
    if dims.vector_dim < indices.shape.rank:
        rows.insert(dims.vector_dim, (component, (0,) * len(e.extents)))
    return e.node(indices, AccessMap(e.extents, tuple(rows)))
