"""sinh, cosh, tanh and their inverses, by exp and log1p."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.exponential import expm1, half_exp_minus_one_single, scaled_exp
from xladev.codegen.math.logarithm import log1p
from xladev.codegen.math.shared import MathEmitter, horner, in_double, shared, with_sign
from xladev.codegen.math.trigonometric import keep_zero

_Args = Sequence[Value]
_BIG = 2.0**500
"""Above this squares may overflow; formulas that square are left for log(2 x)."""
_SMALL_HALF = 0.45
"""Half of exp(2 x) - 1 below which tanh needs what its denominator lost."""


def _halves(b: FunctionBuilder, x: Value, table: Sequence[float]) -> tuple[Value, Value]:
    """exp(|x|) / 2 and exp(-|x|) / 2; the first is finite up to the functions' own overflow."""
    rising = scaled_exp(b, b.fabs(x), table, shift=-1)
    return rising, b.fdiv(0.25, rising)


def _cosh(table: Sequence[float]) -> MathEmitter:
    def emit(b: FunctionBuilder, args: _Args) -> Value:
        rising, falling = _halves(b, args[0], table)
        return b.fadd(rising, falling)

    return emit


def _sinh(table: Sequence[float], series: Sequence[float]) -> MathEmitter:
    """By a polynomial up to 1, where the difference of exponentials would cancel."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = args[0]
        rising, falling = _halves(b, x, table)
        outer = b.copysign(b.fsub(rising, falling), x)
        z = b.fmul(x, x)
        inner = b.multiply_add(b.fmul(z, horner(b, z, series)), x, x)
        inside = b.fcmp("olt", b.fabs(x), 1.0)
        return keep_zero(b, x, b.select(inside, inner, outer))

    return emit


def _tanh(table: Sequence[float]) -> MathEmitter:
    """expm1(2|x|) / (expm1(2|x|) + 2); 1 to the last place beyond 22."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        magnitude = b.fabs(args[0])
        bounded = b.select(b.fcmp("ogt", magnitude, 22.0), 22.0, magnitude)
        t = expm1(b, b.fmul(bounded, 2.0), table)
        return b.copysign(b.fdiv(t, b.fadd(t, 2.0)), args[0])

    return emit


def _tanh_single(b: FunctionBuilder, args: _Args) -> Value:
    """h / (h + 1) with h = (exp(2|x|) - 1) / 2, accurate near zero; 1 beyond 9.1; within 2 ulp.

    Where the sum is little more than 1, what it loses matters, and is added back: a quotient q by a
    sum s that is too large by d is too small by q d / s, and s is near enough to 1.
    """
    x = b.fabs(args[0])
    bounded = b.select(b.fcmp("ogt", x, 9.1), 9.1, x)
    h = half_exp_minus_one_single(b, b.fadd(bounded, bounded))
    whole = b.fadd(h, 1.0)
    excess = b.fsub(b.fsub(whole, 1.0), h)
    quotient = b.fdiv(h, whole)
    nearer = b.multiply_add(quotient, excess, quotient)
    return with_sign(b, b.select(b.fcmp("olt", h, _SMALL_HALF), nearer, quotient), args[0])


def _asinh(table: Sequence[float]) -> MathEmitter:
    """log1p(x + x**2 / (1 + sqrt(1 + x**2))), and log1p(x) + log(2) when x is big."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = b.fabs(args[0])
        square = b.fmul(x, x)
        root = b.sqrt(b.fadd(square, 1.0))
        near = b.fadd(x, b.fdiv(square, b.fadd(root, 1.0)))
        return b.copysign(_log1p_or_double(b, x, near, table), args[0])

    return emit


def _acosh(table: Sequence[float]) -> MathEmitter:
    """With t = x - 1, log1p(t + sqrt(t (t + 2))); NaN below 1 by the root."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        t = b.fsub(args[0], 1.0)
        near = b.fadd(t, b.sqrt(b.fmul(t, b.fadd(t, 2.0))))
        value = _log1p_or_double(b, args[0], near, table)
        return b.select(b.fcmp("olt", args[0], 1.0), float("nan"), value)

    return emit


def _log1p_or_double(b: FunctionBuilder, x: Value, near: Value, table: Sequence[float]) -> Value:
    """log1p(near), or log(2 x) where x is big."""
    big = b.fcmp("ogt", x, _BIG)
    total = log1p(b, b.select(big, x, near), table)
    return b.fadd(total, b.select(big, b.const(x.type, c.LN2), 0.0))


def _atanh(table: Sequence[float]) -> MathEmitter:
    """log1p(2 x / (1 - x)) / 2: infinite at 1, NaN above."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        x = b.fabs(args[0])
        ratio = b.fdiv(b.fadd(x, x), b.fsub(1.0, x))
        half = b.fmul(log1p(b, ratio, table), 0.5)
        return b.copysign(b.select(b.fcmp("ogt", x, 1.0), float("nan"), half), args[0])

    return emit


emit_cosh = shared("cosh", in_double(_cosh(c.EXP_F32)), _cosh(c.EXP_F64))
emit_sinh = shared("sinh", in_double(_sinh(c.EXP_F32, c.SINH_F32)), _sinh(c.EXP_F64, c.SINH_F64))
emit_tanh = shared("tanh", _tanh_single, _tanh(c.EXP_F64))
emit_asinh = shared("asinh", in_double(_asinh(c.LOG_F32)), _asinh(c.LOG_F64))
emit_acosh = shared("acosh", in_double(_acosh(c.LOG_F32)), _acosh(c.LOG_F64))
emit_atanh = shared("atanh", in_double(_atanh(c.LOG_F32)), _atanh(c.LOG_F64))
