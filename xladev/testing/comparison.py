"""Compares results with expected arrays, as strictly as each kind of check says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ALMOST = 1e-4
CLOSE_EPS = 16
DEFAULT_RTOL = 1e-3
"""Of the results of programs in f32 and wider types."""
LAST_PLACES = 4
"""Units in the last place by which results of narrower types may differ."""


def expect_eq(got: Array, want: Array) -> Array:
    """Where two arrays are equal, NaN being equal to NaN."""
    if want.dtype.kind == "c":
        return expect_eq(got.real, want.real) & expect_eq(got.imag, want.imag)
    return (got == want) | (_is_nan(got) & _is_nan(want))


def expect_almost_eq(got: Array, want: Array) -> Array:
    """Where the difference is at most 1e-4, relative or absolute."""
    allowed = ALMOST * np.maximum(1.0, np.abs(_wide(want)))
    return expect_eq(got, want) | (_distance(got, want) <= allowed)


def expect_close(got: Array, want: Array) -> Array:
    """Where the difference is at most 16 eps of the dtype, relative or absolute."""
    if want.dtype.kind in "iub":
        return expect_eq(got, want)
    allowed = CLOSE_EPS * _eps(want.dtype) * np.maximum(1.0, np.abs(_wide(want)))
    return expect_eq(got, want) | (_distance(got, want) <= allowed)


CHECKS: dict[str, Callable[[Array, Array], Array]] = {
    "expect_eq": expect_eq,
    "expect_almost_eq": expect_almost_eq,
    "expect_close": expect_close,
}
"""How StableHLO's cases are checked, by kind."""


def expect_relative(rtol: float) -> Callable[[Array, Array], Array]:
    """The check of exported programs: relative to the value and to a tenth of the largest one."""

    def check(got: Array, want: Array) -> Array:
        if want.dtype.kind in "iub" or not want.size:
            return expect_eq(got, want)
        size = np.abs(_wide(want))
        allowed = rtol * np.maximum(size, 0.1 * np.max(np.where(np.isfinite(size), size, 0)))
        return expect_eq(got, want) | (_distance(got, want) <= allowed)

    return check


def default_rtol(dtype: np.dtype[Any]) -> float:
    """The relative tolerance of a program's results of a dtype: bf16 has two digits, f32 seven."""
    return DEFAULT_RTOL if dtype.kind in "iub" else max(DEFAULT_RTOL, LAST_PLACES * _eps(dtype))


def expect_as_dtype_allows(got: Array, want: Array) -> Array:
    """As `expect_relative`, with the tolerance of the dtype."""
    return expect_relative(default_rtol(want.dtype))(got, want)


def difference(check: Callable[[Array, Array], Array], got: Array, want: Array) -> str:
    """What is wrong with a result; empty if nothing is."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"got {got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    with np.errstate(all="ignore"):
        good = np.asarray(check(got, want))
    if good.all():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(~good)))
    bad = int((~good).sum())
    first, wanted = np.atleast_1d(got)[at], np.atleast_1d(want)[at]
    return f"{bad} of {want.size} differ, first at {list(at)}: got {first}, want {wanted}"


def _is_nan(array: Array) -> Array:
    if array.dtype.kind in "iub":
        return np.zeros(array.shape, bool)
    return np.asarray(array != array)


def _wide(array: Array) -> Array:
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return np.asarray(array, wide)


def _distance(got: Array, want: Array) -> Array:
    distance = np.abs(_wide(got) - _wide(want))
    return np.where(np.isnan(distance), np.inf, distance)


def _eps(dtype: np.dtype[Any]) -> float:
    if dtype.kind == "c":
        return float(np.finfo(dtype).eps)
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
