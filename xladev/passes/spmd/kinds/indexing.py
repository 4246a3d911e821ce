"""Gather and scatter: of an array that is cut where it is indexed, each device sees its part."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.hlo.sharding.factors import FactorKind, FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.spmd.kinds.counted import counted_dims
from xladev.passes.spmd.local_builder import identity_of
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
    counted = [d for d in counted_dims(i) if cut.dims[d] and d not in masked]
    if not masked and not counted:
        return o.local(slice_sizes=sizes)
    batch, places = _components(o, o.operands[1], dims, indices.shape.rank)
    for d in counted:
        n = dims.index_map.index(d)
        places[n] = b.subtract(places[n], b.convert(b.start(cut, x.shape.dims, d), dt.S64))
    inside = None
    for d in masked:
        n = dims.index_map.index(d)
        last = x.shape.dims[d] - 1
        clamped = b.op("clamp", b.scalar(0, dt.S64), places[n], b.scalar(last, dt.S64))
        start = b.convert(b.start(cut, x.shape.dims, d), dt.S64)
        places[n] = b.subtract(clamped, start)
        own = b.op("and", b.compare("GE", places[n], 0), b.compare("LT", places[n], local[d]))
        inside = own if inside is None else b.op("and", inside, own)
    joined = _joined(o, places, dims.vector_dim, indices.shape.rank, batch)
    found = o.local([o.operands[0], joined], slice_sizes=sizes, indices_are_sorted=False)
    return found if inside is None else _select_rows(o, dims, inside, found)


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
    """Updates that are not this device's fall outside of its part.

    Where index vectors are cut, the array itself takes part in the sum of all devices once.
    """
    i, b = o.instruction, o.b
    count = (len(i.operands) - 1) // 2
    dims = IndexDims.of_scatter(i)
    shape = i.operands[count].shape
    moved = [d for d in dims.dropped if o.sharding(0).dims[d] and d in dims.index_map]
    alone = [d for d in dims.batch_dims(shape.rank) if d not in dims.indices_batching]
    padded = [d for d in alone if shape.dims[d] % o.sharding(count).counts[d]]
    arrays = list(o.operands)
    if o.division.partial:
        arrays[0] = _on_first(o)
    if not moved and not padded:
        return o.local(arrays)
    batch, places = _components(o, o.operands[count], dims, shape.rank)
    for d in moved:
        n = dims.index_map.index(d)
        whole = i.operands[0].shape.dims[d]
        start = b.convert(b.start(o.sharding(0), i.operands[0].shape.dims, d), dt.S64)
        # an index behind the array must not meet the padding of the last part
        is_in = b.op("and", b.compare("GE", places[n], 0), b.compare("LT", places[n], whole))
        places[n] = b.select(is_in, b.subtract(places[n], start), -1)
    joined = _joined(o, places, dims.vector_dim, shape.rank, batch)
    arrays[count] = b.masked(joined, shape.dims, o.sharding(count), padded, -1)
    return o.local(arrays, indices_are_sorted=False)


def _on_first(o: Operation) -> HloInstruction:
    """The array on one device of those that combine their updates; on others what adds nothing."""
    b, x = o.b, o.operands[0]
    neutral = identity_of(o.instruction["to_apply"].root.opcode, x.shape.element_type)
    assert neutral is not None
    is_first = b.compare("EQ", b.chosen(o.grid.index(o.division.partial)), 0)
    flags = b.broadcast(is_first, x.shape.dims, ())
    return b.op("select", flags, x, b.full_like(x, neutral))


def may_scatter(i: HloInstruction, rule: FactorRule, factor: int, atoms: Atoms, g: Grid) -> bool:
    """True if the reducer has an identity, and padding of index vectors can be masked."""
    root = i["to_apply"].root
    if identity_of(root.opcode, i.shape.element_type) is None:
        return False
    return rule.sizes[factor] % g.count(atoms) == 0 or bool(i["scatter_dims_to_operand_dims"])
