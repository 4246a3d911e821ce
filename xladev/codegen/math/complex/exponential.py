"""Complex exp, exp2, expm1 and the logistic function."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.complex.arithmetic import emit_divide
from xladev.codegen.math.complex.pairs import Pair, shared_pair
from xladev.codegen.math.exponential import emit_expm1, scaled_exp
from xladev.codegen.math.trigonometric import emit_cos, emit_sin

_Args = Sequence[Pair]
_SHIFT = 64
_HIGHEST = 770.0
"""exp(770) 2**-64 is infinite, and so is exp(770) times any sine that is not zero."""


def shifted_exp(b: FunctionBuilder, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """(exp(x + low) / f, f): f is 2**64 for large x, to keep products with small sines finite."""
    large = b.fcmp("ogt", x, 600.0)
    zero = b.const(x.type.of(I64), 0)
    factor = b.select(large, b.const(x.type, 2.0**_SHIFT), 1.0)
    shift = b.select(large, -_SHIFT, zero)
    return scaled_exp(b, x, c.EXP_F64, shift=shift, low=low, highest=_HIGHEST), factor


def _grown_circle(b: FunctionBuilder, x: Value, y: Value) -> Pair:
    """exp(x) (cos(y) + i sin(y)); a zero y stays a zero imaginary part."""
    falling, factor = shifted_exp(b, x)
    real = b.fmul(b.fmul(falling, emit_cos(b, [y])), factor)
    imag = b.fmul(b.fmul(falling, emit_sin(b, [y])), factor)
    return real, b.select(b.fcmp("oeq", y, 0.0), y, imag)


def times_circle(b: FunctionBuilder, x: Value, y: Value) -> Pair:
    """exp(x + iy), which is 0 where x is minus infinity, for any y."""
    real, imag = _grown_circle(b, x, y)
    vanished = b.fcmp("oeq", x, float("-inf"))
    return b.select(vanished, 0.0, real), b.select(vanished, b.copysign(0.0, y), imag)


def _exp(b: FunctionBuilder, args: _Args) -> Pair:
    return times_circle(b, *args[0])


def _exp2(b: FunctionBuilder, args: _Args) -> Pair:
    """exp(z log(2)), the rounding error of y log(2) turned in as a small angle."""
    x, y = args[0]
    exponent, exponent_low = _times_log2(b, x)
    angle, turn = _times_log2(b, y)
    sine, cosine = emit_sin(b, [angle]), emit_cos(b, [angle])
    grown, factor = shifted_exp(b, exponent, exponent_low)
    real = b.fmul(b.fmul(grown, b.fma(b.fneg(turn), sine, cosine)), factor)
    imag = b.fmul(b.fmul(grown, b.fma(turn, cosine, sine)), factor)
    return real, b.select(b.fcmp("oeq", y, 0.0), y, imag)


def _times_log2(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    product = b.fmul(x, c.LN2)
    error = b.fma(x, c.LN2, b.fneg(product))
    low = b.fma(x, c.LN2_REST, error)
    return product, b.select(b.fcmp("olt", b.fabs(product), 2.0**30), low, 0.0)


def _expm1(b: FunctionBuilder, args: _Args) -> Pair:
    """expm1(x) cos(y) - 2 sin(y/2)**2 beside exp(x) sin(y)."""
    x, y = args[0]
    real, imag = _grown_circle(b, x, y)
    half_sine = emit_sin(b, [b.fmul(y, 0.5)])
    dip = b.fmul(b.fmul(half_sine, half_sine), -2.0)
    near = b.fma(emit_expm1(b, [x]), emit_cos(b, [y]), dip)
    return b.select(b.fcmp("ogt", x, 50.0), real, near), imag


def _logistic(b: FunctionBuilder, args: _Args) -> Pair:
    """1 / (1 + exp(-z)), or exp(z) / (1 + exp(z)) in the left half plane."""
    x, y = args[0]
    left = b.fcmp("olt", x, 0.0)
    sign = b.select(left, y, b.fneg(y))
    real, imag = times_circle(b, b.fneg(b.fabs(x)), sign)
    one = b.const(x.type, 1.0)
    numerator = b.select(left, real, one), b.select(left, imag, 0.0)
    return emit_divide(b, (numerator, (b.fadd(real, 1.0), imag)))


emit_complex_exp = shared_pair("exp", _exp)
emit_complex_exp2 = shared_pair("exp2", _exp2)
emit_complex_expm1 = shared_pair("expm1", _expm1)
emit_complex_logistic = shared_pair("logistic", _logistic)
