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
    fourths = 4 * (np.asarray(exponents, np.int64) % n)
    quarters = (fourths + n // 2) // n
    angles = (fourths - quarters * n).astype(wide) * (wide(_QUARTER_TURN) / wide(n))
    cosines, sines = np.cos(angles), np.sin(angles)
    quarters %= 4
    real = np.choose(quarters, (cosines, -sines, -cosines, sines))
    imaginary = np.choose(quarters, (-sines, -cosines, sines, cosines))
    return real.astype(kept), imaginary.astype(kept)


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
