"""Complex sinh, cosh, tanh, sin, cos and tan."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math.complex.exponential import shifted_exp
from xladev.codegen.math.complex.pairs import Pair, PairKernel, shared_pair
from xladev.codegen.math.exponential import emit_exp
from xladev.codegen.math.hyperbolic import emit_cosh, emit_sinh, emit_tanh
from xladev.codegen.math.trigonometric import emit_cos, emit_sin, emit_tan

_Args = Sequence[Pair]
_FLAT = 20.0
"""Beyond this tanh is 1 to the last place of f64."""


def _product(b: FunctionBuilder, x: Value, hyperbolic: Value, circular: Value) -> Value:
    """hyperbolic(x) * circular, where |hyperbolic(x)| is exp|x| / 2 when x is large.

    Zero times infinity is zero here: the zero is exact, the infinity is a finite number too large.
    """
    grown, factor = shifted_exp(b, b.fabs(x))
    half = b.fmul(b.copysign(b.fmul(grown, 0.5), hyperbolic), circular)
    large = b.fcmp("ogt", b.fabs(x), 600.0)
    value = b.select(large, b.fmul(half, factor), b.fmul(hyperbolic, circular))
    finite = b.fcmp("one", b.fabs(x), float("inf"))
    still = b.and_(b.fcmp("oeq", circular, 0.0), finite)
    return b.select(
        still, b.copysign(circular, b.fmul(circular, b.copysign(1.0, hyperbolic))), value
    )


def _sinh(b: FunctionBuilder, args: _Args) -> Pair:
    """sinh(x) cos(y) + i cosh(x) sin(y), a zero part staying zero."""
    x, y = args[0]
    sinh, cosh = emit_sinh(b, [x]), emit_cosh(b, [x])
    real = b.select(b.fcmp("oeq", x, 0.0), x, _product(b, x, sinh, emit_cos(b, [y])))
    imag = b.select(b.fcmp("oeq", y, 0.0), y, _product(b, x, cosh, emit_sin(b, [y])))
    return real, imag


def _cosh(b: FunctionBuilder, args: _Args) -> Pair:
    """cosh(x) cos(y) + i sinh(x) sin(y), the imaginary part zero on both axes."""
    x, y = args[0]
    sinh, cosh = emit_sinh(b, [x]), emit_cosh(b, [x])
    real = _product(b, x, cosh, emit_cos(b, [y]))
    axis = b.or_(b.fcmp("oeq", x, 0.0), b.fcmp("oeq", y, 0.0))
    zero = b.fmul(b.copysign(0.0, x), b.copysign(1.0, y))
    return real, b.select(axis, zero, _product(b, x, sinh, emit_sin(b, [y])))


def _tanh(b: FunctionBuilder, args: _Args) -> Pair:
    """With t = tan(y), s = sinh(x): ((1 + t**2) s sqrt(1 + s**2) + i t) / (1 + (1 + t**2) s**2).

    Beyond 20 the real part is 1 and the imaginary part sin(2 y) 2 exp(-2 |x|) (Kahan). An angle
    that is not finite gives NaN in both, unless x is infinite.
    """
    x, y = args[0]
    t, s = emit_tan(b, [y]), emit_sinh(b, [x])
    beta = b.fma(t, t, 1.0)
    below = b.fma(b.fmul(beta, s), s, 1.0)
    above = b.fmul(b.fmul(beta, s), b.sqrt(b.fma(s, s, 1.0)))
    far = b.fcmp("ogt", b.fabs(x), _FLAT)
    falling = emit_exp(b, [b.fneg(b.fabs(x))])
    circle = b.fmul(b.fmul(emit_sin(b, [y]), emit_cos(b, [y])), 4.0)
    real = b.select(far, b.copysign(1.0, x), b.fdiv(above, below))
    imag = b.select(far, b.fmul(b.fmul(circle, falling), falling), b.fdiv(t, below))
    flat = b.fcmp("oeq", y, 0.0)
    real = b.select(flat, emit_tanh(b, [x]), real)
    limit = b.fcmp("oeq", b.fabs(x), float("inf"))
    endless = b.fsub(y, y)  # 0 for a finite angle, else NaN
    imag = b.select(limit, b.copysign(0.0, y), b.select(flat, y, b.fadd(imag, endless)))
    real = b.select(limit, real, b.fadd(real, endless))
    still = b.and_(b.fcmp("oeq", x, 0.0), b.fcmp("ord", endless, 0.0))
    return b.select(still, x, real), imag


def _sin(b: FunctionBuilder, args: _Args) -> Pair:
    """sin(x + iy) is sinh(y + ix) with its parts exchanged."""
    x, y = args[0]
    real, imag = emit_complex_sinh(b, [(y, x)])
    return imag, real


def _cos(b: FunctionBuilder, args: _Args) -> Pair:
    """cos(x + iy) = cosh(-y + ix)."""
    x, y = args[0]
    return emit_complex_cosh(b, [(b.fneg(y), x)])


def _tan(b: FunctionBuilder, args: _Args) -> Pair:
    """tan(x + iy) is tanh(y + ix) with its parts exchanged."""
    x, y = args[0]
    real, imag = emit_complex_tanh(b, [(y, x)])
    return imag, real


emit_complex_sinh: PairKernel = shared_pair("sinh", _sinh)
emit_complex_cosh: PairKernel = shared_pair("cosh", _cosh)
emit_complex_tanh: PairKernel = shared_pair("tanh", _tanh)
emit_complex_sin: PairKernel = _sin
emit_complex_cos: PairKernel = _cos
emit_complex_tan: PairKernel = _tan
