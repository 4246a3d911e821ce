"""Complex asin, acos, atan, asinh, acosh and atanh.

asin and acos follow Hull, Fairgrieve and Tang (ACM TOMS 23, 1997): with r = |z + 1|, s = |z - 1|,
a = (r + s) / 2, the angle is that of x / a and the other part is acosh(a), both from forms that do
not cancel near the branch points. Signs are those of the operand, so signed zeros choose the side
of a branch cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.complex.arithmetic import emit_magnitude
from xladev.codegen.math.complex.pairs import Pair, larger, shared_pair
from xladev.codegen.math.inverse_trigonometric import emit_acos, emit_asin, emit_atan2
from xladev.codegen.math.logarithm import emit_log, emit_log1p

_Args = Sequence[Pair]
_BIG = 2.0**300
"""Beyond this 1 is lost beside z: asin(z) is its angle and log(2 z)."""
_CROSSOVER = 0.6417
"""Up to this x / a, asin and acos of the quotient are well conditioned."""


@dataclass(frozen=True, slots=True)
class _Ellipse:
    """The quantities shared by asin and acos, of the first quadrant point (x, y).

    Attributes:
        x: |real part|.
        y: |imaginary part|.
        outside: whether x > 1.
        r_plus: r + (x + 1).
        s_gap: s + (1 - x) where x <= 1, s + (x - 1) where x > 1.
        a: (r + s) / 2, at least 1.
    """

    x: Value
    y: Value
    outside: Value
    r_plus: Value
    s_gap: Value
    a: Value


def _ellipse(b: FunctionBuilder, z: Pair) -> _Ellipse:
    x, y = b.fabs(z[0]), b.fabs(z[1])
    up, down = b.fadd(x, 1.0), b.fsub(x, 1.0)
    r, s = emit_magnitude(b, (up, y)), emit_magnitude(b, (down, y))
    return _Ellipse(
        x,
        y,
        b.fcmp("ogt", x, 1.0),
        b.fadd(r, up),
        b.fadd(s, b.fabs(down)),
        b.fmul(b.fadd(r, s), 0.5),
    )


def _acosh_of_a(b: FunctionBuilder, e: _Ellipse) -> Value:
    """acosh(a) >= 0, from a - 1 summed without cancellation where a is near 1."""
    square = b.fmul(e.y, e.y)
    first = b.fdiv(square, e.r_plus)
    second = b.select(e.outside, e.s_gap, b.fdiv(square, e.s_gap))
    above_one = b.fmul(b.fadd(first, second), 0.5)
    near = b.fadd(above_one, b.sqrt(b.fmul(above_one, b.fadd(e.a, 1.0))))
    value = emit_log1p(b, [near])
    # y**2 underflows: acosh(a) is y / sqrt(1 - x**2) inside the unit interval.
    tiny = b.and_(b.fcmp("olt", e.y, 2.0**-400), b.fcmp("olt", e.x, 1.0))
    edge = b.sqrt(b.fmul(b.fsub(1.0, e.x), b.fadd(e.x, 1.0)))
    value = b.select(tiny, b.fdiv(e.y, edge), value)
    point = b.and_(b.fcmp("oeq", e.y, 0.0), b.not_(e.outside))
    return b.select(point, 0.0, value)


def _leg(b: FunctionBuilder, e: _Ellipse) -> Value:
    """sqrt(a**2 - x**2), the other leg of the triangle with hypotenuse a and leg x."""
    total = b.fadd(e.a, e.x)
    square = b.fmul(e.y, e.y)
    inside = b.fadd(b.fdiv(square, e.r_plus), e.s_gap)
    within = b.sqrt(b.fmul(b.fmul(total, inside), 0.5))
    quotients = b.fadd(b.fdiv(total, e.r_plus), b.fdiv(total, e.s_gap))
    beyond = b.fmul(e.y, b.sqrt(b.fmul(quotients, 0.5)))
    flat = b.fcmp("oeq", e.y, 0.0)
    return b.select(e.outside, b.select(flat, 0.0, beyond), within)


def _log_double(b: FunctionBuilder, z: Pair) -> Value:
    """log(2 |z|) of a big z."""
    quarter = b.fmul(z[0], 0.25), b.fmul(z[1], 0.25)
    return b.fadd(emit_log(b, [emit_magnitude(b, quarter)]), 3.0 * c.LN2)


def _acos_parts(b: FunctionBuilder, z: Pair) -> tuple[Value, Value, Value]:
    """(asin of the real angle, acos of it, acosh(a)), for |real| and |imag|."""
    e = _ellipse(b, z)
    leg = _leg(b, e)
    ratio = b.fdiv(e.x, e.a)
    middle = b.fcmp("ole", ratio, _CROSSOVER)
    angle = b.select(middle, emit_asin(b, [ratio]), emit_atan2(b, [e.x, leg]))
    other = b.select(middle, emit_acos(b, [ratio]), emit_atan2(b, [leg, e.x]))
    height = _acosh_of_a(b, e)
    big = b.fcmp("ogt", larger(b, z), _BIG)
    angle = b.select(big, emit_atan2(b, [e.x, e.y]), angle)
    other = b.select(big, emit_atan2(b, [e.y, e.x]), other)
    return angle, other, b.select(big, _log_double(b, z), height)


def _asin(b: FunctionBuilder, args: _Args) -> Pair:
    x, y = args[0]
    angle, _, height = _acos_parts(b, args[0])
    return b.copysign(angle, x), b.copysign(height, y)


def _acos(b: FunctionBuilder, args: _Args) -> Pair:
    x, y = args[0]
    _, other, height = _acos_parts(b, args[0])
    left = b.fcmp("olt", b.copysign(1.0, x), 0.0)
    real = b.select(left, b.fsub(c.PI[0], b.fsub(other, c.PI[1])), other)
    return real, b.fneg(b.copysign(height, y))


def _asinh(b: FunctionBuilder, args: _Args) -> Pair:
    """asinh(x + iy) is asin(y + ix) with its parts exchanged."""
    x, y = args[0]
    real, imag = emit_complex_asin(b, [(y, x)])
    return imag, real


def _acosh(b: FunctionBuilder, args: _Args) -> Pair:
    """acosh(z) is acos(z) turned so that its real part is not negative."""
    real, imag = emit_complex_acos(b, args)
    return b.fabs(imag), b.copysign(real, args[0][1])


def _atanh(b: FunctionBuilder, args: _Args) -> Pair:
    """log1p(4 x / ((1 - x)**2 + y**2)) / 4 beside half the angle of (1 - x**2 - y**2, 2 y)."""
    x, y = b.fabs(args[0][0]), b.fabs(args[0][1])
    gap = b.fsub(1.0, x)
    square = b.fmul(y, y)
    near = b.fdiv(b.fmul(x, 4.0), b.fma(gap, gap, square))
    real = b.fmul(emit_log1p(b, [near]), 0.25)
    # Beside the pole at 1, where the square of y is nothing: half the log of 2 / y.
    pole = b.and_(b.fcmp("oeq", gap, 0.0), b.fcmp("olt", y, 2.0**-500))
    steep = b.fmul(b.fsub(b.const(y.type, c.LN2), emit_log(b, [y])), 0.5)
    real = b.select(pole, steep, real)
    across = b.fsub(b.fmul(gap, b.fadd(x, 1.0)), square)
    imag = b.fmul(emit_atan2(b, [b.fadd(y, y), across]), 0.5)
    # Big z: 1/z, whose real part is x / |z|**2, and a quarter turn.
    big = b.fcmp("ogt", larger(b, args[0]), _BIG)
    h = emit_magnitude(b, args[0])
    real = b.select(big, b.fdiv(b.fdiv(x, h), h), real)
    imag = b.select(big, c.HALF_PI[0], imag)
    return b.copysign(real, args[0][0]), b.copysign(imag, args[0][1])


def _atan(b: FunctionBuilder, args: _Args) -> Pair:
    """atan(x + iy) is atanh(y + ix) with its parts exchanged."""
    x, y = args[0]
    real, imag = emit_complex_atanh(b, [(y, x)])
    return imag, real


emit_complex_asin = shared_pair("asin", _asin)
emit_complex_acos = shared_pair("acos", _acos)
emit_complex_asinh = _asinh
emit_complex_acosh = _acosh
emit_complex_atanh = shared_pair("atanh", _atanh)
emit_complex_atan = _atan
