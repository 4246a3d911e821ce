"""pow: exp(y log|x|) with the logarithm in double-double, and the special cases of IEEE 754."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.double_double import (
    Double,
    exact_product,
    exact_sum,
    fast_sum,
    product,
    quotient,
)
from xladev.codegen.math.exponential import scaled_exp
from xladev.codegen.math.logarithm import log_finite
from xladev.codegen.math.scaling import split_mantissa
from xladev.codegen.math.shared import horner, in_double, shared

_Args = Sequence[Value]
_INFINITY = float("inf")


def _precise_log(b: FunctionBuilder, x: Value) -> Double:
    """log(x) to about 2**-65, relative, for finite x > 0.

    log(m) = 2 s (1 + z (1/3 + z (1/5 + z Q(z)))), s = (m - 1) / (m + 1), z = s**2 < 0.03: the
    innermost terms need f64 only, the rest is carried in pairs.
    """
    m, k = split_mantissa(b, x)
    f = b.fsub(m, 1.0)
    s = quotient(b, f, fast_sum(b, 2.0, f))
    z = product(b, s, s)
    inner = b.fmul(z[0], b.multiply_add(z[0], horner(b, z[0], c.ATANH_TAIL_F64), 0.2))
    third, rest = fast_sum(b, c.THIRD[0], inner)
    series = product(b, z, (third, b.fadd(rest, c.THIRD[1])))
    factor, tail = fast_sum(b, 1.0, series[0])
    twice = (b.fmul(s[0], 2.0), b.fmul(s[1], 2.0))
    log_m = product(b, twice, (factor, b.fadd(tail, series[1])))
    high, low = exact_sum(b, b.fmul(k, c.LN2_HIGH), log_m[0])
    low = b.fadd(low, b.multiply_add(k, c.LN2_LOW, log_m[1]))
    return fast_sum(b, high, low)


def _pow_double(b: FunctionBuilder, args: _Args) -> Value:
    x, y = args
    magnitude = b.fabs(x)
    log_x, log_low = _precise_log(b, magnitude)
    high, low = exact_product(b, y, log_x)
    low = b.multiply_add(y, log_low, low)
    exponent = _limit_log(b, magnitude, y, high)
    settled = b.fcmp("one", exponent, high)
    far = b.fcmp("ogt", b.fabs(exponent), 800.0)
    low = b.select(b.or_(settled, far), 0.0, low)
    return _with_sign(b, x, y, scaled_exp(b, exponent, c.EXP_F64, low=low))


def _pow_single(b: FunctionBuilder, args: _Args) -> Value:
    """f32 operands held in f64: log in f64 leaves 2**-44 of error in the result."""
    x, y = args
    magnitude = b.fabs(x)
    product_ = b.fmul(y, log_finite(b, magnitude, c.LOG_F64))
    exponent = _limit_log(b, magnitude, y, product_)
    return _with_sign(b, x, y, scaled_exp(b, exponent, c.EXP_F32))


def _limit_log(b: FunctionBuilder, magnitude: Value, y: Value, exponent: Value) -> Value:
    """y log|x| where the logarithm is infinite: at 0 and infinity."""
    zero = b.fcmp("oeq", magnitude, 0.0)
    exponent = b.select(zero, b.fmul(y, -_INFINITY), exponent)
    infinite = b.fcmp("oeq", magnitude, _INFINITY)
    return b.select(infinite, b.fmul(y, _INFINITY), exponent)


def _with_sign(b: FunctionBuilder, x: Value, y: Value, power: Value) -> Value:
    """Adds the sign, NaN for roots of negative numbers, and 1 for x = 1 or y = 0."""
    half = b.fmul(y, 0.5)
    whole = b.fcmp("oeq", b.intrinsic("trunc", y), y)
    odd = b.and_(whole, b.fcmp("one", b.intrinsic("trunc", half), half))
    power = b.select(odd, b.copysign(power, x), power)
    finite = b.fcmp("one", b.fabs(x), _INFINITY)
    root = b.and_(b.and_(b.fcmp("olt", x, 0.0), finite), b.not_(whole))
    power = b.select(root, float("nan"), power)
    unit = b.fcmp("oeq", x, 1.0)
    turning = b.and_(b.fcmp("oeq", x, -1.0), b.fcmp("oeq", b.fabs(y), _INFINITY))
    power = b.select(b.fcmp("uno", x, y), float("nan"), power)
    one = b.or_(b.or_(unit, turning), b.fcmp("oeq", y, 0.0))
    return b.select(one, 1.0, power)


emit_pow = shared("pow", in_double(_pow_single), _pow_double)
