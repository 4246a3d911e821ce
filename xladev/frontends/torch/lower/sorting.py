"""Sorting, selection by rank, and search in what is sorted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xladev.frontends.torch.lower.indexing import points, put
from xladev.frontends.torch.lower.promotion import joined
from xladev.frontends.torch.lower.reductions import extreme, highest, largest, lowest, smallest
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.frontends.torch.lower.views import at_dim
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape, array

SORTING = Family("sorting", "Sorting, selection by rank and search.")
_lowers = SORTING.lowers


def _comparator(types: Sequence[PrimitiveType], *, descending: bool) -> HloComputation:
    """Orders by the first operand: zeros are equal, and NaNs equal and larger than all else."""
    inner = HloBuilder("order")
    pairs = [[inner.parameter(array(to)) for _ in range(2)] for to in types]
    x, y = pairs[0]
    direction = "GT" if descending else "LT"
    if not types[0].is_float:
        return inner.build(inner.op("compare", x, y, direction=direction))
    x, y = _canonical(inner, x), _canonical(inner, y)
    return inner.build(inner.op("compare", x, y, direction=direction, type="TOTALORDER"))


def _canonical(inner: HloBuilder, x: HloInstruction) -> HloInstruction:
    to = x.shape.element_type
    zero, nan = inner.constant(0.0, to), inner.constant(math.nan, to)
    plain = inner.op("select", inner.op("compare", x, zero, direction="EQ"), zero, x)
    return inner.op("select", inner.op("compare", x, x, direction="NE"), nan, plain)


def sort(x: Value, dim: int, *, descending: bool = False) -> tuple[Value, Value]:
    """Elements in order along a dimension, equal ones as they were, and where they came from."""
    b = x.builder
    at = b.iota(dt.S64, x.dims, dim)
    both = b.op(
        "sort",
        x.node,
        at.node,
        dimensions=(dim,),
        is_stable=True,
        to_apply=_comparator((x.dtype, dt.S64), descending=descending),
    )
    values, index = b.parts(both)
    return values, index


@_lowers("sort.default")
def _sort(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> list[Value]:
    """Elements in order along a dimension, and where they came from."""
    if not x.rank:
        return [x, x.like(0, dt.S64)]
    return list(sort(x, at_dim(dim, x.rank), descending=descending))


@_lowers("sort.stable")
def _sort_stable(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> list[Value]:
    """Elements in order along a dimension, and where they came from."""
    return _sort(b, out, x, dim, descending)


@_lowers("topk.default")
def _topk(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> list[Value]:
    """The k largest or smallest along a dimension, in order, and where they are."""
    if not x.rank:
        return [x.reshape(out[0].dims), b.full(0, dt.S64, out[1].dims)]
    d = at_dim(dim, x.rank)
    return [each.slice(d, 0, k) for each in sort(x, d, descending=largest)]


@_lowers("kthvalue.default")
def _kthvalue(
    b: TensorBuilder, out: Sequence[Shape], x: Value, k: int, dim: int = -1, keepdim: bool = False
) -> list[Value]:
    """The k-th smallest along a dimension, and where it is."""
    if not x.rank:
        return [x, x.like(0, dt.S64)]
    d = at_dim(dim, x.rank)
    return [each.slice(d, k - 1, k).reshape(out[0].dims) for each in sort(x, d)]


def _median(x: Value, dim: int) -> tuple[Value, Value]:
    """The lower median along a dimension, NaN if one is, and its place; the dimension stays."""
    middle = (x.dims[dim] - 1) // 2
    values, index = (each.slice(dim, middle, middle + 1) for each in sort(x, dim))
    if not x.dtype.is_float:
        return values, index
    top, place = extreme(x, dim, largest=True)
    dims = values.dims
    missing = top.reshape(dims).is_nan()
    return missing.where(math.nan, values), missing.where(place.reshape(dims), index)


def _nanmedian(x: Value, dim: int) -> tuple[Value, Value]:
    """The lower median of what is not NaN along a dimension, and its place; the dimension stays."""
    if not x.dtype.is_float:
        return _median(x, dim)
    count = (~x.is_nan()).cast(dt.S64).sum((dim,), keep=True)
    middle = ((count - 1).maximum(0)).op("shift-right-arithmetic", count.like(1))
    chosen = x.builder.iota(dt.S64, x.dims, dim).eq(middle)
    empty = count.eq(0)
    values, index = sort(x, dim)
    value = chosen.where(values, lowest(x.dtype)).reduce("maximum", lowest(x.dtype), (dim,), True)
    place = chosen.where(index, -1).reduce("maximum", -1, (dim,), True)
    return empty.where(math.nan, value), place


_MEDIANS = {
    "median": (_median, "The lower median; NaN if one is."),
    "nanmedian": (_nanmedian, "The lower median of what is not NaN."),
}


def _median_of(name: str) -> None:
    function, what = _MEDIANS[name]

    def whole(b: TensorBuilder, out: Shape, x: Value) -> Value:
        if not x.size:
            return b.full(math.nan, x.dtype, ())
        return function(x.reshape((x.size,)), 0)[0].reshape(())

    def along(
        b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int, keepdim: bool = False
    ) -> list[Value]:
        if not x.rank:
            return [x, x.like(0, dt.S64)]
        found = function(x, at_dim(dim, x.rank))
        return [each.reshape(shape.dims) for each, shape in zip(found, out, strict=True)]

    SORTING.add(f"{name}.default", whole, summary=what)
    SORTING.add(f"{name}.dim", along, summary=what)


for _name in _MEDIANS:
    _median_of(_name)


@_lowers("mode.default")
def _mode(
    b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int = -1, keepdim: bool = False
) -> list[Value]:
    """The most frequent along a dimension, of several the smallest, and its last place."""
    if not x.rank:
        return [x, x.like(0, dt.S64)]
    d = at_dim(dim, x.rank)
    turned = x.transpose([*(e for e in range(x.rank) if e != d), d])
    last = turned.rank - 1
    size = turned.dims[last]
    square = (*turned.dims, size)
    rows = turned.place(square, range(turned.rank))
    columns = turned.place(square, [*range(last), turned.rank])
    counts = rows.eq(columns).cast(dt.S32).sum((turned.rank,))
    often = counts.eq(largest(counts, (last,), keep=True))
    least = smallest(often.where(turned, turned.like(highest(turned.dtype))), (last,), keep=True)
    chosen = often & turned.eq(least)
    place = chosen.where(b.iota(dt.S64, turned.dims, last), -1).reduce("maximum", -1, (last,))
    return [least.reshape(out[0].dims), place.reshape(out[1].dims)]


def _places(sequence: Value, values: Value, *, right: bool) -> Value:
    """How many of the last dimension of a sequence lie before each value, s64."""
    dims = (*values.dims, sequence.dims[-1])
    lead = sequence.rank - 1
    at = [*range(lead), len(dims) - 1]
    elements = sequence.place(dims, at)
    wanted = values.place(dims, range(values.rank))
    behind = elements.gt(wanted) if right else elements.ge(wanted)
    return (~behind).cast(dt.S64).sum((len(dims) - 1,))


@_lowers("searchsorted.Tensor", "searchsorted.Scalar")
def _searchsorted(
    b: TensorBuilder,
    out: Shape,
    sequence: Value,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """Where values would be put in sorted sequences."""
    wanted = values if isinstance(values, Value) else b.scalar(values, sequence.dtype)
    ordered = sequence if sorter is None else sort_by(sequence, sorter)
    to = joined(wanted.dtype, ordered.dtype)
    found = _places(ordered.cast(to), wanted.cast(to), right=right or side == "right")
    return found.cast(out.element_type)


def sort_by(x: Value, order: Value) -> Value:
    """Elements of the last dimension in an order that is given."""
    every = tuple(range(x.rank))
    return x.op(
        "gather",
        points(order, x.rank - 1),
        offset_dims=(),
        collapsed_slice_dims=every,
        start_index_map=every,
        index_vector_dim=x.rank,
        slice_sizes=(1,) * x.rank,
    )


@_lowers("bucketize.Tensor", "bucketize.Scalar")
def _bucketize(
    b: TensorBuilder,
    out: Shape,
    values: Any,
    boundaries: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Value:
    """The bucket between sorted boundaries that each value lies in."""
    return _searchsorted(b, out, boundaries, values, right=right)


@_lowers("histc.default", wide=True)
def _histc(
    b: TensorBuilder, out: Shape, x: Value, bins: int = 100, low: float = 0, high: float = 0
) -> Value:
    """How many elements lie in each of equal parts of a range."""
    flat = x.reshape((x.size,))
    if not x.size:
        return b.full(0, x.dtype, out.dims)
    if low == high == 0:
        first, last = smallest(flat, (0,)), largest(flat, (0,))
        same = first.eq(last)
        first, last = same.where(first - 1, first), same.where(last + 1, last)
    else:
        first, last = b.scalar(low, x.dtype), b.scalar(high, x.dtype)
        if low == high:
            first, last = first - 1, last + 1
    wide = dt.F64 if x.dtype in (dt.F64, dt.S64) else dt.F32
    inside = flat.ge(first) & flat.le(last)
    away = (flat.cast(wide) - first.cast(wide)) * bins / (last.cast(wide) - first.cast(wide))
    part = away.cast(dt.S64).minimum(bins - 1)
    at = inside.where(part, bins)
    zeros = b.full(0, out.element_type, (bins,))
    return put(zeros, at, 0, flat.like(1, out.element_type), b.combiner("add", out.element_type))
