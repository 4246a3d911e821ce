"""sin, cos and tan of f32 for this target: f32 all the way, large angles in a branch of their own.

Angles below 2**16 lose a multiple of pi/2 in three parts by fused multiply-adds (Cody and Waite).
Larger ones, which a sub-group only looks at if one of its threads has some, multiply their 24 bits
by those 96 bits of 2/pi that matter to the result, in integers (Payne and Hanek).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from xladev.codegen.llvm import DOUBLE, FLOAT, I32, I64, FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.scaling import nearest_integer
from xladev.codegen.math.shared import horner
from xladev.codegen.math.trigonometric import keep_zero

_Args = Sequence[Value]
_MEDIUM = 2.0**16
"""Below this the multiple is right but where two are as near, and polynomials reach that far."""
_HALF_PI = (1.57079637050628662109375, -4.371138828673793e-8, -1.7151245100058819e-15)
"""pi/2 in f32, and what each part leaves to the next, rounded to f32."""
_TWO_OVER_PI = 2 / pi
_WORDS = (
    0x00000000,
    0xA2F9836E,
    0x4E441529,
    0xFC2757D1,
    0xF534DDC0,
    0xDB629599,
    0x3C439041,
    0xFE5163AB,
)
"""The fraction bits of 2/pi, most significant first, after 32 zeros."""
_FIRST = 120
"""Biased exponent of the angles whose first useful bit of 2/pi is the first of the words."""


def _reduce(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """(r, quadrant): x less so many times pi/2; i32, of which the two lowest bits count."""
    large = b.fcmp("ogt", b.fabs(x), _MEDIUM)
    whole, count = nearest_integer(b, x, _TWO_OVER_PI)
    medium = x
    for part in _HALF_PI:
        medium = b.fma(whole, -part, medium)

    def replaced() -> Sequence[Value]:
        parts = b.by_lane(lambda lane: _reduce_large(b, lane[0]), [b.bitcast(x, I32)], (FLOAT, I32))
        return [b.select(large, new, old) for new, old in zip(parts, (medium, count), strict=True)]

    r, quadrant = b.branch(b.any(large), replaced, lambda: (medium, count))
    return r, quadrant


def _reduce_large(b: FunctionBuilder, bits: Value) -> tuple[Value, Value]:
    """The reduction of one f32 of at least 2**16, by its bits; NaN of infinity and NaN.

    Of 24 bits times 96 of 2/pi the highest 64 of those below 4 are kept: two for the quadrant, 62
    for the fraction, of which no f32 has more than 31 leading zeros.
    """
    exponent = b.and_(b.lshr(bits, 23), 0xFF)
    mantissa = b.or_(b.and_(bits, (1 << 23) - 1), 1 << 23)
    first, second, third = _window(b, b.sub(exponent, _FIRST))
    wide, high, low, rest = (
        b.resize(v, I64, signed=False) for v in (mantissa, first, second, third)
    )
    product = b.add(b.mul(b.or_(b.shl(high, 32), low), wide), b.lshr(b.mul(rest, wide), 32))
    fraction = b.shl(product, 2)
    quadrant = b.add(b.lshr(product, 62), b.lshr(fraction, 63))
    r = b.refloat(b.fmul(b.cast("sitofp", fraction, DOUBLE), pi / 2 * 2.0**-64), FLOAT)
    negative = b.icmp("slt", bits, 0)
    count = b.resize(quadrant, I32, signed=False)
    r, count = b.select(negative, b.fneg(r), r), b.select(negative, b.neg(count), count)
    return b.select(b.icmp("eq", exponent, 0xFF), float("nan"), r), count


def _window(b: FunctionBuilder, position: Value) -> list[Value]:
    """The 96 bits at a position of `_WORDS`, as three i32, chosen bit by bit of their number."""
    words: list[Value] = [b.const(I32, word) for word in _WORDS]
    for far in (4, 2, 1):
        chosen = b.icmp("ne", b.and_(position, 32 * far), 0)
        later = zip(words[far:], words, strict=False)
        # the first choice is between whole halves: no exponent reaches beyond both
        kept = words[4:7] if far == 4 else []
        words = [*(b.select(chosen, late, early) for late, early in later), *kept]
    shift = b.and_(position, 31)
    return [b.intrinsic("fshl", words[n], words[n + 1], shift) for n in range(3)]


def _both(b: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Sine and cosine of the reduced angle, and the quadrant."""
    r, quadrant = _reduce(b, x)
    z = b.fmul(r, r)
    sine = b.fma(b.fmul(z, r), horner(b, z, c.SIN_IN_F32), r)
    cosine = b.fma(z, b.fma(z, horner(b, z, c.COS_IN_F32), -0.5), 1.0)
    return sine, cosine, quadrant


def _turned(b: FunctionBuilder, sine: Value, cosine: Value, quadrant: Value) -> Value:
    """sin(r + quadrant pi/2): the second bit of the quadrant is the sign."""
    odd = b.icmp("ne", b.and_(quadrant, 1), 0)
    value = b.bitcast(b.select(odd, cosine, sine), I32)
    sign = b.and_(b.shl(quadrant, 30), -(1 << 31))
    return b.bitcast(b.xor(value, sign), FLOAT)


def sine(b: FunctionBuilder, args: _Args) -> Value:
    """sin of f32, within 4 units in the last place."""
    return keep_zero(b, args[0], _turned(b, *_both(b, args[0])))


def cosine(b: FunctionBuilder, args: _Args) -> Value:
    """cos of f32, within 4 units in the last place."""
    s, co, quadrant = _both(b, args[0])
    return _turned(b, s, co, b.add(quadrant, 1))


def tangent(b: FunctionBuilder, args: _Args) -> tuple[Value, Value]:
    """Numerator and denominator of tan of f32."""
    s, co, quadrant = _both(b, args[0])
    odd = b.icmp("ne", b.and_(quadrant, 1), 0)
    return b.select(odd, b.fneg(co), s), b.select(odd, s, co)
