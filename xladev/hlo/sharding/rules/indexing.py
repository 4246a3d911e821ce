"""Factor rules of gather and scatter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder

_NONE: Mapping[int, int] = MappingProxyType({})


def gather(i: HloInstruction, counted: Mapping[int, int] = _NONE) -> FactorRule:
    """Index vectors pass, and so do dimensions that are taken whole; what is indexed is summed.

    Where the array is cut along an indexed dimension, each device gives the elements that it has
    and zeros elsewhere: one of them has each.

    Args:
        i: the gather.
        counted: dimensions of the array, and the axes of the indices that count them: those are
            pairs of batching dimensions too.
    """
    x, indices = (o.shape for o in i.operands)
    dims = IndexDims.of_gather(i)
    b = RuleBuilder([x.rank, indices.rank], [i.shape.rank])
    vectors, places = dims.batch_dims(indices.rank), dims.batch_axes(i.shape.rank)
    paired = dict(zip(dims.indices_batching, dims.batching, strict=True))
    paired |= {axis: d for d, axis in counted.items()}
    for axis, to in zip(vectors, places, strict=True):
        b.factor([paired.get(axis), axis], [to], indices.dims[axis])
    shown = dict(zip(dims.windowed(x.rank), dims.window, strict=True))
    for d, size in enumerate(x.dims):
        if d in dims.batching or d in counted:
            continue
        seen = shown.get(d)
        if seen is not None and i.shape.dims[seen] == size:
            b.factor([d, None], [seen], size)
            continue
        is_dropped = d in dims.dropped and d in dims.index_map
        b.factor([d, None], [None], size, FactorKind.REDUCE if is_dropped else FactorKind.WHOLE)
        if seen is not None:
            b.factor([None, None], [seen], i.shape.dims[seen], FactorKind.WHOLE)
    if dims.vector_dim < indices.rank:
        b.factor([None, dims.vector_dim], [None], indices.dims[dims.vector_dim], FactorKind.WHOLE)
    return b.build()


def scatter(i: HloInstruction, counted: Mapping[int, int] = _NONE) -> FactorRule:
    """Windows that cover a dimension pass; a dimension that is indexed alone does too.

    Where the array is cut along an indexed dimension, each device takes the updates that are its
    own. Where index vectors are cut, each device makes the updates that it has, which are then
    combined, if the reducer is one that can; else they are needed whole.

    Args:
        i: the scatter.
        counted: as for `gather`.
    """
    can_combine = len(i.operands) == 3 and monoid_of(i["to_apply"]) is not None
    alone = FactorKind.REDUCE if can_combine else FactorKind.WHOLE
    count = (len(i.operands) - 1) // 2
    shapes = [o.shape for o in i.operands]
    x, indices, updates = shapes[0], shapes[count], shapes[count + 1]
    dims = IndexDims.of_scatter(i)
    b = RuleBuilder([s.rank for s in shapes], [x.rank] * count)

    def add(d: int | None, axis: int | None, to: int | None, size: int, kind: FactorKind) -> None:
        b.factor([d] * count + [axis] + [to] * count, [d] * count, size, kind)

    places = dims.batch_axes(updates.rank)
    paired = dict(zip(dims.indices_batching, dims.batching, strict=True))
    paired |= {axis: d for d, axis in counted.items()}
    for axis, to in zip(dims.batch_dims(indices.rank), places, strict=True):
        kind = FactorKind.PASS if axis in paired else alone
        add(paired.get(axis), axis, to, indices.dims[axis], kind)
    shown = dict(zip(dims.windowed(x.rank), dims.window, strict=True))
    for d, size in enumerate(x.dims):
        if d in dims.batching or d in counted:
            continue
        seen = shown.get(d)
        if seen is not None and updates.dims[seen] == size:
            add(d, None, seen, size, FactorKind.PASS)
            continue
        is_dropped = d in dims.dropped and d in dims.index_map
        add(d, None, None, size, FactorKind.PASS if is_dropped else FactorKind.WHOLE)
        if seen is not None:
            add(None, None, seen, updates.dims[seen], FactorKind.WHOLE)
    if dims.vector_dim < indices.rank:
        add(None, dims.vector_dim, None, indices.dims[dims.vector_dim], FactorKind.WHOLE)
    return b.build()
