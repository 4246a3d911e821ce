"""Distance of results from the truth in units in the last place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

Reference = Callable[..., Any]


def exact(function: Reference, *operands: np.generic) -> Any:
    """The mpmath value of a function at floats; inf or nan where it has a pole or none."""
    try:
        return function(*[mpmath.mpf(float(x)) for x in operands])
    except (ZeroDivisionError, ValueError):
        return mpmath.nan


def rounded(value: Any, dtype: np.dtype[Any]) -> Any:
    """An mpmath real as the nearest float of a type, from the exact binary fraction."""
    if mpmath.isnan(value) or isinstance(value, mpmath.mpc):
        return dtype.type(np.nan)
    info = np.finfo(dtype)
    if abs(value) >= mpmath.mpf(float(info.max)) * (1 + mpmath.mpf(2) ** -(info.nmant + 2)):
        return dtype.type(np.inf if value > 0 else -np.inf)
    return dtype.type(float(value))


def ulp(value: Any, dtype: np.dtype[Any]) -> Any:
    """One unit in the last place of a type at a real number, subnormals included."""
    info = np.finfo(dtype)
    if value == 0:
        return mpmath.mpf(float(info.smallest_subnormal))
    exponent = int(mpmath.floor(mpmath.log(abs(value), 2)))
    smallest = mpmath.mpf(2) ** (info.minexp - info.nmant)
    return max(mpmath.mpf(2) ** (exponent - info.nmant), smallest)


def error(got: np.generic, want: Any) -> float:
    """|got - want| in ulp of want; 0 for equal infinities and NaNs, inf where only one is."""
    expected = rounded(want, got.dtype)
    if not (np.isfinite(got) and np.isfinite(expected)):
        same = np.isnan(got) and np.isnan(expected)
        return 0.0 if same or got == expected else float("inf")
    return float(abs(mpmath.mpf(float(got)) - want) / ulp(want, got.dtype))
