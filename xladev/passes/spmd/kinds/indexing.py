"""Gather and scatter: of an array that is cut where it is indexed, each device sees its part."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.hlo.sharding.factors import FactorKind
from xladev.passes.spmd.operation import Operation


def gather(o: Operation) -> HloInstruction:
    """Where no element of this device is meant, the result is what adds nothing."""
    i, b = o.instruction, o.b
    x, indices = i.operands
    dims = IndexDims.of_gather(i)
    cut = o.sharding(0)
    local = o.operands[0].shape.dims
    sizes = tuple(
        local[d] if cut.dims[d] and size == x.shape.dims[d] and d not in dims.dropped else size
        for d, size in enumerate(i["slice_sizes"])
    )
    masked = [
        d for d in dims.dropped
        if cut.dims[d] and any(o.rule.kinds[f] is FactorKind.REDUCE for f in o.rule.operands[0][d])
    ]  # fmt: skip
    if not masked:
        return o.local(slice_sizes=sizes)
    batch, places = _components(o, o.operands[1], dims, indices.shape.rank)
    inside = None
    for d in masked:
        n = dims.index_map.index(d)
        last = x.shape.dims[d] - 1
        clamped = b.op("clamp", b.scalar(0, dt.S64), places[n], b.scalar(last, dt.S64))
        start = b.convert(b.start(cut, x.shape.dims, d), dt.S64)
        places[n] = b.subtract(clamped, start)
        own = b.op(
            "and", b.compare("GE", places[n], 0), b.compare("LT", places[n], local[d])
        )
        inside = own if inside is None else b.op("and", inside, own)
    assert inside is not None
    joined = _joined(o, places, dims.vector_dim, indices.shape.rank, batch)
    found = o.local([o.operands[0], joined], slice_sizes=sizes)
    return _select_rows(o, dims, inside, found)


def _components(
    o: Operation, indices: HloInstruction, dims: IndexDims, rank: int
) -> tuple[tuple[int, ...], list[HloInstruction]]:
    """The components of the index vectors, as s64 without the dimension of vectors."""
    b = o.b
    wide = b.convert(indices, dt.S64)
    axis = dims.vector_dim
    batch = tuple(n for d, n in enumerate(indices.shape.dims) if d != axis)
    if axis == rank:
        return batch, [wide]
    lines = [b.slice_in(wide, axis, n, n + 1) for n in range(len(dims.index_map))]
    return batch, [b.reshape(line, batch) for line in lines]


def _joined(
    o: Operation, places: Sequence[HloInstruction], axis: int, rank: int, batch: Sequence[int]
) -> HloInstruction:
    """Index vectors, along dimension ``axis`` of ``rank`` dimensions, of their components."""
    if axis == rank:  # the vectors are scalars, and have no dimension
        return places[0]
    one = (*batch[:axis], 1, *batch[axis:])
    return o.b.concatenate([o.b.reshape(p, one) for p in places], axis)


def _select_rows(
    o: Operation, dims: IndexDims, inside: HloInstruction, found: HloInstruction
) -> HloInstruction:
    """-0 elsewhere if it is a float: it leaves even zeros as they are when added."""
    kind = found.shape.element_type
    neutral = -0.0 if kind.is_float else 0
    at = dims.batch_axes(found.shape.rank)
    rows = o.b.broadcast(inside, found.shape.dims, at)
    if kind.is_complex:
        zero = o.b.full(complex(-0.0, -0.0), kind, found.shape.dims)
        return o.b.op("select", rows, found, zero)
    return o.b.select(rows, found, neutral)


def scatter(o: Operation) -> HloInstruction:
    """Updates of elements that other devices have fall outside of this one's part."""
    i, b = o.instruction, o.b
    count = (len(i.operands) - 1) // 2
    dims = IndexDims.of_scatter(i)
    cut = o.sharding(0)
    moved = [d for d in dims.dropped if cut.dims[d] and d in dims.index_map]
    if not moved:
        return o.local()
    indices = o.operands[count]
    batch, places = _components(o, indices, dims, i.operands[count].shape.rank)
    for d in moved:
        n = dims.index_map.index(d)
        whole = i.operands[0].shape.dims[d]
        start = b.convert(b.start(cut, i.operands[0].shape.dims, d), dt.S64)
        local = b.subtract(places[n], start)
        # an index behind the array must not meet the padding of the last part
        is_in = b.op("and", b.compare("GE", places[n], 0), b.compare("LT", places[n], whole))
        places[n] = b.select(is_in, local, -1)
    joined = _joined(o, places, dims.vector_dim, i.operands[count].shape.rank, batch)
    operands = (*o.operands[:count], joined, *o.operands[count + 1 :])
    return o.local(operands)
