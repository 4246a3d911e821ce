"""log, log2 and log1p.

x = m 2**k with m in [sqrt(1/2), sqrt(2)); with f = m - 1, s = f / (2 + f), z = s**2,
log(m) = 2 s + s z P(z) = f - (f**2 / 2 - s (f**2 / 2 + z P(z))): the second form keeps the exact
leading term f.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.double_double import fast_sum
from xladev.codegen.math.scaling import split_mantissa
from xladev.codegen.math.shared import MathEmitter, horner, in_double, shared

_Args = Sequence[Value]
_INFINITY = float("inf")
_NAN = float("nan")


def log_of_mantissa(
    b: FunctionBuilder, m: Value, table: Sequence[float], low: Value | None = None
) -> tuple[Value, Value]:
    """(f, t) with log(m) + low = f - t, |t| well below |f| unless m is near 1."""
    f = b.fsub(m, 1.0)
    s = b.fdiv(f, b.fadd(f, 2.0))
    z = b.fmul(s, s)
    half_square = b.fmul(b.fmul(f, f), 0.5)
    rest = b.multiply_add(z, horner(b, z, table), half_square)
    correction = b.fmul(s, rest) if low is None else b.multiply_add(s, rest, low)
    return f, b.fsub(half_square, correction)


def log_finite(
    b: FunctionBuilder, x: Value, table: Sequence[float], error: Value | None = None
) -> Value:
    """log(x + error) for finite x > 0 and |error| of at most an ulp of x."""
    m, k = split_mantissa(b, x)
    low = b.fmul(k, c.LN2_LOW)
    if error is not None:
        low = b.fadd(low, b.fdiv(error, x))
    f, t = log_of_mantissa(b, m, table, low)
    return b.multiply_add(k, c.LN2_HIGH, b.fsub(f, t))


def log_finite_single(b: FunctionBuilder, x: Value, low: Value | None = None) -> Value:
    """log(x) + low in f32: f - f**2 / 2 + f**3 P(f), and the sum with k log(2) in two parts."""
    m, k = split_mantissa(b, x)
    f = b.fsub(m, 1.0)
    z = b.fmul(f, f)
    t = b.fmul(b.fmul(f, z), horner(b, f, c.LOG_IN_F32))
    t = b.multiply_add(k, c.LN2_LOW_SINGLE, t)
    if low is not None:
        t = b.fadd(t, low)
    t = b.multiply_add(z, -0.5, t)
    near, near_rest = fast_sum(b, f, t)
    total, rest = fast_sum(b, b.fmul(k, c.LN2_HIGH_SINGLE), near)
    return b.fadd(total, b.fadd(rest, near_rest))


def _log_single(b: FunctionBuilder, args: _Args) -> Value:
    return with_specials(b, args[0], log_finite_single(b, args[0]))


def with_specials(b: FunctionBuilder, x: Value, result: Value) -> Value:
    """Logarithm of 0, infinity, negative numbers and NaN."""
    result = b.select(b.fcmp("oeq", x, _INFINITY), _INFINITY, result)
    result = b.select(b.fcmp("oeq", x, 0.0), -_INFINITY, result)
    result = b.select(b.fcmp("olt", x, 0.0), _NAN, result)
    return b.select(b.fcmp("uno", x, x), x, result)


def _log(table: Sequence[float]) -> MathEmitter:
    return lambda b, args: with_specials(b, args[0], log_finite(b, args[0], table))


def _log2(table: Sequence[float]) -> MathEmitter:
    """k + log(m) log2(e); exact for powers of two, where log(m) is zero."""

    def emit(b: FunctionBuilder, args: _Args) -> Value:
        m, k = split_mantissa(b, args[0])
        f, t = log_of_mantissa(b, m, table)
        return with_specials(b, args[0], b.multiply_add(b.fsub(f, t), c.LOG2_E, k))

    return emit


def log1p(b: FunctionBuilder, x: Value, table: Sequence[float]) -> Value:
    """log(1 + x) in f64: the logarithm of the rounded sum, corrected by its rounding error."""
    return log1p_by(b, x, lambda u, error: log_finite(b, u, table, error))


def _log1p_single(b: FunctionBuilder, args: _Args) -> Value:
    return log1p_by(b, args[0], lambda u, error: log_finite_single(b, u, b.fdiv(error, u)))


def log1p_by(b: FunctionBuilder, x: Value, log: Callable[[Value, Value], Value]) -> Value:
    """log(1 + x) by ``log(u, error)``, the logarithm of u + error for a small error."""
    u = b.fadd(x, 1.0)
    larger = b.fsub(u, x)
    error = b.fadd(b.fsub(x, b.fsub(u, larger)), b.fsub(1.0, larger))
    huge = b.fcmp("oge", x, 2.0**60)
    result = log(u, b.select(huge, 0.0, error))
    result = with_specials(b, u, result)
    return b.select(b.fcmp("oeq", x, 0.0), x, result)


def _log1p(table: Sequence[float]) -> MathEmitter:
    return lambda b, args: log1p(b, args[0], table)


emit_log = shared("log", _log_single, _log(c.LOG_F64))
emit_log2 = shared("log2", in_double(_log2(c.LOG_F32)), _log2(c.LOG_F64))
emit_log1p = shared("log1p", _log1p_single, _log1p(c.LOG_F64))
