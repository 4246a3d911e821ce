"""What makes arrays of nothing but sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.frontends.torch.lower.views import diagonal_mask
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

FACTORIES = Family("factories", "Arrays of nothing but sizes.")


def _zeros(b: TensorBuilder, out: Shape, *_: Any, **__: Any) -> Value:
    """Zeros; where torch leaves memory as it is, too."""
    return b.full(0, out.element_type, out.dims)


for _name in (
    "zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format",
    "empty_like.default", "new_empty.default", "empty_permuted.default", "empty_strided.default",
    "new_empty_strided.default", "_efficientzerotensor.default",
):  # fmt: skip
    FACTORIES.add(_name, _zeros, sample="zeros" if "zero" in _name else "empty")


@FACTORIES.lowers("ones.default", "ones_like.default", "new_ones.default")
def _ones(b: TensorBuilder, out: Shape, *_: Any, **__: Any) -> Value:
    """Ones."""
    return b.full(1, out.element_type, out.dims)


@FACTORIES.lowers("full.default", "full_like.default")
def _full(
    b: TensorBuilder, out: Shape, _: Any, value: Number | Value, *__: Any, **___: Any
) -> Value:
    """One number everywhere."""
    return operand(b, value, out.element_type, out.dims)


@FACTORIES.lowers("new_full.default")
def _new_full(
    b: TensorBuilder, out: Shape, _: Any, __: Any, value: Number, *___: Any, **____: Any
) -> Value:
    """One number everywhere, in a type taken from another array."""
    return b.full(value, out.element_type, out.dims)


@FACTORIES.lowers("scalar_tensor.default")
def _scalar_tensor(b: TensorBuilder, out: Shape, value: Number, **_: Any) -> Value:
    """A number as an array without dimensions."""
    return b.full(value, out.element_type, ())


@FACTORIES.lowers("arange.start_step", "arange.start", "arange.default", sample="arange")
def _arange(
    b: TensorBuilder,
    out: Shape,
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    **_: Any,
) -> Value:
    """Numbers from one to another, a step apart."""
    if end is None:
        start = 0
    to = out.element_type
    exact = dt.S64 if to.is_integral else dt.F64 if to is dt.F64 else dt.F32
    at = b.iota(exact, out.dims, 0)
    if step != 1:
        at = at * step
    return (at + start if start != 0 else at).cast(to)


@FACTORIES.lowers("eye.default", "eye.m")
def _eye(b: TensorBuilder, out: Shape, *_: Any, **__: Any) -> Value:
    """Ones on the diagonal."""
    return diagonal_mask(b, *out.dims).cast(out.element_type)


@FACTORIES.lowers("prims.iota.default", sample="arange")
def _iota(b: TensorBuilder, out: Shape, length: int, *, start: int, step: int, **_: Any) -> Value:
    """Whole numbers, a step apart."""
    return _arange(b, out, start, start + length * step, step)


@FACTORIES.lowers("tril_indices.default")
def _tril_indices(
    b: TensorBuilder, out: Shape, rows: int, columns: int, offset: int = 0, **_: Any
) -> Value:
    """Rows and columns of what is below a diagonal."""
    found = np.stack(np.tril_indices(rows, offset, columns))
    return b.literal(found, dt.S64).cast(out.element_type)


@FACTORIES.lowers("triu_indices.default")
def _triu_indices(
    b: TensorBuilder, out: Shape, rows: int, columns: int, offset: int = 0, **_: Any
) -> Value:
    """Rows and columns of what is above a diagonal."""
    found = np.stack(np.triu_indices(rows, offset, columns))
    return b.literal(found, dt.S64).cast(out.element_type)
