"""Distances between points, reductions of segments, bags of embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.frontends.torch.lower.cumulative import cumulated
from xladev.frontends.torch.lower.indexing import put, scatter, take
from xladev.frontends.torch.lower.reductions import norm
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.frontends.torch.lower.views import concatenate
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

DISTANCES = Family("distances", "Distances, segments, bags of embeddings.", wide=True)
_lowers = DISTANCES.lowers


def _between(x: Value, y: Value) -> Value:
    """[..., rows of x, rows of y, size]: the differences."""
    left = x.reshape((*x.dims[:-1], 1, x.dims[-1]))
    right = y.reshape((*y.dims[:-2], 1, *y.dims[-2:]))
    return left - right


@_lowers("_cdist_forward.default", sample="cdist")
def _cdist(
    b: TensorBuilder, out: Shape, x: Value, y: Value, order: float, mode: int | None
) -> Value:
    """The distance of each point of one set from each of another."""
    if not x.dims[-1] or not math.prod(out.dims):
        return b.full(0, x.dtype, out.dims)
    away = _between(x, y)
    return norm(away.abs(), order, (away.rank - 1,)).expand(out.dims)


def _slope(away: Value, distance: Value, order: float) -> Value:
    """How a distance changes with each coordinate."""
    sign = away.op("sign")
    size = away.abs()
    if order == 0:
        return away.like(0)
    if order == 1:
        return sign
    if order == math.inf:
        return size.eq(distance).where(sign, 0)
    if order == 2:
        return distance.eq(0).where(0, away / distance)
    zero = distance.eq(0) | (size.eq(0) if order < 1 else distance.eq(0))
    return zero.where(0, sign * size.power(order - 1) * distance.power(1 - order))


@_lowers("_cdist_backward.default", sample="cdist")
def _cdist_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, y: Value, order: float, d: Value
) -> Value:
    """The gradient of the first set."""
    if not math.prod(out.dims) or not y.size:
        return b.full(0, x.dtype, out.dims)
    away = _between(x, y)
    kept = (*d.dims, 1)
    shares = gradient.reshape(kept) * _slope(away, d.reshape(kept), order)
    return shares.sum((shares.rank - 2,)).expand(out.dims)


def _pairs(count: int) -> tuple[Any, Any]:
    first, second = np.triu_indices(count, 1)
    return first.astype(np.int64), second.astype(np.int64)


def _pair_values(x: Value) -> tuple[Value, Value, Value]:
    """The differences of all pairs, and the numbers of their points."""
    first, second = (x.builder.literal(at, dt.S64) for at in _pairs(x.dims[0]))
    return take(x, first, 0) - take(x, second, 0), first, second


@_lowers("_pdist_forward.default", sample="nn.functional.pdist")
def _pdist(b: TensorBuilder, out: Shape, x: Value, order: float = 2) -> Value:
    """The distances of all pairs of points."""
    if not math.prod(out.dims) or not x.size:
        return b.full(0, x.dtype, out.dims)
    return norm(_pair_values(x)[0].abs(), order, (1,))


@_lowers("_pdist_backward.default", sample="nn.functional.pdist")
def _pdist_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, order: float, d: Value
) -> Value:
    """The gradient of the points."""
    if not x.size or not d.size:
        return b.full(0, x.dtype, out.dims)
    away, first, second = _pair_values(x)
    kept = (*d.dims, 1)
    shares = gradient.reshape(kept) * _slope(away, d.reshape(kept), order)
    add = b.combiner("add", x.dtype)
    zeros = b.full(0, x.dtype, x.dims)
    return put(put(zeros, first, 0, shares, add), second, 0, -shares, add)


# Segments


def _bounds(lengths: Value | None, offsets: Value | None) -> tuple[Value, Value]:
    """First index of each segment and the one behind its last, s64 [..., segments]."""
    if offsets is not None:
        at = offsets.cast(dt.S64)
        last = at.rank - 1
        return at.slice(last, 0, at.dims[-1] - 1), at.slice(last, 1, at.dims[-1])
    assert lengths is not None
    sizes = lengths.cast(dt.S64)
    ends = cumulated(sizes, sizes.rank - 1, "add", 0)
    return ends - sizes, ends


def _members(
    x: Value, lengths: Value | None, offsets: Value | None, axis: int
) -> tuple[Value, Value]:
    """[..., segments, elements, rest]: whether an element is of a segment; and segments' sizes."""
    first, behind = _bounds(lengths, offsets)
    dims = (*x.dims[:axis], first.dims[-1], *x.dims[axis:])
    at = x.builder.iota(dt.S64, dims, axis + 1)
    lead = range(axis + 1)
    inside = at.ge(first.place(dims, lead)) & at.lt(behind.place(dims, lead))
    return inside, behind - first


