"""Roots of unity, rounded once, as the bytes that microkernels read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[Any]

_WIDE: Any = np.longdouble
_QUARTER_TURN = _WIDE("1.57079632679489661923132169163975144209858")
_WIDTHS: dict[int, tuple[Any, str]] = {4: (np.float64, "<f4"), 8: (_WIDE, "<f8")}
"""By bytes of a number: the type in which it is computed, and in which it is kept."""


def roots(exponents: Real, n: int, nbytes: int) -> tuple[Real, Real]:
    """Cosines and sines of ``-2 pi exponents / n``, for numbers of so many bytes.

    Angles are taken from the nearest quarter of a turn, an exact operation on whole numbers, so
    that what is left has at most an eighth of a turn. Roots for f32 are computed in f64, those for
    f64 in the longest type that NumPy has.
    """
    wide, kept = _WIDTHS[nbytes]
    real, imaginary = _wide_roots(exponents, n, np.dtype(wide).itemsize)
    return real.astype(kept), imaginary.astype(kept)


def _wide_roots(exponents: Real, n: int, nbytes: int) -> tuple[Real, Real]:
    """The same in f64, or in the longest type if that has more bytes."""
    wide = np.float64 if nbytes == 8 else _WIDE
    fourths = 4 * (np.asarray(exponents, np.int64) % n)
    quarters = (fourths + n // 2) // n
    angles = (fourths - quarters * n).astype(wide) * (wide(_QUARTER_TURN) / wide(n))
    made = np.cos(angles) - 1j * np.sin(angles)
    made *= np.array([1, -1j, -1, 1j], made.dtype)[quarters & 3]
    return made.real, made.imag


def pairs(real: Real, imaginary: Real) -> bytes:
    """Real and imaginary parts in turns."""
    return np.stack([real, imaginary], axis=-1).tobytes()


@lru_cache(256)
def step_table(radix: int, count: int, nbytes: int) -> bytes:
    """For each p below ``count``: the roots ``w(p c / (radix count))`` for 0 < c < radix."""
    exponents = np.outer(np.arange(count), np.arange(1, radix))
    return pairs(*roots(exponents, radix * count, nbytes))


@lru_cache(256)
def lane_table(radix: int, count: int, nbytes: int) -> bytes:
    """For each c, 0 < c < radix: all real parts of ``w(p c / (radix count))``, then imaginary."""
    exponents = np.outer(np.arange(1, radix), np.arange(count))
    return np.stack(roots(exponents, radix * count, nbytes), axis=1).tobytes()


@lru_cache(64)
def half_table(n: int, nbytes: int) -> bytes:
    """The roots ``w(k / n)`` for k from 0 to n // 4: real parts, then imaginary ones."""
    return np.stack(roots(np.arange(n // 4 + 1), n, nbytes)).tobytes()


@lru_cache(64)
def chirp(n: int, nbytes: int, *, in_pairs: bool) -> bytes:
    """``exp(-pi i k^2 / n)`` for k below n: planes, or pairs."""
    parts = roots(np.arange(n) ** 2, 2 * n, nbytes)
    return pairs(*parts) if in_pairs else np.stack(parts).tobytes()


@lru_cache(64)
def chirp_spectrum(n: int, m: int, nbytes: int, *, in_pairs: bool) -> bytes:
    """The transform of m points of the conjugate chirp, both ways from 0, over m."""
    wide = 8 if nbytes == 4 else 16
    real, imaginary = _wide_roots(np.arange(n) ** 2, 2 * n, wide)
    signal = np.zeros(m, np.complex128 if wide == 8 else np.clongdouble)
    signal[:n] = real - 1j * imaginary
    signal[m - n + 1 :] = signal[1:n][::-1]
    spectrum = np.fft.fft(signal) / m
    kept = _WIDTHS[nbytes][1]
    parts = spectrum.real.astype(kept), spectrum.imag.astype(kept)
    return pairs(*parts) if in_pairs else np.stack(parts).tobytes()


@lru_cache(16)
def split_tables(n1: int, n2: int, block: int, most: int, nbytes: int) -> tuple[bytes, bytes]:
    """Roots ``w(k j / (n1 n2))`` as products, for k = block m + l.

    The first for each m, the second for each l below ``most``; of each, the real parts for all j,
    then the imaginary ones.
    """
    columns = np.arange(n2)
    firsts = (np.arange(max(n1 // block, 1)) * block, np.arange(most))
    outer, inner = (
        np.stack(roots(np.outer(first, columns), n1 * n2, nbytes), axis=1).tobytes()
        for first in firsts
    )
    return outer, inner
