"""Arithmetic of the vector unit in NumPy: bf16 through f32, total integer division, erf, rounding.

What a vendor replaces: nothing; it is the simulated hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_BF16_NAN = np.uint16(0x7FC0)


def bf16_to_f32(bits: Array) -> Array:
    """The floats that bf16 bit patterns mean; exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: Array) -> Array:
    """Bit patterns of f32 values, rounded to nearest even; NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    narrow = (rounded >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if not nan.any():
        return narrow
    sign = (bits >> np.uint32(16)).astype(np.uint16) & np.uint16(0x8000)
    return np.where(nan, sign | _BF16_NAN, narrow)


def integers_to_bf16(values: Array) -> Array:
    """Bit patterns of integers of up to 32 bits, rounded once to nearest even."""
    wide = values.astype(np.float64).view(np.uint64)
    rounded = wide + np.uint64(0xFFFFFFFFFFF) + ((wide >> np.uint64(45)) & np.uint64(1))
    kept = rounded & ~np.uint64(0x1FFFFFFFFFFF)
    return (kept.view(np.float64).astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(
        np.uint16
    )


def float_to_integer(values: Array, dtype: np.dtype[Any]) -> Array:
    """f32 toward zero, saturating at the limits of the type; NaN as 0."""
    limits = np.iinfo(dtype)
    wide = np.where(np.isnan(values), 0, np.trunc(values.astype(np.float64)))
    return np.clip(wide, limits.min, limits.max).astype(dtype)


def divide_integers(a: Array, b: Array) -> Array:
    """Quotient toward zero; all ones where the divisor is 0; least over -1 wraps."""
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    zero = wide_b == 0
    safe = np.where(zero, 1, wide_b)
    quotient = np.abs(wide_a) // np.abs(safe)
    signed = np.where((wide_a < 0) != (safe < 0), -quotient, quotient)
    return np.where(zero, -1, signed).astype(a.dtype)


def remainder_integers(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign; the dividend where the divisor is 0."""
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    zero = wide_b == 0
    rest = np.fmod(wide_a, np.where(zero, 1, wide_b))
    return np.where(zero, wide_a, rest).astype(a.dtype)


def power_integers(a: Array, b: Array) -> Array:
    """Power by repeated squaring, wrapping; a negative exponent gives the truncated reciprocal."""
    base, exponent = a.astype(np.int64), b.astype(np.int64)
    negative = exponent < 0
    left = np.where(negative, 0, exponent)
    result, square = np.ones_like(base), base.copy()
    while left.any():
        result = np.where(left & 1, result * square, result)
        square, left = square * square, left >> 1
    odd = np.where(exponent & 1, -1, 1)
    unit = np.where(base == 1, 1, np.where(base == -1, odd, 0))
    return np.where(negative, unit, result).astype(a.dtype)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product of twice the width."""
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    product = a.astype(wide) * b.astype(wide)
    return (product >> wide(8 * a.dtype.itemsize)).astype(a.dtype)


def _unsigned(a: Array) -> Array:
    return a.view(f"u{a.dtype.itemsize}")


def shift_left(a: Array, b: Array) -> Array:
    """Shift by an unsigned amount; zero from the width on."""
    return _shifted(a, b, np.left_shift)


def shift_right(a: Array, b: Array) -> Array:
    """Shift filling with zeros; zero from the width on."""
    return _shifted(a, b, np.right_shift)


def _shifted(a: Array, b: Array, shift: Any) -> Array:
    x, amount = _unsigned(a), _unsigned(b)
    width = 8 * a.dtype.itemsize
    inside = amount < width
    result = shift(x, np.where(inside, amount, 0).astype(x.dtype))
    return np.where(inside, result, 0).astype(x.dtype).view(a.dtype)


def shift_right_arithmetic(a: Array, b: Array) -> Array:
    """Shift filling with the top bit; all top bit from the width on."""
    width = 8 * a.dtype.itemsize
    signed = a.view(f"i{a.dtype.itemsize}")
    amount = np.minimum(_unsigned(b), width - 1).astype(signed.dtype)
    return (signed >> amount).view(a.dtype)


def maximum(a: Array, b: Array) -> Array:
    """Larger float; NaN wins, and -0 is below 0."""
    larger = np.maximum(a, b)
    zeros = (larger == 0) & (a == b)
    return np.where(zeros, a + b, larger) if zeros.any() else larger


def minimum(a: Array, b: Array) -> Array:
    """Smaller float; NaN wins, and -0 is below 0."""
    return -maximum(-a, -b)


def count_leading_zeros(a: Array) -> Array:
    """Zero bits above the highest set one."""
    x = _unsigned(a)
    for shift in (1, 2, 4, 8, 16)[: int(math.log2(8 * a.dtype.itemsize))]:
        x = x | (x >> x.dtype.type(shift))
    return (8 * a.dtype.itemsize - np.bitwise_count(x).astype(np.int32)).astype(a.dtype)


def population_count(a: Array) -> Array:
    """Set bits."""
    return np.bitwise_count(_unsigned(a)).astype(a.dtype)


def round_away(x: Array) -> Array:
    """Nearest integer, ties away from zero."""
    whole = np.trunc(x)
    one = np.copysign(np.ones_like(x), x)
    return np.where(np.abs(x - whole) >= 0.5, whole + one, whole)


def sign(x: Array) -> Array:
    """-1, 0 or 1; NaN and signed zeros stay."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def total_order_key(x: Array) -> Array:
    """Signed integers ordered as IEEE 754 totalOrder: -NaN, -inf .. -0, +0 .. inf, NaN."""
    bits = x.view(np.int32)
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)


