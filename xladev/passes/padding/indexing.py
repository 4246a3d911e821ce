"""Padding of opcodes that read and write at indices: bounds are the live sizes."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.passes.expansions.emit import Emitter
from xladev.passes.padding import sizes as sz
from xladev.passes.padding.values import Padded, Rules, Size, Value, arrays, masked, padded


def _clamped(
    e: Emitter, start: HloInstruction, size: HloInstruction, extent: int
) -> HloInstruction:
    """A start moved so that ``extent`` elements are inside the live ones."""
    last = sz.at_least(e, e.subtract(size, extent), 0)
    kind = start.shape.element_type
    return e.elementwise("minimum", start, e.convert(last, kind))


def _starts(
    e: Emitter, operand: Padded, starts: Sequence[Padded], extents: Sequence[int]
) -> list[HloInstruction] | None:
    """Starts of a slice, inside the live sizes; None for starts that are one vector."""
    if len(starts) == 1 and starts[0].data.shape.rank == 1:
        return None
    return [
        s.data if (size := operand.size(d)) is None else _clamped(e, s.data, size, extents[d])
        for d, s in enumerate(starts)
    ]


def _dynamic_slice(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value | None:
    operand, *starts = arrays(values)
    extents = i["dynamic_slice_sizes"]
    inside = _starts(e, operand, starts, extents)
    if inside is None:
        return None
    return Padded(e.op("dynamic-slice", operand.data, *inside, dynamic_slice_sizes=extents))


def _dynamic_update_slice(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value | None:
    operand, update, *starts = arrays(values)
    inside = _starts(e, operand, starts, update.data.shape.dims)
    if inside is None or update.is_dynamic:
        return None
    return padded(e.op("dynamic-update-slice", operand.data, update.data, *inside), operand.sizes)


def _gather(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value | None:
    operand, indices = arrays(values)
    dims, extents = IndexDims.of_gather(i), tuple(i["slice_sizes"])
    rank = operand.data.shape.rank
    whole = [d for d in range(rank) if extents[d] == operand.data.shape.dims[d]]
    if any(operand.size(d) is not None and d in dims.batching for d in range(rank)):
        return None
    found = indices.data
    for component, d in enumerate(dims.index_map):
        size = operand.size(d)
        if size is not None and d not in whole:
            found = _limited(e, found, dims.vector_dim, component, (size, extents[d]))
    made = e.op("gather", operand.data, found, **i.attrs)
    batch = [indices.size(d) for d in dims.batch_dims(indices.data.shape.rank)]
    window = [operand.size(d) if d in whole else None for d in dims.windowed(rank)]
    vectors, windows = iter(batch), iter(window)
    sizes = [next(windows) if d in dims.window else next(vectors) for d in range(i.shape.rank)]
    return padded(made, sizes)


def _limited(
    e: Emitter,
    indices: HloInstruction,
    vector_dim: int,
    component: int,
    bounds: tuple[HloInstruction, int],
) -> HloInstruction:
    """Index vectors whose one component is moved inside the live elements."""
    moved = _clamped(e, indices, *bounds)
    if vector_dim == indices.shape.rank:
        return moved
    number = e.iota(dt.S32, indices.shape.dims, vector_dim)
    return e.select(e.compare("EQ", number, component), moved, indices)


def _scatter(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value | None:
    """Index vectors that are not live point nowhere."""
    operands = arrays(values)
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    dims = IndexDims.of_scatter(i)
    kind = indices.data.shape.element_type
    windows = [u.size(d) for u in updates for d in dims.window]
    bounds = [x.size(d) for x in inputs for d in dims.windowed(x.data.shape.rank)]
    if not kind.is_signed or dims.batching or any(s is not None for s in (*windows, *bounds)):
        return None
    batch = dims.batch_dims(indices.data.shape.rank)
    axes = dims.batch_axes(updates[0].data.shape.rank)
    sizes: list[Size] = [None] * indices.data.shape.rank
    for d, axis in zip(batch, axes, strict=True):
        sizes[d] = indices.size(d) or next(
            (s for u in updates if (s := u.size(axis)) is not None), None
        )
    kept = masked(e, padded(indices.data, sizes), batch, -1)
    made = e.op("scatter", *(x.data for x in inputs), kept, *(u.data for u in updates), **i.attrs)
    if not i.shape.is_tuple:
        return padded(made, inputs[0].sizes)
    return tuple(padded(p, x.sizes) for p, x in zip(e.parts(made), inputs, strict=True))


RULES: Rules = MappingProxyType(
    {
        "dynamic-slice": _dynamic_slice,
        "dynamic-update-slice": _dynamic_update_slice,
        "gather": _gather,
        "scatter": _scatter,
    }
)
