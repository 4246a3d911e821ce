"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family, NotLowered
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


def _group_sizes(ends: Value) -> Value:
    """How many rows each group has, of where the groups end."""
    before = ends.slice(0, 0, ends.dims[0] - 1)
    return ends - ends.builder.full(0, ends.dtype, (1,)).op("concatenate", before, dimensions=(0,))


def _rows_by_group(x: Value, stack: Value, ends: Value, contracting: int = 1) -> Value:
    """Each row times the matrix of its group, along a dimension of the matrices."""
    return x.op(
        "ragged-dot", stack, _group_sizes(ends), lhs_batch_dims=(), rhs_batch_dims=(),
        lhs_contracting_dims=(1,), rhs_contracting_dims=(contracting,), lhs_ragged_dims=(0,),
        rhs_group_dims=(0,),
    )  # fmt: skip


def _sums_by_group(x: Value, y: Value, ends: Value) -> Value:
    """Outer products of the rows of two matrices, [rows, m] and [rows, n], summed in each group."""
    return x.op(
        "ragged-dot", y, _group_sizes(ends), lhs_batch_dims=(), rhs_batch_dims=(),
        lhs_contracting_dims=(0,), rhs_contracting_dims=(0,), lhs_ragged_dims=(0,),
        rhs_group_dims=(),
    )  # fmt: skip


@_lowers("_grouped_mm.default")
def _grouped(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    y: Value,
    ends: Value | None = None,
    bias: Value | None = None,
    dtype: Any = None,
) -> Value:
    """Products of matrices whose rows, or what is summed, are cut into groups at run time."""
    if ends is None and x.rank == y.rank == 3:
        made = dot(x, y, (2,), (1,), 1)
    elif ends is not None and (x.rank, y.rank) == (2, 3):
        made = _rows_by_group(x, y, ends)
    elif ends is not None and x.rank == y.rank == 2:
        made = _sums_by_group(x.transpose((1, 0)), y, ends)
    else:
        raise NotLowered(f"groups of columns of {y.dims}")
    return made.cast(out.element_type) if bias is None else made.cast(out.element_type) + bias


@_lowers("transformers.grouped_mm_fallback.default")
def _grouped_rows(b: TensorBuilder, out: Shape, x: Value, stack: Value, ends: Value) -> Value:
    """Each row times the matrix of its group; groups are cut at run time."""
    return _rows_by_group(x, stack, ends)


@_lowers("transformers.grouped_mm_fallback_backward.default")
def _grouped_rows_backward(
    b: TensorBuilder, out: Any, x: Value, stack: Value, ends: Value, gradient: Value
) -> list[Value]:
    """Gradients of rows and of the groups' matrices."""
    return [_rows_by_group(gradient, stack, ends, 2), _sums_by_group(x, gradient, ends)]


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
