"""Moves arrays between narrow types and the wider ones that their arithmetic is done in.

NumPy and ml_dtypes calculate bf16, fp8 and 4-bit types through intermediate types of their own
choice, and cast f64 to them by way of f32, which rounds twice. Here arithmetic of narrow types is
done in a type that holds every operand and needs no second thought, and is rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.literal import Array

NpType = np.dtype[Any]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_C64, _C128 = np.dtype(np.complex64), np.dtype(np.complex128)

_WIDE: Mapping[NpType, NpType] = {
    **{t.np: _F64 for t in dt.FLOATS if t not in (dt.F32, dt.F64)},
    **{t.np: np.dtype(np.int8) for t in (dt.S1, dt.S2, dt.S4)},
    **{t.np: np.dtype(np.uint8) for t in (dt.U1, dt.U2, dt.U4)},
}
_HIGHER: Mapping[NpType, NpType] = {
    **{t.np: _F64 for t in dt.FLOATS},
    _F64: np.dtype(np.longdouble),
    _C64: _C128,
    _C128: np.dtype(np.clongdouble),
}
_WITHOUT_NAN = frozenset(t.np for t in (dt.F4E2M1FN, dt.F6E3M2FN, dt.F6E2M3FN))


def widen(array: Array) -> Array:
    """The array in a type where NumPy's own arithmetic is right: f64 for floats under 32 bits,
    8-bit integers for smaller ones, the same otherwise. Exact."""
    wide = _WIDE.get(array.dtype)
    return array if wide is None else array.astype(wide)


def raise_precision(array: Array) -> Array:
    """The array in a type with spare bits, so that a function of it may be rounded once.

    f64 for floats up to f32, long double for f64, and likewise for complex types. Exact.
    """
    return array.astype(_HIGHER[array.dtype])


def narrow(array: Array, dtype: NpType) -> Array:
    """The array rounded to nearest even in ``dtype``; integers wrap.

    NaN of either sign is -0 in formats that have none, as in XLA.

    Args:
        array: floats of f16, f32 or f64, complex, or integers.
        dtype: the type to round to; casts between those NumPy has are left to it.
    """
    if array.dtype == dtype:
        return array
    if array.dtype == _F64 and dtype in _WIDE and dtype != np.float16:
        array = round_to_odd_f32(array)
    if dtype in _WITHOUT_NAN:
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.astype(dtype)


def round_to_odd_f32(array: Array) -> Array:
    """f64 as f32 such that rounding that to fewer than 23 bits is as rounding the f64.

    An inexact value becomes the one of its two f32 neighbours whose last bit is 1, so it never
    looks like a tie (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    nearest = array.astype(np.float32)
    back = nearest.astype(np.float64)
    even = (nearest.view(np.uint32) & 1) == 0
    moved = np.nextafter(nearest, np.where(back < array, np.float32(np.inf), np.float32(-np.inf)))
    inexact = (back != array) & ~np.isnan(array)
    return np.where(inexact & even, moved, nearest)


def pointwise(values: Any, dtype: NpType) -> Array:
    """``values`` (an array, or a NumPy scalar that stands for one) as an array of ``dtype``."""
    return narrow(np.asarray(values), dtype)
