"""Integer arithmetic as HLO defines it: wrapping, total division, bounded shifts, bit counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.literal import Array
from xladev.hlo.numerics.precision import narrow, widen

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def width(array: Array) -> int:
    """Bits of one element, as HLO counts them: 4 for s4."""
    return dt.by_numpy(array.dtype).bits


def codes(array: Array) -> Array:
    """The elements' bit patterns as unsigned integers of at least 8 bits, upper bits zero."""
    wide = widen(array)
    unsigned = wide.view(_UNSIGNED[wide.dtype.itemsize])
    bits = width(array)
    return unsigned if bits >= 8 else unsigned & np.uint8((1 << bits) - 1)


def from_codes(patterns: Array, dtype: np.dtype[Any]) -> Array:
    """The integers of ``dtype`` whose bit patterns these are; excess upper bits are dropped."""
    signed = dt.by_numpy(dtype).is_signed
    if signed:
        patterns = patterns.view(f"i{patterns.dtype.itemsize}")
    return narrow(patterns, dtype)


def bitwise_not(a: Array) -> Array:
    """Complement of every bit."""
    return from_codes(np.asarray(~codes(a)), a.dtype)


def divide(a: Array, b: Array) -> Array:
    """Quotient toward zero; all ones where the divisor is 0; the least integer over -1 wraps."""
    x, y = widen(a), widen(b)
    zero = y == 0
    safe = np.where(zero | _overflows(x, y), np.ones_like(y), y)
    quotient = _floor_to_truncated(x // safe, x - (x // safe) * safe, safe)
    quotient = np.where(_overflows(x, y), x, quotient)
    all_ones = np.invert(np.zeros_like(x))
    return narrow(np.where(zero, all_ones, quotient), a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign; the dividend where the divisor is 0."""
    x, y = widen(a), widen(b)
    zero = y == 0
    safe = np.where(zero | _overflows(x, y), np.ones_like(y), y)
    return narrow(np.where(zero, x, np.fmod(x, safe)), a.dtype)


def _overflows(x: Array, y: Array) -> Array:
    """Where the quotient is one too large: the least integer divided by -1."""
    if x.dtype.kind == "u":
        return np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
    return (x == np.iinfo(x.dtype).min) & (y == -1)


def _floor_to_truncated(floor: Array, rest: Array, y: Array) -> Array:
    """Quotient toward zero from the one toward minus infinity and its remainder."""
    if floor.dtype.kind == "u":
        return floor
    return np.where((rest != 0) & (floor < 0), floor + np.ones_like(y), floor)


def power(a: Array, b: Array) -> Array:
    """``a`` to the power of ``b``, wrapping.

    A negative exponent gives the integer part of the reciprocal: 0 unless ``a`` is 1 or -1.
    """
    x, y = np.broadcast_arrays(widen(a), widen(b))
    result, base, exponent = np.ones_like(x), x.copy(), np.where(y < 0, 0, y).astype(y.dtype)
    one = exponent.dtype.type(1)
    while exponent.any():
        result = np.where(exponent & one, result * base, result)
        base, exponent = base * base, exponent >> one
    if x.dtype.kind == "i":
        unit = np.where(x == 1, 1, np.where(x == -1, np.where(y & one, -1, 1), 0))
        result = np.where(y < 0, unit.astype(x.dtype), result)
    return narrow(result, a.dtype)


def multiply_high(a: Array, b: Array) -> Array:
    """Upper half of the product, which has twice the width."""
    bits = width(a)
    if bits == 64:
        return _multiply_high_64(a, b)
    wide = np.int64 if a.dtype.kind == "i" or dt.by_numpy(a.dtype).is_signed else np.uint64
    product = widen(a).astype(wide) * widen(b).astype(wide)
    return narrow(product >> wide(bits), a.dtype)


def _multiply_high_64(a: Array, b: Array) -> Array:
    """Schoolbook product of 32-bit halves; signed operands correct the unsigned result."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = codes(a), codes(b)
    low = (x & mask) * (y & mask)
    cross1 = (x >> half) * (y & mask) + (low >> half)
    cross2 = (x & mask) * (y >> half) + (cross1 & mask)
    high = (x >> half) * (y >> half) + (cross1 >> half) + (cross2 >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return from_codes(np.asarray(high), a.dtype)


def shift_left(a: Array, b: Array) -> Array:
    """Shift by ``b`` bits, read as unsigned; 0 where that is the width or more."""
    x, amount = codes(a), codes(b)
    over = amount >= width(a)
    return from_codes(np.where(over, 0, x << np.where(over, 0, amount)).astype(x.dtype), a.dtype)


def shift_right_logical(a: Array, b: Array) -> Array:
    """Shift by ``b`` bits filling with zeros; 0 where that is the width or more."""
    x, amount = codes(a), codes(b)
    over = amount >= width(a)
    return from_codes(np.where(over, 0, x >> np.where(over, 0, amount)).astype(x.dtype), a.dtype)


def shift_right_arithmetic(a: Array, b: Array) -> Array:
    """Shift by ``b`` bits filling with the top bit; all top bit where that is the width or more."""
    bits = width(a)
    signed = widen(a)
    if signed.dtype.kind == "u":
        signed = _sign_extended(codes(a), bits)
    amount = np.minimum(codes(b), bits - 1).astype(signed.dtype)
    shifted = signed >> amount
    return from_codes(np.asarray(shifted).view(codes(a).dtype), a.dtype)


def _sign_extended(patterns: Array, bits: int) -> Array:
    signed = np.asarray(patterns).view(f"i{patterns.dtype.itemsize}")
    spare = patterns.dtype.itemsize * 8 - bits
    return (signed << spare) >> spare


def count_leading_zeros(a: Array) -> Array:
    """Number of zero bits above the highest set one."""
    x = codes(a)
    shift = 1
    while shift < x.dtype.itemsize * 8:
        x = x | (x >> x.dtype.type(shift))
        shift *= 2
    return narrow(np.asarray(width(a) - np.bitwise_count(x).astype(np.int8)), a.dtype)


def population_count(a: Array) -> Array:
    """Number of set bits."""
    return narrow(np.asarray(np.bitwise_count(codes(a))), a.dtype)