def _over(x: Value, segments: int, axis: int) -> Value:
    """An array repeated for each segment."""
    dims = (*x.dims[:axis], segments, *x.dims[axis:])
    return x.place(dims, [d if d < axis else d + 1 for d in range(x.rank)])


_STARTS: dict[str, tuple[str, float]] = {
    "sum": ("add", 0), "mean": ("add", 0), "prod": ("multiply", 1),
    "max": ("maximum", -math.inf), "min": ("minimum", math.inf),
}  # fmt: skip


@_lowers("segment_reduce.default", sample="_segment_reduce.lengths")
def _segment_reduce(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    indices: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Value:
    """Sum, mean, product or extreme of each run of elements."""
    opcode, start = _STARTS[reduce]
    inside, sizes = _members(x, lengths, offsets, axis)
    values = inside.where(_over(x, sizes.dims[-1], axis), start)
    found = values.reduce(opcode, start, (axis + 1,))
    if initial is not None:
        found = found.op(opcode, found.like(initial))
    if reduce != "mean":
        return found
    counts = sizes.place(found.dims, range(axis + 1))
    empty = found if initial is not None else found.like(math.nan)
    return counts.eq(0).where(empty, found / counts.maximum(1).cast(x.dtype))


@_lowers("_segment_reduce_backward.default", sample="_segment_reduce.lengths")
def _segment_reduce_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    result: Value,
    x: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    initial: Number | None = None,
) -> Value:
    """The gradient of what was reduced in runs."""
    inside, sizes = _members(x, lengths, offsets, axis)
    count = sizes.dims[-1]

    def each(y: Value) -> Value:
        return y.place(inside.dims, [d if d <= axis else d + 1 for d in range(y.rank)])

    values, shares = _over(x, count, axis), each(gradient)
    if reduce == "mean":
        sizes = sizes.place(gradient.dims, range(axis + 1)).cast(x.dtype)
        shares = each(gradient / sizes.maximum(1))
    elif reduce in ("max", "min"):
        best = inside & (values.eq(each(result)) | values.is_nan())
        ties = best.cast(x.dtype).sum((axis + 1,))
        inside, shares = best, each(gradient / ties.maximum(1))
    elif reduce == "prod":
        shares = shares * _others(values, inside, axis, initial)
    return inside.where(shares, 0).sum((axis,))


def _others(values: Value, inside: Value, axis: int, initial: Number | None) -> Value:
    """The product of all other elements of a segment."""
    only = inside.where(values, 1)
    d = axis + 1
    before = cumulated(only, d, "multiply", 1)
    after = cumulated(only.reverse((d,)), d, "multiply", 1).reverse((d,))
    size = only.dims[d]
    first, last = [(0, 0, 0)] * only.rank, [(0, 0, 0)] * only.rank
    first[d], last[d] = (1, -1, 0), (-1, 1, 0)
    product = before.pad(first, 1) * after.pad(last, 1) if size else only
    return product if initial is None else product * initial


# Bags of embeddings

_SUM, _MEAN, _MAX = 0, 1, 2


