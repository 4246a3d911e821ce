"""Floating-point remainder with the sign of the dividend (C's fmod), exact."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import DOUBLE, I64, FunctionBuilder, Value
from xladev.codegen.math.shared import in_double, shared

_Args = Sequence[Value]
_EXACT_QUOTIENT = 2.0**53
_CHUNK = 11
"""Bits by which a 53-bit rest can be shifted in an i64."""


def _remainder(b: FunctionBuilder, args: _Args) -> Value:
    x, y = b.fabs(args[0]), b.fabs(args[1])
    quotient = b.fdiv(x, y)
    near = _near(b, x, y, quotient)
    far = b.fcmp("oge", quotient, _EXACT_QUOTIENT)
    usable = b.and_(far, b.and_(b.fcmp("one", x, float("inf")), b.fcmp("ogt", y, 0.0)))

    def slow() -> Sequence[Value]:
        exact = b.by_lane(lambda v: [_divide_bits(b, v[0], v[1])], _bits(b, x, y, usable), [DOUBLE])
        return [b.select(usable, exact[0], near)]

    value = b.branch(b.any(usable), slow, lambda: [near])[0]
    value = b.copysign(value, args[0])
    invalid = b.or_(b.fcmp("ueq", x, float("inf")), b.fcmp("ueq", y, 0.0))
    return b.select(invalid, float("nan"), value)


def _near(b: FunctionBuilder, x: Value, y: Value, quotient: Value) -> Value:
    """The remainder where the quotient is below 2**53.

    The truncated quotient is right or one too large, since rounding is monotonic and integers are
    representable; so x - n y is a multiple of an ulp of y in [-y, y), exact in one fma.
    """
    whole = b.intrinsic("trunc", quotient)
    rest = b.fma(b.fneg(whole), y, x)
    rest = b.select(b.fcmp("olt", rest, 0.0), b.fadd(rest, y), rest)
    small = b.fcmp("olt", x, y)
    return b.select(small, x, rest)


def _bits(b: FunctionBuilder, x: Value, y: Value, usable: Value) -> list[Value]:
    """Bit patterns, harmless ones where the slow path's result will not be used."""
    return [b.select(usable, b.bitcast(v, I64), 1 << 62) for v in (x, y)]


def _divide_bits(b: FunctionBuilder, x: Value, y: Value) -> Value:
    """Long division of mantissas, eleven bits of quotient at a time."""
    x_mantissa, x_exponent = _unpack(b, x)
    y_mantissa, y_exponent = _unpack(b, y)
    distance = b.sub(x_exponent, y_exponent)

    def step(now: Sequence[Value]) -> Sequence[Value]:
        rest, left = now
        shift = b.intrinsic("smin", left, _CHUNK)
        return b.urem(b.shl(rest, shift), y_mantissa), b.sub(left, shift)

    start = (b.urem(x_mantissa, y_mantissa), distance)
    rest, _ = b.while_loop(start, lambda now: b.icmp("sgt", now[1], 0), step)
    return _pack(b, rest, y_exponent)


def _unpack(b: FunctionBuilder, bits: Value) -> tuple[Value, Value]:
    """(M, e) with the number M * 2**(e - 1074), e >= 0."""
    field = b.lshr(bits, 52)
    subnormal = b.icmp("eq", field, 0)
    fraction = b.and_(bits, (1 << 52) - 1)
    mantissa = b.select(subnormal, fraction, b.or_(fraction, 1 << 52))
    return mantissa, b.select(subnormal, 0, b.sub(field, 1))


def _pack(b: FunctionBuilder, mantissa: Value, exponent: Value) -> Value:
    """M * 2**(e - 1074) for M below 2**53; exact, as the divisor had that exponent."""
    whole = b.cast("uitofp", mantissa, DOUBLE)
    # Scaling in two steps: e - 1074 may be below the least normal exponent, e as it is never is.
    first = b.bitcast(b.shl(b.add(b.lshr(exponent, 1), 1023 - 537), 52), DOUBLE)
    second = b.sub(exponent, b.lshr(exponent, 1))
    rest = b.bitcast(b.shl(b.add(second, 1023 - 537), 52), DOUBLE)
    return b.fmul(b.fmul(whole, first), rest)


emit_remainder = shared("remainder", in_double(_remainder), _remainder)
