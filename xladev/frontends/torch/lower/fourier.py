"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from xladev.frontends.torch.lower.elementwise import conjugate
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.frontends.torch.lower.views import at_dim, concatenate
from xladev.hlo.shape import Shape

FOURIER = Family("fourier", "Fourier transforms.")
_lowers = FOURIER.lowers


def _factor(mode: int, size: int) -> float:
    """Torch's modes of scale: 0 none, 1 by the root, 2 by the size."""
    return {0: 1.0, 1: 1 / sqrt(size), 2: 1 / size}[mode]


def _one(x: Value, dim: int, kind: str, length: int) -> Value:
    """A transform along one dimension."""
    order = [d for d in range(x.rank) if d != dim] + [dim]
    back = [order.index(d) for d in range(x.rank)]
    made = x.transpose(order).op("fft", fft_type=kind, fft_length=(length,))
    return made.transpose(back)


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else x * factor


@_lowers("_fft_c2c.default", sample="fft.fft")
def _c2c(
    b: TensorBuilder, out: Shape, x: Value, dims: Sequence[int], mode: int, forward: bool
) -> Value:
    """Complex to complex, along some dimensions."""
    size = prod(x.dims[at_dim(d, x.rank)] for d in dims)
    found = x
    for d in dims:
        at = at_dim(d, x.rank)
        found = _one(found, at, "FFT" if forward else "IFFT", x.dims[at])
    backwards = 1.0 if forward else float(size)
    return _scaled(found, _factor(mode, size) * backwards)


@_lowers("_fft_r2c.default", sample="fft.rfft")
def _r2c(
    b: TensorBuilder, out: Shape, x: Value, dims: Sequence[int], mode: int, onesided: bool
) -> Value:
    """Real to complex, along some dimensions; the last of them half, or all of it."""
    size = prod(x.dims[at_dim(d, x.rank)] for d in dims)
    last = at_dim(dims[-1], x.rank)
    found = _one(x, last, "RFFT", x.dims[last])
    if not onesided:
        found = _mirrored(found, last, x.dims[last])
    for d in dims[:-1]:
        found = _one(found, at_dim(d, x.rank), "FFT", x.dims[at_dim(d, x.rank)])
    return _scaled(found, _factor(mode, size))


def _mirrored(x: Value, dim: int, length: int) -> Value:
    """The second half of a transform of real numbers: the first one's, conjugated, backwards."""
    missing = length - x.dims[dim]
    if not missing:
        return x
    tail = x.slice(dim, 1, 1 + missing).reverse((dim,))
    return concatenate([x, conjugate(tail)], dim)


@_lowers("_fft_c2r.default", sample="fft.irfft")
def _c2r(
    b: TensorBuilder, out: Shape, x: Value, dims: Sequence[int], mode: int, length: int
) -> Value:
    """Complex to real, along some dimensions, of which the last is half."""
    size = prod(out.dims[at_dim(d, x.rank)] for d in dims)
    found = x
    for d in dims[:-1]:
        at = at_dim(d, x.rank)
        found = _one(found, at, "IFFT", x.dims[at])
    last = at_dim(dims[-1], x.rank)
    found = _one(found.slice(last, 0, length // 2 + 1), last, "IRFFT", length)
    return _scaled(found, _factor(mode, size) * size)
