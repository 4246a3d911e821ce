"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

PRODUCTS = Family("products", "Matrix products.")
_lowers = PRODUCTS.lowers


def dot(x: Value, y: Value, left: Any, right: Any, batch: int = 0) -> Value:
    """Products summed; of pred as s32, since torch has matrices of bool only in the mode of XLA."""
    if x.dtype is dt.PRED:
        return dot(x.cast(dt.S32), y.cast(dt.S32), left, right, batch).ne(0)
    return x.dot(y, left, right, batch)


@_lowers("mm.default")
def _mm(b: TensorBuilder, out: Shape, x: Value, y: Value, *_: Any, **__: Any) -> Value:
    """Product of two matrices."""
    return dot(x, y, (1,), (0,))


@_lowers("bmm.default")
def _bmm(b: TensorBuilder, out: Shape, x: Value, y: Value, *_: Any, **__: Any) -> Value:
    """Products of two stacks of matrices."""
    return dot(x, y, (2,), (1,), 1)


@_lowers("mv.default")
def _mv(b: TensorBuilder, out: Shape, x: Value, y: Value) -> Value:
    """Product of a matrix and a vector."""
    return dot(x, y, (1,), (0,))


@_lowers("dot.default", "vdot.default")
def _dot(b: TensorBuilder, out: Shape, x: Value, y: Value) -> Value:
    """Product of two vectors."""
    return dot(x, y, (0,), (0,))


def _scaled(x: Value, factor: Number) -> Value:
    return x if factor == 1 else x * factor


def _added(
    b: TensorBuilder, out: Shape, bias: Value, product: Value, beta: Number, alpha: Number
) -> Value:
    """beta * bias + alpha * product; a beta of zero leaves even NaN out."""
    found = _scaled(product.cast(out.element_type), alpha)
    if beta == 0:
        return found.expand(out.dims)
    return found + _scaled(operand(b, bias, out.element_type, out.dims), beta)


_ADDED: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...], int]] = {
    "addmm": ("the product of two matrices", (1,), (0,), 0),
    "addmv": ("the product of a matrix and a vector", (1,), (0,), 0),
    "baddbmm": ("the products of two stacks of matrices", (2,), (1,), 1),
    "addbmm": ("the sum of the products of two stacks of matrices", (0, 2), (0, 1), 0),
}
"""What each adds to its first operand, the dimensions that are summed, and how many are a batch."""


def _lower_added(name: str) -> None:
    what, left, right, batch = _ADDED[name]

    def lower(
        b: TensorBuilder,
        out: Shape,
        bias: Value,
        x: Value,
        y: Value,
        *_: Any,
        beta: Number = 1,
        alpha: Number = 1,
    ) -> Value:
        return _added(b, out, bias, dot(x, y, left, right, batch), beta, alpha)

    lower.__doc__ = f"beta * bias + alpha * {what}."
    _lowers(f"{name}.default")(lower)


for _name in _ADDED:
    _lower_added(_name)


@_lowers("_trilinear.default", sample="nn.functional.bilinear")
def _trilinear(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    y: Value,
    z: Value,
    expand1: Any,
    expand2: Any,
    expand3: Any,
    summed: Any,
    unroll: int = 1,
) -> Value:
    """Product of three arrays, each with dimensions of its own added, summed along some."""
    parts = []
    for each, added in ((x, expand1), (y, expand2), (z, expand3)):
        sizes = list(each.dims)
        for d in sorted(added):
            sizes.insert(d, 1)
        parts.append(each.reshape(sizes))
    product = parts[0] * parts[1] * parts[2]
    axes = sorted(d % product.rank for d in summed)
    return product.sum(axes).reshape(out.dims)
