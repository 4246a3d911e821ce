"""Real arithmetic and functions on arrays of a precision that NumPy calculates in."""

from __future__ import annotations

import math

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.literal import Array

_WITHOUT_NEGATIVE_ZERO = frozenset({dt.F8E4M3B11FNUZ, dt.F8E4M3FNUZ, dt.F8E5M2FNUZ})

_erf_of_each = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """Gauss error function; of the C library, in f64."""
    return np.asarray(_erf_of_each(np.asarray(x, np.float64)), dtype=x.dtype)


def rsqrt(x: Array) -> Array:
    """Reciprocal square root; -inf at -0."""
    return np.asarray(1 / np.sqrt(x))


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)); the raised precision has the range for exp."""
    return np.asarray(1 / (1 + np.exp(-x)))


def round_half_away(x: Array) -> Array:
    """Nearest integer, ties away from zero. Exact: x - trunc(x) is."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole).astype(x.dtype)


def sign(x: Array) -> Array:
    """-1, 0 or 1 with the sign of zero and NaN kept."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def total_order_key(x: Array) -> Array:
    """Signed integers ordered as IEEE 754 totalOrder: -NaN, -inf .. -0, +0 .. inf, NaN.

    Types of less than a byte have their sign in the highest bit of the type; f8e8m0fnu has none.
    The one NaN of fnuz types is negative, as XLA has it.
    """
    dtype = dt.by_numpy(x.dtype)
    if dtype is dt.F8E8M0FNU:
        return np.asarray(x).view(np.uint8).astype(np.int16)
    bits = np.asarray(x).view(f"i{x.dtype.itemsize}")
    spare = 8 * x.dtype.itemsize - dtype.bits
    bits = np.right_shift(np.left_shift(bits, spare), spare)
    magnitude = np.asarray(2 ** (dtype.bits - 1) - 1, bits.dtype)
    if dtype in _WITHOUT_NEGATIVE_ZERO:
        keys = np.where(bits < 0, bits ^ magnitude, bits).astype(np.int16)
        return np.where(bits == -128, np.int16(-129), keys)
    return np.where(bits < 0, bits ^ magnitude, bits)
