"""asin, acos, atan and atan2."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.shared import MathEmitter, horner, in_double, shared

_Args = Sequence[Value]
_QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
_TAN_PI_8 = 0.41421356237309503
_TAN_3PI_8 = 2.414213562373095


def _asin_parts(b: FunctionBuilder, x: Value, table: Sequence[float]) -> tuple[Value, Value, Value]:
    """(outer, root, a): asin(root) = root + root a, where root is |x|, or sqrt((1 - |x|) / 2).

    ``outer`` holds where |x| > 1/2: there asin|x| = pi/2 - 2 asin(root).
    """
    magnitude = b.fabs(x)
    outer = b.fcmp("ogt", magnitude, 0.5)
    half = b.fmul(b.fsub(1.0, magnitude), 0.5)
    z = b.select(outer, half, b.fmul(x, x))
    root = b.select(outer, b.sqrt(half), magnitude)
    return outer, root, b.fmul(z, horner(b, z, table))


def _asin(table: Sequence[float]) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = args[0]
        outer, root, a = _asin_parts(b, x, table)
        small = b.multiply_add(root, a, root)
        double = b.fmul(small, 2.0)
        high, low = c.HALF_PI[:2]
        value = b.select(outer, b.fsub(high, b.fsub(double, low)), small)
        return b.copysign(value, x)

    return emit


def _acos(table: Sequence[float]) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = args[0]
        outer, root, a = _asin_parts(b, x, table)
        small = b.multiply_add(root, a, root)
        negative = b.fcmp("olt", x, 0.0)
        high, low = c.HALF_PI[:2]
        signed = b.copysign(small, x)
        inner = b.fsub(high, b.fsub(signed, low))
        double = b.fmul(small, 2.0)
        far = b.fsub(c.PI[0], b.fsub(double, c.PI[1]))
        return b.select(outer, b.select(negative, far, double), inner)

    return emit


def _atan_polynomial(b: FunctionBuilder, t: Value, table: Sequence[float]) -> Value:
    """atan(t) - t for |t| <= tan(pi/8)."""
    z = b.fmul(t, t)
    return b.fmul(b.fmul(z, horner(b, z, table)), t)


def _atan(table: Sequence[float]) -> MathEmitter:
    """Three ranges with one division: t = x, (x - 1) / (x + 1) or -1 / x."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        magnitude = b.fabs(args[0])
        middle = b.fcmp("ogt", magnitude, _TAN_PI_8)
        outer = b.fcmp("ogt", magnitude, _TAN_3PI_8)
        numerator = b.select(middle, b.fsub(magnitude, 1.0), magnitude)
        numerator = b.select(outer, -1.0, numerator)
        denominator = b.select(middle, b.fadd(magnitude, 1.0), 1.0)
        denominator = b.select(outer, magnitude, denominator)
        t = b.fdiv(numerator, denominator)
        zero = b.const(t.type, 0.0)
        high, low = (
            b.select(outer, half, b.select(middle, quarter, zero))
            for half, quarter in zip(c.HALF_PI[:2], _QUARTER_PI, strict=True)
        )
        value = b.fadd(high, b.fadd(t, b.fadd(_atan_polynomial(b, t, table), low)))
        return b.copysign(value, args[0])

    return emit


def atan_of_quotient(
    b: FunctionBuilder, small: Value, large: Value, table: Sequence[float]
) -> tuple[Value, Value]:
    """atan(small / large) for 0 <= small <= large, as a sum (high, rest)."""
    middle = b.fcmp("ogt", small, b.fmul(large, _TAN_PI_8))
    numerator = b.select(middle, b.fsub(small, large), small)
    denominator = b.select(middle, b.fadd(small, large), large)
    t = b.fdiv(numerator, denominator)
    zero = b.const(t.type, 0.0)
    high = b.select(middle, _QUARTER_PI[0], zero)
    low = b.select(middle, _QUARTER_PI[1], zero)
    return high, b.fadd(t, b.fadd(_atan_polynomial(b, t, table), low))


def _ordered(b: FunctionBuilder, y: Value, x: Value) -> tuple[Value, Value, Value]:
    """(smaller, larger, y > x) of two magnitudes, scaled so that their sum is finite.

    The quotient stands for the angle: 0/1 for two zeros, 1/1 for two infinities.
    """
    swapped = b.fcmp("ogt", y, x)
    small, large = b.select(swapped, x, y), b.select(swapped, y, x)
    scale = b.select(b.fcmp("ogt", large, 2.0**1000), b.const(x.type, 2.0**-100), 1.0)
    equal = b.fcmp("oeq", small, large)
    large = b.select(b.or_(equal, b.fcmp("oeq", large, 0.0)), 1.0, b.fmul(large, scale))
    none = b.fcmp("oeq", small, 0.0)
    small = b.select(equal, b.select(none, small, 1.0), b.fmul(small, scale))
    return small, large, swapped


def _atan2(table: Sequence[float]) -> MathEmitter:
    """Angle of (x, y), the smaller part over the larger; zeros and infinities as in IEEE 754."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        y, x = args
        small, large, swapped = _ordered(b, b.fabs(y), b.fabs(x))
        high, rest = atan_of_quotient(b, small, large, table)
        half_high, half_low = c.HALF_PI[:2]
        upper = b.fsub(b.fsub(half_high, high), b.fsub(rest, half_low))
        angle = b.select(swapped, upper, b.fadd(high, rest))
        left = b.icmp("slt", b.bitcast(x, I64), 0)
        beyond = b.fsub(c.PI[0], b.fsub(angle, c.PI[1]))
        value = b.copysign(b.select(left, beyond, angle), y)
        return b.select(b.fcmp("uno", x, y), b.fadd(x, y), value)

    return emit


emit_asin = shared("asin", in_double(_asin(c.ASIN_F32)), _asin(c.ASIN_F64))
emit_acos = shared("acos", in_double(_acos(c.ASIN_F32)), _acos(c.ASIN_F64))
emit_atan = shared("atan", in_double(_atan(c.ATAN_F32)), _atan(c.ATAN_F64))
emit_atan2 = shared("atan2", in_double(_atan2(c.ATAN_F32)), _atan2(c.ATAN_F64))
