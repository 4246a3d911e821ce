"""Arithmetic of sums: in which type terms are accumulated, and how the result is rounded.

HLO leaves the order of a sum free, so no order is right to the last bit. The evaluator therefore
accumulates in a wider type than any backend (f64 for f32, f32 for narrower floats) and rounds
once; integers wrap modulo their width, in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.hlo.dtype import PrimitiveType, by_numpy
from xladev.hlo.literal import Array

_EXACT_IN_F64 = 2**53


def accumulator(element_type: PrimitiveType) -> np.dtype[Any]:
    """The NumPy dtype that sums and products of elements of this type are kept in."""
    if element_type.is_complex:
        return np.dtype(np.complex128)
    if element_type.is_float:
        return np.dtype(np.float64 if element_type.bits >= 32 else np.float32)
    if element_type.is_integral and element_type.bits < 8:
        return np.dtype(np.int32 if element_type.is_signed else np.uint32)
    return element_type.np


def accumulator_of(result: PrimitiveType, *terms: Array) -> np.dtype[Any]:
    """The dtype in which ``terms`` are multiplied and summed for a result of this type."""
    found = accumulator(result)
    if not (result.is_float or result.is_complex):
        return found
    for term in terms:
        kind = by_numpy(term.dtype)
        if kind.is_float or kind.is_complex:
            found = np.promote_types(found, accumulator(kind))
    return found


def rounded(values: Array, element_type: PrimitiveType) -> Array:
    """Accumulated values in the dtype of ``element_type``: rounded, or wrapped if integers."""
    if element_type.is_float and values.dtype.kind == "c":
        values = np.real(values)
    return np.asarray(values).astype(element_type.np, copy=False)


def matmul(a: Array, b: Array, wide: np.dtype[Any]) -> Array:
    """Products of stacks of matrices, accumulated in ``wide``.

    Args:
        a: ``[..., m, k]``, of any dtype.
        b: ``[..., k, n]``, of any dtype.
        wide: dtype of the result; integers wrap, bool means or of ands.
    """
    if wide == np.bool_:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)) != 0
    a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
    if wide.kind in "iu" and _fits_f64(a, b):
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(wide)
    return np.matmul(a, b)


def _fits_f64(a: Array, b: Array) -> bool:
    """True if every partial sum of ``a @ b`` is an integer that f64 holds exactly."""
    if not a.size or not b.size:
        return False
    return _magnitude(a) * _magnitude(b) * a.shape[-1] < _EXACT_IN_F64


def _magnitude(a: Array) -> int:
    return max(abs(int(a.min())), abs(int(a.max())))
