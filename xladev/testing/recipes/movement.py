"""Recipes for opcodes that move data, by static rules and at run-time indices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.dtype import ARRAY_TYPES, COMPLEXES, FLOATS, INTEGERS
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Layout, array, row_major
from xladev.testing.draw import Dims, Draw, Recipe
from xladev.testing.recipes.computations import reducer, replacement, variadic_reducer

_INDEX_TYPES = (dt.S32, dt.S64, dt.U32, dt.U8, dt.S8, dt.U64)


def _broadcast(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    extra = d.integer(0, 2)
    rank = value.shape.rank + extra
    at = d.subset(rank, least=value.shape.rank)[: value.shape.rank]
    at = tuple(sorted(d.random.sample(range(rank), value.shape.rank)))
    sizes = [d.pick((1, 2, 3)) for _ in range(rank)]
    for dimension, size in zip(at, value.shape.dims, strict=True):
        sizes[dimension] = size
    shape = array(value.shape.element_type, sizes, layout=d.layout(rank))
    return d.op("broadcast", value, shape=shape, dimensions=at)


def _reshape(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    return d.op(
        "reshape", value, shape=array(value.shape.element_type, _refactored(d, value.shape.dims))
    )


def _refactored(d: Draw, dims: Dims) -> Dims:
    """Other dimensions of the same number of elements."""
    total = prod(dims)
    if total == 0:
        return tuple(d.random.sample(dims, len(dims)))
    made: list[int] = []
    while total > 1 and len(made) < 5:
        factors = [f for f in range(2, total + 1) if total % f == 0]
        made.append(d.pick(factors))
        total //= made[-1]
    if total > 1:
        made.append(total)
    for _ in range(d.integer(0, 2)):
        made.insert(d.integer(0, len(made)), 1)
    return tuple(made)


def _transpose(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    return d.op("transpose", value, dimensions=d.permutation(value.shape.rank))


def _reverse(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    return d.op("reverse", value, dimensions=d.subset(value.shape.rank))


def _slice(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    dims: list[SliceDim] = []
    for size in value.shape.dims:
        start = d.integer(0, size)
        dims.append(SliceDim(start, d.integer(start, size), d.pick((1, 1, 2, 3))))
    return d.op("slice", value, slice=tuple(dims))


def _pad(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    dims: list[PadDim] = []
    for size in value.shape.dims:
        interior = d.pick((0, 0, 1, 2))
        extent = max(size - 1, 0) * (interior + 1) + min(size, 1)
        low = d.integer(-2, 3)
        high = max(d.integer(-2, 3), -(extent + low))
        dims.append(PadDim(low if extent + low + high >= 0 else 0, max(high, -extent), interior))
    dims = [
        p if _padded(p, s) >= 0 else PadDim(0, 0, 0)
        for p, s in zip(dims, value.shape.dims, strict=True)
    ]
    fill = d.value(value.shape.element_type, ())
    return d.op("pad", value, fill, padding=tuple(dims))


def _padded(p: PadDim, size: int) -> int:
    return p.low + p.high + (max(size - 1, 0) * (p.interior + 1) + 1 if size else 0)


def _concatenate(d: Draw) -> HloInstruction:
    first = d.any_value(ARRAY_TYPES, least_rank=1)
    axis = d.integer(0, first.shape.rank - 1)
    operands = [first]
    for _ in range(d.integer(0, 3)):
        dims = list(first.shape.dims)
        dims[axis] = d.integer(0, 4)
        operands.append(d.value(first.shape.element_type, tuple(dims)))
    return d.op("concatenate", *operands, dimensions=(axis,))


def _iota(d: Draw) -> HloInstruction:
    dtype = d.dtype([t for t in (*INTEGERS, *FLOATS, *COMPLEXES) if t is not dt.F8E8M0FNU])
    dims = d.dims(least_rank=1)
    return d.op("iota", shape=array(dtype, dims), iota_dimension=d.integer(0, len(dims) - 1))


def _copy(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    return d.op("copy", value, shape=value.shape.with_layout(_any_layout(d, value.shape.rank)))


def _any_layout(d: Draw, rank: int) -> Layout:
    return Layout(d.permutation(rank)) if d.chance(0.6) else row_major(rank)


def _bitcast(d: Draw) -> HloInstruction:
    """The same bytes under another shape, layout and type of equal width."""
    value = d.known_bits(ARRAY_TYPES)
    dtype = value.shape.element_type
    dims = _refactored(d, value.shape.dims)
    if d.chance(0.3) and dtype.bits >= 8 and dtype is not dt.PRED and not dtype.is_complex:
        dtype = d.pick([t for t in (*INTEGERS, *FLOATS) if t.bits == dtype.bits])
    return d.op("bitcast", value, shape=array(dtype, dims, layout=_any_layout(d, len(dims))))


def _starts(d: Draw, count: int) -> list[HloInstruction]:
    dtype = d.pick(_INDEX_TYPES)
    return [d.value(dtype, (), exact=True) for _ in range(count)]


def _dynamic_slice(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    sizes = tuple(d.integer(0, size) for size in value.shape.dims)
    starts = _starts(d, value.shape.rank)
    return d.op("dynamic-slice", value, *starts, dynamic_slice_sizes=sizes)


def _dynamic_update_slice(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    sizes = tuple(d.integer(0, size) for size in value.shape.dims)
    update = d.value(value.shape.element_type, sizes)
    return d.op("dynamic-update-slice", value, update, *_starts(d, value.shape.rank))


def _gather(d: Draw) -> HloInstruction:
    operand = d.any_value(ARRAY_TYPES, least_rank=1)
    dims = operand.shape.dims
    rank = operand.shape.rank
    batch = d.dims(0, 2)
    batching = (d.integer(0, rank - 1),) if batch and rank > 1 and d.chance(0.25) else ()
    if batching:
        batch = (dims[batching[0]], *batch[1:])
    mapped = tuple(x for x in d.random.sample(range(rank), d.integer(0, rank)) if x not in batching)
    sizes = [d.integer(0 if size == 0 else 1, size) for size in dims]
    for x in batching:
        sizes[x] = min(dims[x], 1)
    collapsed = tuple(
        x for x in range(rank) if x not in batching and sizes[x] == 1 and d.chance(0.6)
    )
    if prod(batch) * prod(sizes) > d.most_elements:
        batch = tuple(1 for _ in batch) if not batching else batch
    vector_dim = d.integer(0, len(batch))
    implicit = len(mapped) == 1 and d.chance(0.5)
    index_dims = batch if implicit else (*batch[:vector_dim], len(mapped), *batch[vector_dim:])
    if implicit:
        vector_dim = len(batch)
    window_rank = rank - len(collapsed) - len(batching)
    offset = tuple(sorted(d.random.sample(range(window_rank + len(batch)), window_rank)))
    at = 0 if vector_dim > 0 or implicit else 1
    indices = d.value(d.pick(_INDEX_TYPES), index_dims, exact=True)
    return d.op(
        "gather",
        operand,
        indices,
        offset_dims=offset,
        collapsed_slice_dims=collapsed,
        start_index_map=mapped,
        operand_batching_dims=batching,
        start_indices_batching_dims=(at,) if batching else (),
        index_vector_dim=vector_dim,
        slice_sizes=tuple(sizes),
    )


def _scatter(d: Draw) -> HloInstruction:
    operand = d.any_value(ARRAY_TYPES, least_rank=1)
    dims, rank = operand.shape.dims, operand.shape.rank
    batch = d.dims(0, 2)
    batching = (d.integer(0, rank - 1),) if batch and rank > 1 and d.chance(0.25) else ()
    if batching:
        batch = (dims[batching[0]], *batch[1:])
    free = [x for x in range(rank) if x not in batching]
    mapped = tuple(d.random.sample(free, d.integer(0, len(free))))
    inserted = tuple(x for x in free if dims[x] and d.chance(0.5))
    kept = [dims[x] for x in free if x not in inserted]
    window = [d.integer(0 if size == 0 else 1, size) for size in kept]
    vector_dim = d.integer(0, len(batch))
    index_dims = (*batch[:vector_dim], len(mapped), *batch[vector_dim:])
    update_rank = len(window) + len(batch)
    window_dims = tuple(sorted(d.random.sample(range(update_rank), len(window))))
    window_at, batch_at = iter(window), iter(batch)
    update = tuple(
        next(window_at) if x in window_dims else next(batch_at) for x in range(update_rank)
    )
    indices = d.value(d.pick(_INDEX_TYPES), index_dims, exact=True)
    operands, body = _scatter_operands(d, operand)
    updates = [d.value(o.shape.element_type, update) for o in operands]
    return d.op(
        "scatter",
        *operands,
        indices,
        *updates,
        update_window_dims=window_dims,
        inserted_window_dims=inserted,
        scatter_dims_to_operand_dims=mapped,
        input_batching_dims=batching,
        scatter_indices_batching_dims=((0 if vector_dim else 1),) if batching else (),
        index_vector_dim=vector_dim,
        to_apply=body,
    )


def _scatter_operands(
    d: Draw, operand: HloInstruction
) -> tuple[list[HloInstruction], HloComputation]:
    """One operand or two, and how updates are combined with them: reduced, or replaced."""
    dtype = operand.shape.element_type
    if d.chance(0.2):
        other = d.value(d.dtype(ARRAY_TYPES), operand.shape.dims)
        return [operand, other], variadic_reducer(d, [dtype, other.shape.element_type])
    if d.chance(0.25):
        return [operand], replacement(d, dtype)
    return [operand], reducer(d, dtype)


MOVEMENT: Mapping[str, Recipe] = MappingProxyType(
    {
        "broadcast": _broadcast,
        "reshape": _reshape,
        "transpose": _transpose,
        "reverse": _reverse,
        "slice": _slice,
        "pad": _pad,
        "concatenate": _concatenate,
        "iota": _iota,
        "copy": _copy,
        "bitcast": _bitcast,
        "dynamic-slice": _dynamic_slice,
        "dynamic-update-slice": _dynamic_update_slice,
        "gather": _gather,
        "scatter": _scatter,
    }
)
"""Recipe by opcode."""
