"""Reduction of angles to [-pi/4, pi/4] and a quadrant, right for every finite f64.

Medium angles subtract a multiple of pi/2 held in three parts (Cody and Waite). Large ones multiply
by 2/pi in fixed point, with only those bits of 2/pi that matter to the result (Payne and Hanek).
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import DOUBLE, FLOAT, I32, I64, I128, FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.scaling import nearest_integer, power_of_two

_MEDIUM = 2.0**20
"""Below this the multiple of pi/2 has 20 bits, and three parts of pi/2 are enough."""

_TWO_OVER_PI_BITS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
    0xA9E391615EE61B08,
)
"""The fraction bits of 2/pi, most significant first, after 64 zeros."""


_FIRST_BIT = 1013
"""Biased exponent of the angles whose first useful bit of 2/pi is the first of the table."""


def reduce_angle(b: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """(r, low, quadrant) with x = quadrant pi/2 + r + low; quadrant is i64, its low bits count.

    Infinity and NaN give NaN.
    """
    large = b.fcmp("ogt", b.fabs(x), _MEDIUM)
    medium = _reduce_medium(b, x)

    def replaced() -> Sequence[Value]:
        def reduce_lane(bits: Sequence[Value]) -> Sequence[Value]:
            return _reduce_large(b, bits[0])

        parts = b.by_lane(reduce_lane, [b.bitcast(x, I64)], (DOUBLE, DOUBLE, I64))
        return [b.select(large, new, old) for new, old in zip(parts, medium, strict=True)]

    r, low, quadrant = b.branch(b.any(large), replaced, lambda: medium)
    return r, low, quadrant


def reduce_angle_single(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """(r, quadrant) of an f32, with r rounded to f32 once; quadrant is i32.

    In f64 two parts of pi/2 are enough: no f32 below 2**20 is nearer than 2**-27 to a multiple.
    """
    wide = b.refloat(x, DOUBLE)
    large = b.fcmp("ogt", b.fabs(wide), _MEDIUM)
    whole, count = nearest_integer(b, wide, c.TWO_OVER_PI)
    medium = b.multiply_add(whole, -c.HALF_PI[1], b.fma(whole, -c.HALF_PI[0], wide))

    def replaced() -> Sequence[Value]:
        def reduce_lane(bits: Sequence[Value]) -> Sequence[Value]:
            r, _, quadrant = _reduce_large(b, bits[0])
            return r, quadrant

        parts = b.by_lane(reduce_lane, [b.bitcast(wide, I64)], (DOUBLE, I64))
        return [b.select(large, new, old) for new, old in zip(parts, (medium, count), strict=True)]

    r, quadrant = b.branch(b.any(large), replaced, lambda: (medium, count))
    return b.refloat(r, FLOAT), b.resize(quadrant, I32, signed=False)


def _reduce_medium(b: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """r and its rounding error.

    x - n p1 is exact: a multiple of 2**-52 below 1. Products with p2 are exact as pairs, so what is
    left out is about n 2**-161, while no f64 in range is nearer to a multiple of pi/2 than 2**-62.
    """
    first, second, third = c.HALF_PI
    whole, n = nearest_integer(b, x, c.TWO_OVER_PI)
    exact = b.fma(whole, -first, x)
    product = b.fmul(whole, second)
    product_error = b.fma(whole, second, b.fneg(product))
    r = b.fsub(exact, product)
    taken = b.fsub(exact, r)
    error = b.fadd(b.fsub(exact, b.fadd(r, taken)), b.fsub(taken, product))
    low = b.fsub(error, b.multiply_add(whole, third, product_error))
    return r, low, n


def _reduce_large(b: FunctionBuilder, bits: Value) -> tuple[Value, Value, Value]:
    """The reduction of one f64 above 2**20, from its bit pattern.

    Lanes with smaller angles come here too; they read inside the table and are not used.
    """
    exponent = b.intrinsic("smax", b.and_(b.lshr(bits, 52), 0x7FF), _FIRST_BIT)
    turns = _quarter_turns(b, bits, exponent)
    fraction = b.shl(turns, 2)
    quadrant = b.add(b.lshr(turns, 126), b.lshr(fraction, 127))
    high, low, negative = _fraction_parts(b, fraction)
    r, rest = _times_half_pi(b, high, low)
    flipped = b.xor(negative, b.icmp("slt", bits, 0))
    r, rest = (b.select(flipped, b.fneg(part), part) for part in (r, rest))
    count = b.resize(quadrant, I64, signed=False)
    count = b.select(b.icmp("slt", bits, 0), b.neg(count), count)
    return b.select(b.icmp("eq", exponent, 0x7FF), float("nan"), r), rest, count


def _quarter_turns(b: FunctionBuilder, bits: Value, exponent: Value) -> Value:
    """|x| 2/pi modulo 4 as an i128 with two integer bits.

    x is an integer M times 2**e. Bits of 2/pi that M 2**e takes to multiples of 4 are skipped; of
    the next 192 bits times M, the upper 128 are kept.
    """
    mantissa = b.or_(b.and_(bits, (1 << 52) - 1), 1 << 52)
    table = b.table("two_over_pi", I64, _TWO_OVER_PI_BITS)
    position = b.sub(exponent, _FIRST_BIT)
    shift, word = b.and_(position, 63), b.lshr(position, 6)
    words = [b.load(I64, b.element_address(table, b.add(word, i), I64)) for i in range(4)]
    aligned = [b.intrinsic("fshl", words[i], words[i + 1], shift) for i in range(3)]
    wide = b.resize(mantissa, I128, signed=False)
    last = b.mul(wide, b.resize(aligned[2], I128, signed=False))
    middle = b.mul(wide, b.resize(aligned[1], I128, signed=False))
    middle = b.add(middle, b.lshr(last, 64))
    first = b.mul(wide, b.resize(aligned[0], I128, signed=False))
    return b.add(b.shl(first, 64), middle)


def _fraction_parts(b: FunctionBuilder, fraction: Value) -> tuple[Value, Value, Value]:
    """|fraction| 2**-128 as an exact f64 and the f64 after it; whether it is negative."""
    sign = b.ashr(fraction, 127)
    magnitude = b.sub(b.xor(fraction, sign), sign)
    zeros = b.and_(b.intrinsic("ctlz", magnitude), 127)
    normal = b.shl(magnitude, zeros)
    top = b.resize(b.lshr(normal, 64), I64, signed=False)
    rest = b.resize(b.lshr(normal, 11), I64, signed=False)
    scale = power_of_two(b, b.sub(-64, b.resize(zeros, I64, signed=False)))
    high = b.fmul(b.cast("uitofp", b.and_(top, -0x800), DOUBLE), scale)
    low = b.fmul(b.fmul(b.cast("uitofp", rest, DOUBLE), 2.0**-53), scale)
    return high, low, b.icmp("slt", fraction, 0)


def _times_half_pi(b: FunctionBuilder, high: Value, low: Value) -> tuple[Value, Value]:
    first, second, _ = c.HALF_PI
    r = b.fmul(high, first)
    error = b.fma(high, first, b.fneg(r))
    rest = b.fadd(error, b.multiply_add(high, second, b.fmul(low, first)))
    total = b.fadd(r, rest)
    return total, b.fsub(rest, b.fsub(total, r))
