"""Roots of unity, rounded once, as the bytes that microkernels read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[Any]
Complex = npt.NDArray[Any]

_WIDE: Any = np.longdouble
_QUARTER_TURN = _WIDE("1.57079632679489661923132169163975144209858")
_WIDTHS: dict[int, tuple[Any, str]] = {4: (np.float64, "<f4"), 8: (_WIDE, "<f8")}
"""By bytes of a number: the type in which it is computed, and in which it is kept."""
_CHUNK = 1 << 13
"""Roots that are computed at once: what is between stays in the second cache."""
_BLOCK = 32
"""Neighbours in a progression that are products of one root and a short table."""
_LARGEST_ANGLE = 128
"""One part in so many of a turn is the most that a product for f64 turns: see `_products`."""


def roots(exponents: Real, n: int, nbytes: int) -> tuple[Real, Real]:
    """Cosines and sines of ``-2 pi exponents / n``, for numbers of so many bytes.

    Angles are taken from the nearest quarter of a turn, an exact operation on whole numbers, so
    that what is left has at most an eighth of a turn. Roots for f32 are computed in f64, those for
    f64 in the longest type that NumPy has.
    """
    wide, kept = _WIDTHS[nbytes]
    made = _wide_roots(exponents, n, np.dtype(wide).itemsize)
    return made.real.astype(kept), made.imag.astype(kept)


def _wide_roots(exponents: Real, n: int, nbytes: int) -> Complex:
    """The same in f64, or in the longest type if that has more bytes, as complex numbers."""
    wide = np.float64 if nbytes == 8 else _WIDE
    fourths = 4 * (np.asarray(exponents, np.int64) % n)
    quarters = (fourths + n // 2) // n
    angles = (fourths - quarters * n).astype(wide) * (wide(_QUARTER_TURN) / wide(n))
    made = np.empty(angles.shape, np.result_type(angles, np.complex64))
    made.real, made.imag = np.cos(angles), -np.sin(angles)
    made *= np.array([1, -1j, -1, 1j], made.dtype)[quarters & 3]
    return made


def _progressions(steps: Real, n: int, real: Real, imaginary: Real) -> None:
    """Writes ``w(steps[i] j / n)`` to element (i, j) of two arrays of any strides."""
    count, nbytes = real.shape[1], real.itemsize
    block = _block(int(np.max(steps, initial=1)), n, nbytes)
    lines, width = max(_CHUNK // max(count, 1), 1), _CHUNK // block * block
    for line in range(0, len(steps), lines):
        for begin in range(0, count, width):
            part = slice(line, line + lines), slice(begin, min(begin + width, count))
            some, size = steps[part[0], None], part[1].stop - begin
            firsts = some * (begin + np.arange(0, size, block))
            made = _products(firsts, some * np.arange(block), n, nbytes)
            real[part], imaginary[part] = (x.reshape(len(some), -1)[:, :size] for x in made)


def _block(step: int, n: int, nbytes: int) -> int:
    """How many roots are products of the same first one; of f64, 1 where they are too far apart."""
    if nbytes == 4:
        return _BLOCK
    block = _BLOCK
    while block > 1 and _LARGEST_ANGLE * block * step > n:
        block //= 2
    return block


def _products(firsts: Real, inner: Real, n: int, nbytes: int) -> tuple[Real, Real]:
    """Roots of ``firsts[i, a] + inner[i, b]`` as products, in f64.

    For f32 that is all. For f64, with f = 1 + d the inner root, ``w f`` is ``w + w d``, w as the
    sum of two numbers of f64. The last sum rounds once; w d is as much smaller than w as its own
    rounding error is negligible.
    """
    wide = np.dtype(_WIDTHS[nbytes][0]).itemsize
    w, f = _wide_roots(firsts, n, wide), _wide_roots(inner, n, wide)
    if nbytes == 4:
        made = w[..., None] * f[:, None, :]
        return made.real, made.imag
    (x, x_rest), (y, y_rest) = _in_two(w.real), _in_two(w.imag)
    c, s = (part.astype(np.float64)[:, None, :] for part in (f.real - 1, f.imag))
    return x * c - y * s + x_rest + x, x * s + y * c + y_rest + y


def _in_two(values: Real) -> tuple[Real, Real]:
    """Numbers as sums of two of f64, along one more dimension."""
    first = values.astype(np.float64)
    return first[..., None], (values - first).astype(np.float64)[..., None]


@lru_cache(256)
def step_table(radix: int, count: int, nbytes: int) -> bytes:
    """For each p below ``count``: the roots ``w(p c / (radix count))`` for 0 < c < radix."""
    made = np.empty((count, radix - 1, 2), _WIDTHS[nbytes][1])
    _progressions(np.arange(1, radix), radix * count, made[..., 0].T, made[..., 1].T)
    return made.tobytes()


@lru_cache(256)
def lane_table(radix: int, count: int, nbytes: int) -> bytes:
    """For each c, 0 < c < radix: all real parts of ``w(p c / (radix count))``, then imaginary."""
    return _lines(np.arange(1, radix), radix * count, count, nbytes)


def _lines(steps: Real, n: int, count: int, nbytes: int) -> bytes:
    """Of each step, ``w(step j / n)`` for j below ``count``: real parts, then imaginary ones."""
    made = np.empty((len(steps), 2, count), _WIDTHS[nbytes][1])
    _progressions(steps, n, made[:, 0], made[:, 1])
    return made.tobytes()


@lru_cache(64)
def half_table(n: int, nbytes: int) -> bytes:
    """The roots ``w(k / n)`` for k from 0 to n // 4: real parts, then imaginary ones."""
    return _lines(np.array([1]), n, n // 4 + 1, nbytes)


@lru_cache(64)
def chirp(n: int, nbytes: int, *, in_pairs: bool) -> bytes:
    """``exp(-pi i k^2 / n)`` for k below n: planes, or pairs."""
    return _kept(_wide_chirp(n, nbytes), nbytes, in_pairs=in_pairs)


def _kept(made: Complex, nbytes: int, *, in_pairs: bool) -> bytes:
    """Numbers as they are kept: pairs, or all real parts and then all imaginary ones."""
    kept = _WIDTHS[nbytes][1]
    if in_pairs:
        return made.astype(np.dtype(f"<c{2 * nbytes}")).tobytes()
    planes = np.empty((2, made.size), kept)
    planes[0], planes[1] = made.real, made.imag
    return planes.tobytes()


@lru_cache(4)
def _wide_chirp(n: int, nbytes: int) -> Complex:
    """The same in the wider type, by half: ``(n - k)^2`` is ``k^2 + n^2`` modulo 2 n."""
    wide = _WIDTHS[nbytes][0]
    made = np.empty(n, np.result_type(wide, np.complex64))
    for begin in range(0, n // 2 + 1, _CHUNK):
        end = min(begin + _CHUNK, n // 2 + 1)
        made[begin:end] = _wide_roots(np.arange(begin, end) ** 2, 2 * n, np.dtype(wide).itemsize)
    made[n // 2 + 1 :] = made[1 : (n + 1) // 2][::-1] * (-1 if n % 2 else 1)
    return made


@lru_cache(64)
def chirp_spectrum(n: int, m: int, nbytes: int, *, in_pairs: bool) -> bytes:
    """The transform of m points of the conjugate chirp, both ways from 0, over m."""
    made = np.conj(_wide_chirp(n, nbytes))
    signal = np.zeros(m, made.dtype)
    signal[:n], signal[m - n + 1 :] = made, made[:0:-1]
    spectrum = np.fft.fft(signal, norm="forward")
    return _kept(spectrum, nbytes, in_pairs=in_pairs)


@lru_cache(16)
def split_tables(n1: int, n2: int, block: int, most: int, nbytes: int) -> tuple[bytes, bytes]:
    """Roots ``w(k j / (n1 n2))`` as products, for k = block m + l.

    The first for each m, the second for each l below ``most``; of each, the real parts for all j,
    then the imaginary ones.
    """
    firsts = (np.arange(max(n1 // block, 1)) * block, np.arange(most))
    outer, inner = (_lines(first, n1 * n2, n2, nbytes) for first in firsts)
    return outer, inner
