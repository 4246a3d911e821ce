"""Errors of results in units in the last place of what is true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xladev.hlo.literal import Array

NEVER = np.inf
"""The error of a number where there is none, and of none where there is one."""


@dataclass(frozen=True, slots=True)
class FloatSpacing:
    """What a float type's last place is.

    Attributes:
        digits: of the significand, the hidden one included.
        least: exponent of the least normal number.
        most: exponent of the first power of two that is infinite.
    """

    digits: int
    least: int
    most: int


F32 = FloatSpacing(24, -126, 128)
F64 = FloatSpacing(53, -1022, 1024)


def errors_in_ulps(got: Array, true: Array, form: FloatSpacing) -> Array:
    """How far results are from the truth.

    Infinity counts as the power of two that it stands for, so that whoever rounds up the last
    finite numbers is not punished for it more than by their distance.

    Args:
        got: results.
        true: the truth in a wider type, of the same shape.
        form: of the results' type.

    Returns:
        Non-negative numbers in the wider type; `NEVER` where one is NaN and not the other, or the
        result is on the other side of zero, zero itself included.
    """
    edge = np.ldexp(true.dtype.type(1), form.most)
    bounded = np.clip(true, -edge, edge)
    with np.errstate(invalid="ignore"):
        near = np.clip(got.astype(true.dtype), -edge, edge)
        found = np.abs(near - bounded) * _per_place(bounded, form)
        astray = np.signbit(near) != np.signbit(bounded)
    nan = np.isnan(got), np.isnan(true)
    found[astray & ~nan[0]] = NEVER
    found[nan[0] | nan[1]] = NEVER
    found[nan[0] & nan[1]] = 0
    return found


def _per_place(true: Array, form: FloatSpacing) -> Array:
    """The reciprocal of what one unit in the last place is worth at each number."""
    if true.dtype == np.float64:
        exponent = (true.view(np.int64) >> 52 & 0x7FF) - 1023
        place = np.clip(exponent, form.least, form.most - 1) - (form.digits - 1)
        return ((1023 - place) << 52).view(np.float64)
    exponent = np.frexp(true)[1] - 1
    place = np.clip(exponent, form.least, form.most - 1) - (form.digits - 1)
    return np.ldexp(true.dtype.type(1), -place)
