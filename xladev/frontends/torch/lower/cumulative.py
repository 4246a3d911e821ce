"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xladev.frontends.torch.lower.reductions import highest, lowest
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.frontends.torch.lower.views import at_dim
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim
from xladev.hlo.shape import Shape

CUMULATIVE = Family("cumulative", "Running sums, products and extremes.", wide=True)
_lowers = CUMULATIVE.lowers


def cumulated(x: Value, dim: int, opcode: str, start: Number) -> Value:
    """Each element combined with all before it along a dimension.

    The dimension is moved to the end, where backends know such a window for what it is.
    """
    size = x.dims[dim] if x.rank else 1
    if size <= 1 or not x.size:
        return x
    order = [d for d in range(x.rank) if d != dim] + [dim]
    turned = x.transpose(order)
    window = [WindowDim(1)] * (x.rank - 1) + [WindowDim(size, pad_low=size - 1)]
    made = turned.op(
        "reduce-window",
        x.builder.scalar(start, x.dtype),
        window=tuple(window),
        to_apply=x.builder.combiner(opcode, x.dtype),
    )
    return made.transpose([order.index(d) for d in range(x.rank)])


@_lowers("cumsum.default")
def _cumsum(b: TensorBuilder, out: Shape, x: Value, dim: int, **_: Any) -> Value:
    """Running sum."""
    return cumulated(x.cast(out.element_type), at_dim(dim, x.rank), "add", 0)


@_lowers("cumprod.default")
def _cumprod(b: TensorBuilder, out: Shape, x: Value, dim: int, **_: Any) -> Value:
    """Running product."""
    return cumulated(x.cast(out.element_type), at_dim(dim, x.rank), "multiply", 1)


def _running(x: Value, dim: int, opcode: str, start: Number) -> list[Value]:
    if not x.rank:
        return [x, x.like(0, dt.S64)]
    d = at_dim(dim, x.rank)
    opcode = {"maximum": "or", "minimum": "and"}[opcode] if x.dtype is dt.PRED else opcode
    best = cumulated(x, d, opcode, start)
    found = x.eq(best)
    if x.dtype.is_float:
        found = found | x.is_nan()
    at = found.where(x.builder.iota(dt.S64, x.dims, d), x.like(0, dt.S64))
    return [best, cumulated(at, d, "maximum", lowest(dt.S64))]


@_lowers("cummax.default")
def _cummax(b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int) -> list[Value]:
    """Running largest, and its last place."""
    return _running(x, dim, "maximum", lowest(x.dtype))


@_lowers("cummin.default")
def _cummin(b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int) -> list[Value]:
    """Running smallest, and its last place."""
    return _running(x, dim, "minimum", highest(x.dtype))


@_lowers("logcumsumexp.default")
def _logcumsumexp(b: TensorBuilder, out: Shape, x: Value, dim: int) -> Value:
    """Logarithm of the running sum of exponentials, in as many steps as the size has bits."""
    if not x.rank or not x.size:
        return x
    d, step = at_dim(dim, x.rank), 1
    found = x.cast(out.element_type)
    while step < x.dims[d]:
        edges = [(0, 0, 0)] * x.rank
        edges[d] = (step, -step, 0)
        found = log_add_exp(found, found.pad(edges, -math.inf))
        step *= 2
    return found


def log_add_exp(x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) of real or complex numbers, without overflow on the way."""
    left = x.op("real") if x.dtype.is_complex else x
    right = y.op("real") if x.dtype.is_complex else y
    swap = left.lt(right)
    large, small = swap.where(y, x), swap.where(x, y)
    away = small - large
    real = large.op("real") if x.dtype.is_complex else large
    finite = real.abs().ne(math.inf)
    return finite.where(large + away.exp().log1p(), left.ge(right).where(x, y))
