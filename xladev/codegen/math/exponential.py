"""exp, exp2, expm1 and the logistic function.

Reduction: x = n log(2) + r with |r| <= log(2)/2; exp(r) = 1 + r + r**2 Q(r); scaling by 2**n is
exact but for subnormal results.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.double_double import fast_sum
from xladev.codegen.math.scaling import nearest_integer, power_of_two, scale, scaled_at_once
from xladev.codegen.math.shared import MathEmitter, horner, in_double, shared

_Args = Sequence[Value]
_LOWEST, _HIGHEST = -746.0, 710.5
"""Beyond these exp is 0 and infinity in f64, halved results included."""
_LOWEST_SINGLE, _HIGHEST_SINGLE = -104.5, 89.0
"""The same in f32."""
_MINUS_ONE = MappingProxyType({"float": (-18.0, 89.0), "double": (-40.0, 709.9)})
"""Below the first, exp(x) - 1 is -1 to the last place; at the second it is infinite."""
_LN2 = MappingProxyType(
    {"float": (c.LN2_HIGH_SINGLE, c.LN2_LOW_SINGLE), "double": (c.LN2_HIGH, c.LN2_LOW)}
)


def clamp_exponent(b: FunctionBuilder, x: Value, low: float, high: float) -> Value:
    """``x`` within bounds that keep its integer part small; NaN stays."""
    raised = b.select(b.fcmp("olt", x, low), low, x)
    return b.select(b.fcmp("ogt", raised, high), high, raised)


def reduce_by_log2(b: FunctionBuilder, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """(r, n) with x + low = n log(2) + r; n is an integer as wide as x."""
    high_part, low_part = _LN2[x.type.element]
    whole, n = nearest_integer(b, x, c.LOG2_E)
    r = b.multiply_add(whole, -high_part, x)
    if low is None:
        return b.multiply_add(whole, -low_part, r), n
    return b.fadd(r, b.multiply_add(whole, -low_part, low)), n


def exp_minus_one_of(b: FunctionBuilder, r: Value, table: Sequence[float]) -> Value:
    """exp(r) - 1 of a reduced argument, accurate near zero."""
    return b.multiply_add(b.fmul(r, r), horner(b, r, table), r)


def scaled_exp(
    b: FunctionBuilder,
    x: Value,
    table: Sequence[float],
    *,
    shift: Value | int = 0,
    low: Value | None = None,
    highest: float = _HIGHEST,
) -> Value:
    """exp(x + low) * 2**shift, which may be finite where exp(x) is not.

    Args:
        b: where to emit.
        x: f64.
        table: coefficients of exp.
        shift: i64, or a number; at most 100 in magnitude.
        low: a small addition to x, beyond its precision.
        highest: what ``x`` is limited to; the result must be infinite there.
    """
    bounded = clamp_exponent(b, x, _LOWEST, highest)
    r, n = reduce_by_log2(b, bounded, low)
    mantissa = b.fadd(exp_minus_one_of(b, r, table), 1.0)
    unshifted = isinstance(shift, int) and shift == 0
    return scale(b, mantissa, n if unshifted else b.add(n, shift))


def _exp(table: Sequence[float]) -> MathEmitter:
    return lambda b, args: scaled_exp(b, args[0], table)


def exp_single(b: FunctionBuilder, x: Value) -> Value:
    """exp(x) in f32, within 0.98 units in the last place (0.99 without fused multiply-add)."""
    bounded = clamp_exponent(b, x, _LOWEST_SINGLE, _HIGHEST_SINGLE)
    mantissa, whole, n = _mantissa_single(b, bounded)
    at_once = scaled_at_once(b, mantissa, whole)
    return scale(b, mantissa, n) if at_once is None else at_once


def exp_normal_single(b: FunctionBuilder, x: Value) -> Value:
    """exp(x) in f32 where it is a normal number: -87 <= x <= 88; of NaN, some NaN."""
    mantissa, whole, n = _mantissa_single(b, x)
    at_once = scaled_at_once(b, mantissa, whole)
    return b.fmul(mantissa, power_of_two(b, n)) if at_once is None else at_once


def half_exp_minus_one_single(b: FunctionBuilder, x: Value) -> Value:
    """(exp(x) - 1) / 2 in f32 for 0 <= x <= 20, with n for x = n log(2) + r.

    2**(n - 1) (exp(r) - 1) + (2**(n - 1) - 1/2), rounded once at the end. The reduction is off by
    n * 2**-29 or so, which what is made of it must not magnify.
    """
    whole, n = nearest_integer(b, x, c.LOG2_E)
    part = exp_minus_one_of(b, b.fma(whole, -c.LN2, x), c.EXP_IN_F32)
    at_once = scaled_at_once(b, b.const(x.type, 0.5), whole)
    power = power_of_two(b, b.sub(n, 1)) if at_once is None else at_once
    return b.multiply_add(part, power, b.fsub(power, 0.5))


def _mantissa_single(b: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """exp(r), and n as float and integer, with x = n log(2) + r.

    Where products and sums are rounded apart, a polynomial that adds 1 last loses less.
    """
    whole, n = nearest_integer(b, x, c.LOG2_E)
    high, low = _LN2[x.type.element]
    r = b.multiply_add(whole, -low, b.multiply_add(whole, -high, x))
    if b.module.target.has_fma:
        return horner(b, r, (1.0, 1.0, *c.EXP_SHORT_F32)), whole, n
    return b.fadd(exp_minus_one_of(b, r, c.EXP_IN_F32), 1.0), whole, n


def _exp2(table: Sequence[float]) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = clamp_exponent(b, args[0], -1080.0, 1025.0)
        whole, n = nearest_integer(b, x)
        r = b.fsub(x, whole)
        return scale(b, b.multiply_add(r, horner(b, r, table), 1.0), n)

    return emit


def expm1(b: FunctionBuilder, x: Value, table: Sequence[float]) -> Value:
    """exp(x) - 1: 2**n (exp(r) - 1) + (2**n - 1), the second term exact where it matters.

    It overflows in the last doubling, which keeps the scale itself finite.
    """
    bounded = clamp_exponent(b, x, *_MINUS_ONE[x.type.element])
    r, n = reduce_by_log2(b, bounded)
    part = exp_minus_one_of(b, r, table)
    half = power_of_two(b, b.sub(n, 1))
    total = b.fmul(b.multiply_add(half, part, b.fsub(half, 0.5)), 2.0)
    return b.select(b.fcmp("oeq", x, 0.0), x, total)


def _expm1(table: Sequence[float]) -> MathEmitter:
    return lambda b, args: expm1(b, args[0], table)


def _logistic(table: Sequence[float]) -> MathEmitter:
    """1 / (1 + exp(-x)), by exp(-|x|), so that small results keep their digits."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = args[0]
        e = scaled_exp(b, b.fneg(b.fabs(x)), table)
        numerator = b.select(b.fcmp("olt", x, 0.0), e, 1.0)
        return b.fdiv(numerator, b.fadd(e, 1.0))

    return emit


def _logistic_single(b: FunctionBuilder, args: _Args) -> Value:
    """As in f64, and what sum and quotient lost added back, by e / (1 + e) = 1 - 1 / (1 + e)."""
    x = args[0]
    e = exp_single(b, b.fneg(b.fabs(x)))
    falls = b.fcmp("olt", x, 0.0)
    numerator = b.select(falls, e, 1.0)
    whole, lost = fast_sum(b, 1.0, e)
    quotient = b.fdiv(numerator, whole)
    residual = b.fma(b.fneg(quotient), lost, b.fma(b.fneg(quotient), whole, numerator))
    inverse = b.select(falls, b.fsub(1.0, quotient), quotient)
    return b.multiply_add(residual, inverse, quotient)


emit_exp = shared("exp", lambda b, args: exp_single(b, args[0]), _exp(c.EXP_F64))
emit_exp2 = shared("exp2", in_double(_exp2(c.EXP2_F32)), _exp2(c.EXP2_F64))
emit_expm1 = shared("expm1", _expm1(c.EXP_IN_F32), _expm1(c.EXP_F64))
emit_logistic = shared("logistic", _logistic_single, _logistic(c.EXP_F64))
