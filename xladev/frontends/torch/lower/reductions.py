"""Reductions: sums, products, extremes, their places, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.frontends.torch.lower.views import at_dim
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import Shape, array

REDUCTIONS = Family("reductions", "Sums, products, extremes and norms.", wide=True)
_lowers = REDUCTIONS.lowers

Axes = Sequence[int] | int | None


def axes_of(dims: Axes, rank: int) -> list[int]:
    """Dimensions that are reduced; all of them where none is named."""
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return list(range(rank))
    named = [dims] if isinstance(dims, int) else dims
    return sorted({d % rank for d in named}) if rank else []


def lowest(to: PrimitiveType) -> Number:
    """The number that any other is at least."""
    if to.is_float:
        return -math.inf
    return False if to is dt.PRED else int(np.iinfo(to.np).min)


def highest(to: PrimitiveType) -> Number:
    """The number that any other is at most."""
    if to.is_float:
        return math.inf
    return True if to is dt.PRED else int(np.iinfo(to.np).max)


@_lowers("sum.default", "sum.dim_IntList")
def _sum(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False, **_: Any
) -> Value:
    """Sum along dimensions."""
    return x.cast(out.element_type).sum(axes_of(dims, x.rank)).reshape(out.dims)


@_lowers("nansum.default")
def _nansum(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False, **_: Any
) -> Value:
    """Sum along dimensions, without what is NaN."""
    kept = x.is_nan().where(0, x) if x.dtype.is_float else x
    return _sum(b, out, kept, dims)


@_lowers("prod.default", "prod.dim_int")
def _prod(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False, **_: Any
) -> Value:
    """Product along dimensions."""
    taken = x.cast(out.element_type)
    opcode = "and" if taken.dtype is dt.PRED else "multiply"
    return taken.reduce(opcode, 1, axes_of(dims, x.rank)).reshape(out.dims)


def mean_of(x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    """Mean along dimensions."""
    count = math.prod(x.dims[d] for d in axes)
    return x.sum(axes, keep) / count if count else x.sum(axes, keep) * math.nan


@_lowers("mean.default", "mean.dim")
def _mean(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False, **_: Any
) -> Value:
    """Mean along dimensions."""
    return mean_of(x.cast(out.element_type), axes_of(dims, x.rank)).reshape(out.dims)


def moments(x: Value, axes: Sequence[int], correction: Number) -> tuple[Value, Value]:
    """Variance and mean along dimensions, which stay with size 1."""
    mean = mean_of(x, axes, keep=True)
    away = x - mean
    squares = away.square() if not x.dtype.is_complex else away.abs().square()
    count = math.prod(x.dims[d] for d in axes)
    freedom = max(0.0, count - float(correction.real))
    total = squares.sum(axes, keep=True)
    return (total / freedom if freedom else total / 0.0), mean


@_lowers("var.correction", sample="var")
def _var(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    dims: Axes = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Value:
    """Variance along dimensions."""
    taken = x if x.dtype.is_complex else x.cast(out.element_type)
    return moments(taken, axes_of(dims, x.rank), _correction(correction))[0].reshape(out.dims)


def _correction(given: Number | None) -> Number:
    return 1 if given is None else given


@_lowers("var_mean.correction", sample="var_mean")
def _var_mean(
    b: TensorBuilder,
    out: tuple[Shape, Shape],
    x: Value,
    dims: Axes = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> list[Value]:
    """Variance and mean along dimensions."""
    found = moments(x, axes_of(dims, x.rank), _correction(correction))
    return [each.reshape(shape.dims) for each, shape in zip(found, out, strict=True)]


@_lowers("std.correction", sample="std")
def _std(b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, **options: Any) -> Value:
    """Standard deviation along dimensions."""
    return _var(b, out, x, dims, **options).sqrt()


@_lowers("any.default", "any.dim", "any.dims")
def _any(b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False) -> Value:
    """Whether one is true."""
    axes = list(range(x.rank)) if dims is None else axes_of(dims, x.rank)
    return x.cast(dt.PRED).reduce("or", False, axes).reshape(out.dims)


@_lowers("all.default", "all.dim", "all.dims")
def _all(b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False) -> Value:
    """Whether all are true."""
    axes = list(range(x.rank)) if dims is None else axes_of(dims, x.rank)
    return x.cast(dt.PRED).reduce("and", True, axes).reshape(out.dims)


def largest(x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    """The largest along dimensions; NaN if one is."""
    opcode = "or" if x.dtype is dt.PRED else "maximum"
    return x.reduce(opcode, lowest(x.dtype), axes, keep)


def smallest(x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    """The smallest along dimensions; NaN if one is."""
    opcode = "and" if x.dtype is dt.PRED else "minimum"
    return x.reduce(opcode, highest(x.dtype), axes, keep)


@_lowers("amax.default", "max.default", sample="max.reduction_no_dim")
def _amax(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False
) -> Value:
    """The largest along dimensions; NaN if one is."""
    return largest(x, axes_of(dims, x.rank)).reshape(out.dims)


@_lowers("amin.default", "min.default", sample="min.reduction_no_dim")
def _amin(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = None, keepdim: bool = False
) -> Value:
    """The smallest along dimensions; NaN if one is."""
    return smallest(x, axes_of(dims, x.rank)).reshape(out.dims)


def _chooser(to: PrimitiveType, *, largest: bool) -> HloComputation:
    """Of two (value, index), the better; of equal ones the first; NaN before all."""
    inner = HloBuilder("argmax" if largest else "argmin")
    x, i = inner.parameter(array(to)), inner.parameter(array(dt.S64))
    y, j = inner.parameter(array(to)), inner.parameter(array(dt.S64))
    better = inner.op("compare", x, y, direction="GT" if largest else "LT")
    same = inner.op("compare", x, y, direction="EQ")
    if to.is_float:
        nan_x = inner.op("compare", x, x, direction="NE")
        nan_y = inner.op("compare", y, y, direction="NE")
        better = inner.op("or", better, inner.op("and", nan_x, inner.op("not", nan_y)))
        same = inner.op("or", same, inner.op("and", nan_x, nan_y))
    first = inner.op("compare", i, j, direction="LT")
    chosen = inner.op("or", better, inner.op("and", same, first))
    value, index = inner.op("select", chosen, x, y), inner.op("select", chosen, i, j)
    return inner.build(inner.op("tuple", value, index))


def extreme(x: Value, dim: int, *, largest: bool) -> tuple[Value, Value]:
    """The largest or smallest along one dimension, and its first place, s64."""
    b = x.builder
    start = lowest(x.dtype) if largest else highest(x.dtype)
    first = b.op(
        "reduce",
        x.node,
        b.iota(dt.S64, x.dims, dim).node,
        b.scalar(start, x.dtype).node,
        b.scalar(np.iinfo(np.int64).max, dt.S64).node,
        dimensions=(dim,),
        to_apply=_chooser(x.dtype, largest=largest),
    )
    value, index = b.parts(first)
    return value, index


def _argument(b: TensorBuilder, out: Shape, x: Value, dim: int | None, *, largest: bool) -> Value:
    flat = x.reshape((x.size,)) if dim is None or not x.rank else x
    at = 0 if dim is None else at_dim(dim, flat.rank)
    return extreme(flat, at, largest=largest)[1].reshape(out.dims)


@_lowers("argmax.default")
def _argmax(
    b: TensorBuilder, out: Shape, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    """The first place of the largest."""
    return _argument(b, out, x, dim, largest=True)


@_lowers("argmin.default")
def _argmin(
    b: TensorBuilder, out: Shape, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    """The first place of the smallest."""
    return _argument(b, out, x, dim, largest=False)


def _along(out: Sequence[Shape], x: Value, dim: int, *, largest: bool) -> list[Value]:
    if not x.rank:
        return [x, x.like(0, dt.S64)]
    found = extreme(x, at_dim(dim, x.rank), largest=largest)
    return [each.reshape(shape.dims) for each, shape in zip(found, out, strict=True)]


@_lowers("max.dim", sample="max.reduction_with_dim")
def _max_dim(
    b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int, keepdim: bool = False
) -> list[Value]:
    """The largest along a dimension, and where it is."""
    return _along(out, x, dim, largest=True)


@_lowers("min.dim", sample="min.reduction_with_dim")
def _min_dim(
    b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int, keepdim: bool = False
) -> list[Value]:
    """The smallest along a dimension, and where it is."""
    return _along(out, x, dim, largest=False)


@_lowers("aminmax.default")
def _aminmax(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> list[Value]:
    """The smallest and the largest."""
    axes = axes_of(dim, x.rank)
    return [f(x, axes).reshape(out[0].dims) for f in (smallest, largest)]


def norm(x: Value, order: float, axes: Sequence[int]) -> Value:
    """The norm of vectors along dimensions; ``x`` holds sizes, none negative."""
    if order == math.inf:
        return x.reduce("maximum", 0, axes)
    if order == -math.inf:
        return x.reduce("minimum", math.inf, axes)
    if order == 0:
        return x.ne(0).cast(x.dtype).sum(axes)
    if order == 1:
        return x.sum(axes)
    if order == 2:
        return x.square().sum(axes).sqrt()
    return x.power(order).sum(axes).power(1 / order)


@_lowers("linalg_vector_norm.default", sample="linalg.vector_norm")
def _vector_norm(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    order: float = 2,
    dims: Axes = None,
    keepdim: bool = False,
    **_: Any,
) -> Value:
    """The norm of vectors along dimensions."""
    axes = axes_of(dims, x.rank)
    return norm(x.abs().cast(out.element_type), float(order), axes).reshape(out.dims)


@_lowers("dist.default")
def _dist(b: TensorBuilder, out: Shape, x: Value, y: Value, order: float = 2) -> Value:
    """The norm of a difference."""
    left, right = x.pair(y)
    away = (left - right).abs().cast(out.element_type)
    return norm(away, float(order), range(away.rank)).reshape(out.dims)


@_lowers("logsumexp.default")
def _logsumexp(b: TensorBuilder, out: Shape, x: Value, dims: Axes, keepdim: bool = False) -> Value:
    """Logarithm of the sum of exponentials."""
    axes = axes_of(dims, x.rank)
    taken = x.cast(out.element_type)
    top = largest(taken, axes, keep=True)
    safe = top.abs().eq(math.inf).where(0, top)
    total = (taken - safe).exp().sum(axes, keep=True).log() + safe
    return total.reshape(out.dims)


@_lowers("hash_tensor.default", wide=False)
def _hash(
    b: TensorBuilder, out: Shape, x: Value, dims: Axes = (), *, keepdim: bool = False, mode: int = 0
) -> Value:
    """Exclusive or of the bits of all elements, as f64 where they are floats."""
    axes = axes_of(dims, x.rank)
    if x.dtype.is_float:
        words = x.cast(dt.F64).op("bitcast-convert", shape=array(dt.U64, x.dims))
    else:
        words = x.cast(dt.S64).cast(dt.U64)
    return words.reduce("xor", 0, axes).reshape(out.dims)
