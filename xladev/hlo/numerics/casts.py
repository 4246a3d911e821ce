"""Value casts between any two element types, with XLA's rules for what does not fit."""

from __future__ import annotations

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.numerics.precision import narrow, widen


def convert(array: Array, target: PrimitiveType) -> Array:
    """Each element as ``target``.

    Integers wrap; floats become integers toward zero, saturating, NaN as 0; to pred is "not zero";
    floats round to nearest even, overflowing as the format does; complex to real drops the
    imaginary part.
    """
    source = dt.by_numpy(array.dtype)
    if source is target:
        return array
    if target is dt.PRED:
        return np.asarray(widen(array) != 0)
    if target.is_complex:
        return _to_complex(array, source, target)
    if source.is_complex:
        array = array.real
        source = source.component
    if source.is_float:
        return _from_float(array, target)
    return _from_integer(array, target)


def _to_complex(array: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
    if source.is_complex:
        return array.astype(target.np)
    return convert(array, target.component).astype(target.np)


def _from_float(array: Array, target: PrimitiveType) -> Array:
    if target.is_float:
        return narrow(widen(array), target.np)
    return float_to_integer(widen(array), target)


def _from_integer(array: Array, target: PrimitiveType) -> Array:
    wide = widen(array)
    if not target.is_float or target in (dt.F32, dt.F64):
        return wide.astype(target.np)
    return narrow(_as_sticky_f64(wide), target.np)


def _as_sticky_f64(integers: Array) -> Array:
    """Integers as f64, those past 2**53 rounded to odd so that they can be rounded once more."""
    if integers.dtype.itemsize < 8:
        return integers.astype(np.float64)
    step = integers.dtype.type(12)
    kept = (integers >> step) << step
    odd = kept | ((kept != integers).astype(integers.dtype) << step)
    small = integers < 2**53
    if integers.dtype.kind == "i":
        small &= integers > -(2**53)
    return np.where(small, integers, odd).astype(np.float64)


def float_to_integer(values: Array, target: PrimitiveType) -> Array:
    """f32 or f64 values toward zero, saturating at the limits of ``target``; NaN as 0."""
    least, most = integer_limits(target)
    whole = np.trunc(values.astype(np.float64))
    below, above = whole < least, whole >= most + 1
    fits = ~(below | above | np.isnan(whole))
    wide = np.dtype(np.int64) if target.kind is Kind.SINT else np.dtype(np.uint64)
    inside = np.where(fits, whole, 0).astype(wide)
    clamped = np.where(below, wide.type(least), np.where(above, wide.type(most), inside))
    return clamped.astype(target.np)


def integer_limits(target: PrimitiveType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if target.is_signed:
        return -(1 << (target.bits - 1)), (1 << (target.bits - 1)) - 1
    return 0, (1 << target.bits) - 1


def as_indices(array: Array) -> Array:
    """Any integers as s64, saturating: u64 past the s64 range must not look negative."""
    wide = widen(array)
    if wide.dtype == np.uint64:
        wide = np.minimum(wide, np.uint64(np.iinfo(np.int64).max))
    return wide.astype(np.int64)
