"""The same bits as elements of another type."""

from __future__ import annotations

from math import prod
from typing import Any

from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.frontends.torch.lower.views import concatenate
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape, array

BITS = Family("bits", "The same bits as elements of another type.")
_lowers = BITS.lowers


@_lowers("view.dtype", sample="view_as_real")
def _view_dtype(b: TensorBuilder, out: Shape, x: Value, _: Any) -> Value:
    """The same bits as elements of another type, which divide or join those of the last dimension.

    The parts of a complex number are two elements. A truth value is a byte that is not 0.
    """
    if x.dtype is out.element_type:
        return x
    to = out.element_type
    real = {dt.C64: dt.F32, dt.C128: dt.F64, dt.PRED: dt.U8}.get(to, to)
    found = _with_bits_of(_as_real_numbers(x), real)
    if to is dt.PRED:
        return found.ne(0).reshape(out.dims)
    if to is not real:
        return _view_as_complex(b, out, found.reshape((*out.dims, 2)))
    return found.reshape(out.dims)


def _as_real_numbers(x: Value) -> Value:
    """Elements of real numbers or integers with an array's bits, in one dimension at least."""
    if x.dtype is dt.PRED:
        x = x.cast(dt.U8)
    if x.dtype in (dt.C64, dt.C128):
        pairs = _pairs(x)
        return pairs.reshape((*x.dims[:-1], 2 * prod(x.dims[-1:])))
    return x if x.rank else x.reshape((1,))


def _with_bits_of(x: Value, to: dt.PrimitiveType) -> Value:
    """The same bits as elements of another type of real numbers or integers."""
    rows, last = x.dims[:-1], x.dims[-1]
    if to.bits > x.dtype.bits:
        factor = to.bits // x.dtype.bits
        x = x.reshape((*rows, last // factor, factor))
        return x.op("bitcast-convert", shape=array(to, (*rows, last // factor)))
    if to.bits == x.dtype.bits:
        return x.op("bitcast-convert", shape=array(to, x.dims))
    factor = x.dtype.bits // to.bits
    parts = x.op("bitcast-convert", shape=array(to, (*x.dims, factor)))
    return parts.reshape((*rows, last * factor))


@_lowers("view_as_real.default", "view_as_real_copy.default", sample="view_as_real")
def _view_as_real(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Real and imaginary parts side by side."""
    return _pairs(x)


def _pairs(x: Value) -> Value:
    parts = [x.op(part).reshape((*x.dims, 1)) for part in ("real", "imag")]
    return concatenate(parts, x.rank)


@_lowers("view_as_complex.default", "view_as_complex_copy.default", sample="view_as_complex")
def _view_as_complex(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Complex numbers of parts that lie side by side."""
    last = x.rank - 1
    real, imaginary = (x.slice(last, at, at + 1).reshape(out.dims) for at in (0, 1))
    return real.op("complex", imaginary)