@_lowers(
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
    sample="nn.functional.embedding_bag",
)
def _embedding_bag(
    b: TensorBuilder,
    out: Sequence[Shape],
    weight: Value,
    indices: Value,
    offsets: Value,
    by_frequency: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    weights: Value | None = None,
    include_last: bool = False,
    padding: int = -1,
) -> list[Value]:
    """Sums, means or extremes of rows of a table, bag by bag; what the gradient needs of it."""
    bags, count = out[0].dims[0], indices.size
    at = indices.cast(dt.S64)
    starts = offsets.cast(dt.S64).slice(0, 0, bags)
    ends = concatenate([starts.slice(0, 1, bags), b.full(count, dt.S64, (1,))], 0)
    number = b.iota(dt.S64, (bags, count), 1)
    inside = number.ge(starts.place((bags, count), (0,))) & number.lt(
        ends.place((bags, count), (0,))
    )
    bag = inside.where(b.iota(dt.S64, (bags, count), 0), 0).sum((0,))
    counted = inside & at.ne(padding).place((bags, count), (1,)) if padding >= 0 else inside
    sizes = counted.cast(dt.S64).sum((1,))
    rows = take(weight, at, 0)
    if weights is not None:
        rows = rows * weights.reshape((count, 1))
    empty = b.full(0, dt.S64, out[3].dims)
    if mode == _MAX:
        found, places = _largest_rows(rows, counted, at)
        last = places if places.dims == out[3].dims else empty
    else:
        found = counted.cast(rows.dtype).dot(rows, (1,), (0,))
        if mode == _MEAN:
            found = found / sizes.maximum(1).cast(found.dtype).reshape((bags, 1))
        last = sizes.cast(dt.S64) if out[3].dims == sizes.dims else empty
    bag = bag if bag.dims == out[1].dims else b.full(0, dt.S64, out[1].dims)
    kept = sizes if sizes.dims == out[2].dims else b.full(0, dt.S64, out[2].dims)
    return [found, bag, kept, last]


def _largest_rows(rows: Value, counted: Value, at: Value) -> tuple[Value, Value]:
    """For each bag and column the largest, and the row of the table it is from."""
    dims = (*counted.dims, rows.dims[1])
    mask = counted.place(dims, (0, 1))
    spread = rows.place(dims, (1, 2))
    best = mask.where(spread, -math.inf).reduce("maximum", -math.inf, (1,))
    here = mask & spread.eq(best.place(dims, (0, 2)))
    number = here.where(at.place(dims, (1,)), -1).reduce("maximum", -1, (1,))
    some = counted.reduce("or", False, (1,)).place(best.dims, (0,))
    return some.where(best, 0), number


@_lowers("_embedding_bag_backward.default", sample="nn.functional.embedding_bag")
def _embedding_bag_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    indices: Value,
    offsets: Value,
    bag: Value,
    sizes: Value,
    largest: Value,
    rows: int,
    by_frequency: bool,
    mode: int,
    sparse: bool,
    weights: Value | None,
    padding: int = -1,
) -> Value:
    """The gradient of the table."""
    add = b.combiner("add", gradient.dtype)
    zeros = b.full(0, gradient.dtype, (rows, gradient.dims[1]))
    if mode == _MAX:
        kept = largest.ge(0)
        return scatter(zeros, 0, largest.maximum(0), kept.where(gradient, 0), add)
    at = indices.cast(dt.S64)
    shares = gradient
    if mode == _MEAN:
        shares = gradient / sizes.maximum(1).cast(gradient.dtype).reshape((gradient.dims[0], 1))
    updates = take(shares, bag.cast(dt.S64), 0)
    if weights is not None:
        updates = updates * weights.reshape((at.size, 1))
    if by_frequency:
        ones = b.full(1, gradient.dtype, (at.size, 1))
        counts = put(b.full(0, gradient.dtype, (rows, 1)), at, 0, ones, add)
        updates = updates / take(counts, at, 0)
    if padding >= 0:
        updates = at.ne(padding).reshape((at.size, 1)).where(updates, 0)
    return put(zeros, at, 0, updates, add)


@_lowers("_embedding_bag_per_sample_weights_backward.default", sample="nn.functional.embedding_bag")
def _embedding_bag_weights_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    bag: Value,
    mode: int,
    padding: int = -1,
) -> Value:
    """The gradient of the factor of each row."""
    at = indices.cast(dt.S64).reshape((indices.size,))
    of_bag = take(gradient, bag.cast(dt.S64).reshape((bag.size,)), 0)
    found = (of_bag * take(weight, at, 0)).sum((1,))
    kept = at.ne(padding).where(found, 0) if padding >= 0 else found
    return kept.reshape(out.dims)
