"""fft as products of matrices: one small transform per factor of the length, twiddles between.

A length n = r m is transformed by r-point transforms over its slow digit (a product with a matrix),
a multiplication by twiddle factors, and m-point transforms (Cooley and Tukey); the digits of the
result come out reversed and are put in order at the end. A length with a large prime factor
becomes a convolution of a power-of-two length (Bluestein). Real and imaginary parts are kept as one
trailing dimension of size 2, so that all between is real arithmetic. Tables are computed in f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, begin

_LARGEST_RADIX = 16
_LARGEST_PRIME = 61
LONGEST = 1 << 22
"""Most points that are expanded: tables of several times as many numbers become constants."""

_QUARTER_TURN: npt.NDArray[np.float64] = np.array([[0.0, 1.0], [-1.0, 0.0]])
Complexes = npt.NDArray[np.complex128]


def expand_fft(instruction: HloInstruction) -> HloComputation | None:
    """FFT, IFFT, RFFT or IRFFT over the last one to three dimensions; inverses divide by n.

    None for more than `LONGEST` points along one of them.
    """
    e, (x,) = begin(instruction)
    shape = instruction.shape
    if max(instruction["fft_length"]) > LONGEST:
        return None
    if not shape.size or not x.shape.size:
        return e.build(e.full(0, shape.element_type, shape.dims))
    kind, lengths = instruction["fft_type"], tuple(instruction["fft_length"])
    axes = tuple(range(x.shape.rank - len(lengths), x.shape.rank))
    inverse = kind in ("IFFT", "IRFFT")
    order = axes[::-1] if kind == "RFFT" else axes
    pair = _pair(e, x)
    for axis in order:
        last = axis == axes[-1]
        if last and kind == "IRFFT":
            pair = _mirrored(e, pair, axis, lengths[-1])
        pair = _along(e, pair, axis, inverse)
        if last and kind == "RFFT":
            pair = e.slice_in(pair, axis, 0, lengths[-1] // 2 + 1)
    parts = [e.reshape(e.slice_in(pair, -1, i, i + 1), pair.shape.dims[:-1]) for i in (0, 1)]
    return e.build(parts[0] if kind == "IRFFT" else e.op("complex", *parts))


def _pair(e: Emitter, x: HloInstruction) -> HloInstruction:
    """Real and imaginary parts along a new last dimension."""
    dims = (*x.shape.dims, 1)
    if not x.shape.element_type.is_complex:
        return e.pad(e.reshape(x, dims), (*((0, 0, 0),) * x.shape.rank, (0, 1, 0)))
    parts = [e.reshape(e.op(part, x), dims) for part in ("real", "imag")]
    return e.concatenate(parts, -1)


def _mirrored(e: Emitter, pair: HloInstruction, axis: int, n: int) -> HloInstruction:
    """The whole spectrum of a real signal of n points, from its first half."""
    half = e.slice_in(pair, axis, 0, n // 2 + 1)
    if n <= 2:
        return e.slice_in(half, axis, 0, n)
    rest = e.reverse(e.slice_in(half, axis, 1, (n + 1) // 2), axis)
    signs = e.table([1.0, -1.0], pair.shape.element_type)
    rank = pair.shape.rank
    conjugate = e.multiply(rest, e.broadcast(signs, rest.shape.dims, (rank - 1,)))
    return e.concatenate([half, conjugate], axis)


def _along(e: Emitter, pair: HloInstruction, axis: int, inverse: bool) -> HloInstruction:
    """Transforms one dimension, any but the last."""
    rank = pair.shape.rank
    order = [*(d for d in range(rank - 1) if d != axis), axis, rank - 1]
    moved = e.transpose(pair, order)
    n = pair.shape.dims[axis]
    rows = e.reshape(moved, (prod(moved.shape.dims[:-2]), n, 2))
    made = transform(e, rows, inverse)
    if inverse:
        made = e.multiply(made, 1 / n)
    back = [order.index(d) for d in range(rank)]
    return e.transpose(e.reshape(made, moved.shape.dims), back)


def transform(e: Emitter, rows: HloInstruction, inverse: bool) -> HloInstruction:
    """Transforms ``[batch, n, 2]`` along n, without scaling."""
    radices = factors(rows.shape.dims[1])
    return _bluestein(e, rows, inverse) if radices is None else _digits(e, rows, radices, inverse)


@lru_cache(maxsize=256)
def factors(n: int) -> tuple[int, ...] | None:
    """n as a product of numbers of at most 16 or primes of at most 61; None if it is none."""
    found: list[int] = []
    rest = n
    for radix in (_LARGEST_RADIX, 8, 4, 2):
        while rest % radix == 0:
            found.append(radix)
            rest //= radix
    for prime in range(3, _LARGEST_PRIME + 1, 2):
        while rest % prime == 0:
            found.append(prime)
            rest //= prime
    return tuple(found) if rest == 1 else None


def _digits(
    e: Emitter, rows: HloInstruction, radices: Sequence[int], inverse: bool
) -> HloInstruction:
    """One matrix product per radix, then the digits reversed."""
    batch, n, _ = rows.shape.dims
    sign = 1 if inverse else -1
    rest = n
    for radix in radices:
        rest //= radix
        outer = batch * n // (radix * rest)
        rows = e.transpose(e.reshape(rows, (outer, radix, rest, 2)), (0, 2, 1, 3))
        flat = e.reshape(rows, (outer * rest, radix, 2))
        small = _folded(e, flat, sign) if radix > _LARGEST_RADIX else _small(e, flat, sign)
        rows = e.reshape(small, (outer, rest, radix, 2))
        if rest > 1:
            rows = _times(e, rows, _twiddles(radix, rest, sign))
        rows = e.transpose(rows, (0, 2, 1, 3))
    if len(radices) > 1:
        count = len(radices)
        split = e.reshape(rows, (batch, *radices, 2))
        rows = e.transpose(split, (0, *range(count, 0, -1), count + 1))
    return e.reshape(rows, (batch, n, 2))


def _small(e: Emitter, rows: HloInstruction, sign: int) -> HloInstruction:
    """Transforms ``[batch, n, 2]`` along n by a product with a matrix."""
    return _mixed(e, rows, _real_matrix(_roots(rows.shape.dims[1], sign)))


def _folded(e: Emitter, rows: HloInstruction, sign: int) -> HloInstruction:
    """The same for odd n, with half the products and rounding.

    With s[j] = x[j] + x[n - j] and d[j] = x[j] - x[n - j] for 0 < j < n / 2, X[k] and X[n - k] are
    x[0] + sum s[j] cos(2 pi j k / n), plus and minus sign i sum d[j] sin(2 pi j k / n).
    """
    batch, n, _ = rows.shape.dims
    half = n // 2
    front, back = e.slice_in(rows, 1, 1, half + 1), e.slice_in(rows, 1, half + 1, n)
    back = e.reverse(back, 1)
    roots = powers(np.outer(np.arange(1, half + 1), np.arange(half + 1)), n, sign)
    even = _mixed(e, e.add(front, back), np.kron(roots.real, np.eye(2)))
    odd = _mixed(e, e.subtract(front, back), np.kron(roots.imag, _QUARTER_TURN))
    first = e.reshape(e.slice_in(rows, 1, 0, 1), (batch, 2))
    even = e.add(even, e.broadcast(first, (batch, half + 1, 2), (0, 2)))
    rest = e.reverse(e.slice_in(e.subtract(even, odd), 1, 1, half + 1), 1)
    return e.concatenate([e.add(even, odd), rest], 1)


def _mixed(
    e: Emitter, pair: HloInstruction, matrix: npt.NDArray[np.floating[Any]]
) -> HloInstruction:
    """``[batch, n, 2]``, flattened, times a matrix, as ``[batch, m, 2]``."""
    batch, n, _ = pair.shape.dims
    table = e.table(matrix, pair.shape.element_type)
    return e.reshape(
        e.matmul(e.reshape(pair, (batch, 2 * n)), table), (batch, matrix.shape[1] // 2, 2)
    )


def _roots(n: int, sign: int) -> Complexes:
    """exp(sign 2 pi i j k / n) for all j, k below n."""
    return powers(np.outer(np.arange(n), np.arange(n)), n, sign)


def _twiddles(radix: int, rest: int, sign: int) -> Complexes:
    """exp(sign 2 pi i j k / (radix rest)) as ``[rest, radix]``."""
    return powers(np.outer(np.arange(rest), np.arange(radix)), radix * rest, sign)


def powers(exponents: npt.NDArray[np.int64], n: int, sign: int) -> Complexes:
    """exp(sign 2 pi i exponents / n), each part rounded once or twice.

    Exponents are split into quarter turns, which are exact, and at most an eighth of a turn.
    """
    fourths = 4 * (exponents % n)
    quarters = (fourths + n // 2) // n
    angles = np.pi / 2 * ((fourths - quarters * n) / n)
    roots = (np.cos(angles) + 1j * np.sin(angles)) * np.array([1, 1j, -1, -1j])[quarters % 4]
    return roots if sign > 0 else roots.conj()


def _real_matrix(matrix: Complexes) -> npt.NDArray[np.float64]:
    """The matrix that multiplies rows of (real, imaginary) pairs from the right."""
    n = len(matrix)
    out = np.empty((n, 2, n, 2))
    out[:, 0, :, 0] = out[:, 1, :, 1] = matrix.real
    out[:, 0, :, 1] = matrix.imag
    out[:, 1, :, 0] = -matrix.imag
    return out.reshape(2 * n, 2 * n)


def _times(e: Emitter, pair: HloInstruction, factor: Complexes) -> HloInstruction:
    """Complex product of ``[batch, dims..., 2]`` with a table of ``dims``."""
    dims, element_type = pair.shape.dims, pair.shape.element_type
    inner = tuple(range(1, len(dims) - 1))
    parts = [e.reshape(e.slice_in(pair, -1, i, i + 1), dims[:-1]) for i in (0, 1)]
    real, imaginary = (
        e.broadcast(e.table(t, element_type), dims[:-1], inner) for t in (factor.real, factor.imag)
    )
    a = e.subtract(e.multiply(parts[0], real), e.multiply(parts[1], imaginary))
    b = e.add(e.multiply(parts[0], imaginary), e.multiply(parts[1], real))
    return e.concatenate([e.reshape(x, (*dims[:-1], 1)) for x in (a, b)], -1)


def _bluestein(e: Emitter, rows: HloInstruction, inverse: bool) -> HloInstruction:
    """X[k] = c[k] sum_j (x[j] c[j]) conj(c[k - j]) with chirp c[j] = exp(sign pi i j^2 / n)."""
    _, n, _ = rows.shape.dims
    sign = 1 if inverse else -1
    points = 1 << (2 * n - 2).bit_length()
    chirp = powers(np.arange(n) ** 2, 2 * n, sign)
    kernel = np.zeros(points, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[points - n + 1 :] = chirp.conj()[:0:-1]
    padded = e.pad(_times(e, rows, chirp), ((0, 0, 0), (0, points - n, 0), (0, 0, 0)))
    spectrum = _times(e, transform(e, padded, False), np.fft.fft(kernel) / points)
    convolved = e.slice_in(transform(e, spectrum, True), 1, 0, n)
    return _times(e, convolved, chirp)