_ERF_SEGMENTS = 64
_ERF_LIMIT = 4.0  # erf(4) rounds to 1 in f32
_ERF_DEGREE = 7


@cache
def _erf_coefficients() -> Array:
    """Polynomials through erf at Chebyshev points, one per segment of [0, 4], highest power first.

    Degree 7 on segments of 1/16 leaves an error below 2e-16, far under half a unit of f32.
    """
    width = _ERF_LIMIT / _ERF_SEGMENTS
    points = np.cos((2 * np.arange(_ERF_DEGREE + 1) + 1) * math.pi / (2 * _ERF_DEGREE + 2))
    rows = []
    for segment in range(_ERF_SEGMENTS):
        middle = (segment + 0.5) * width
        values = [math.erf(middle + p * width / 2) for p in points]
        rows.append(np.linalg.solve(np.vander(points), np.array(values)))
    return np.array(rows)


def erf(x: Array) -> Array:
    """Gauss error function of f32."""
    magnitude = np.minimum(np.abs(x.astype(np.float64)), _ERF_LIMIT)
    scaled = np.where(np.isnan(magnitude), 0, magnitude) * (_ERF_SEGMENTS / _ERF_LIMIT)
    segment = np.minimum(scaled.astype(np.int64), _ERF_SEGMENTS - 1)
    at = 2 * (scaled - segment) - 1
    rows = _erf_coefficients()
    value = rows[segment, 0]
    for power in range(1, _ERF_DEGREE + 1):
        value = value * at + rows[segment, power]
    # near 0 the polynomial's absolute error is relative to a result that vanishes
    small = magnitude < 1e-4
    value = np.where(small, magnitude * (2 / math.sqrt(math.pi)), value)
    return np.where(np.isnan(x), x, np.copysign(value, x)).astype(np.float32)


def quantize(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """f32 rounded to nearest even as if it had fields of these widths (at most its own, 8 and 23).

    Past the range is infinite, below the least normal is zero; NaN stays.
    """
    bits = x.view(np.uint32)
    dropped = max(0, 23 - mantissa_bits)
    if dropped:
        half = np.uint32((1 << (dropped - 1)) - 1)
        odd = (bits >> np.uint32(dropped)) & np.uint32(1)
        bits = (bits + half + odd) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    if exponent_bits < 8:
        bias = (1 << (exponent_bits - 1)) - 1
        sign, exponent = bits & np.uint32(1 << 31), (bits >> np.uint32(23)) & np.uint32(0xFF)
        bits = np.where(exponent > 127 + bias, sign | np.uint32(0x7F800000), bits)
        bits = np.where(exponent <= 127 - bias, sign, bits)
    return np.where(np.isnan(x), x, bits.view(np.float32))


def through_f64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of f32 computed in f64: NumPy's f32 differs by an ulp with where the lanes are."""

    def wide(x: Array) -> Array:
        return function(x.astype(np.float64)).astype(np.float32)

    return wide


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), in f64 as exp(-x) may overflow f32."""
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)


def power(x: Array, y: Array) -> Array:
    """x to the power y, in f64 as `through_f64`."""
    return np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)


def arctangent(y: Array, x: Array) -> Array:
    """The angle of (x, y), in f64 as `through_f64`."""
    return np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(np.float32)
