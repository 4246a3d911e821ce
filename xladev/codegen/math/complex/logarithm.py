"""Complex log, log2, log1p, power and cube root."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.complex.arithmetic import emit_magnitude
from xladev.codegen.math.complex.exponential import times_circle
from xladev.codegen.math.complex.pairs import NAN, Pair, larger, shared_pair
from xladev.codegen.math.double_double import Double, exact_product, exact_sum
from xladev.codegen.math.inverse_trigonometric import emit_atan2
from xladev.codegen.math.logarithm import emit_log, emit_log1p
from xladev.codegen.math.power import emit_pow
from xladev.codegen.math.roots import emit_cbrt

_Args = Sequence[Pair]
_FAR = 700.0
"""exp of this is near the end of the range of f64."""


def _sum_of_squares_plus(b: FunctionBuilder, z: Pair, start: Value) -> Value:
    """start + x**2 + y**2, rounded about once: every product and sum is carried as a pair."""
    total: Double = (start, b.const(start.type, 0.0))
    for part in z:
        square, error = exact_product(b, part, part)
        high, low = exact_sum(b, total[0], square)
        total = high, b.fadd(b.fadd(total[1], low), error)
    return b.fadd(total[0], total[1])


def log_magnitude(b: FunctionBuilder, z: Pair) -> Value:
    """log|z|, accurate near |z| = 1, where it is half of log1p(|z|**2 - 1)."""
    minus_one = b.const(z[0].type, -1.0)
    near = b.fmul(emit_log1p(b, [_sum_of_squares_plus(b, z, minus_one)]), 0.5)
    h = emit_magnitude(b, z)
    return b.select(_near_one(b, h), near, _log_far(b, z))


def _near_one(b: FunctionBuilder, h: Value) -> Value:
    return b.and_(b.fcmp("ogt", h, 0.5), b.fcmp("olt", h, 2.0))


def _log_far(b: FunctionBuilder, z: Pair) -> Value:
    """log|z| away from 1, also where |z| is no normal f64."""
    h, restore = _magnitude_in_range(b, z)
    return b.fadd(emit_log(b, [h]), restore(3 * c.LN2, -300 * c.LN2, 0.0))


def _magnitude_in_range(b: FunctionBuilder, z: Pair) -> tuple[Value, Callable[..., Value]]:
    """(h, choose): h is |z|, |z| 2**-3 or |z| 2**300, so that it is neither infinite nor subnormal.

    ``choose(x, y, z)`` is x where |z| was made smaller, y where larger, z where it is h.
    """
    size = larger(b, z)
    large, small = b.fcmp("oge", size, 2.0**1000), b.fcmp("olt", size, 2.0**-1000)

    def choose(if_large: float, if_small: float, otherwise: float) -> Value:
        rest = b.select(small, b.const(size.type, if_small), otherwise)
        return b.select(large, if_large, rest)

    factor = choose(2.0**-3, 2.0**300, 1.0)
    return emit_magnitude(b, (b.fmul(z[0], factor), b.fmul(z[1], factor))), choose


def _log(b: FunctionBuilder, args: _Args) -> Pair:
    x, y = args[0]
    return log_magnitude(b, args[0]), emit_atan2(b, [y, x])


def _log2(b: FunctionBuilder, args: _Args) -> Pair:
    real, imag = _log(b, args)
    return b.fmul(real, c.LOG2_E), b.fmul(imag, c.LOG2_E)


def _log1p(b: FunctionBuilder, args: _Args) -> Pair:
    """log|1 + z|: half of log1p(2 x + x**2 + y**2) where that is near 0."""
    x, y = args[0]
    shifted = b.fadd(x, 1.0), y
    near = emit_log1p(b, [_sum_of_squares_plus(b, args[0], b.fadd(x, x))])
    inside = _near_one(b, emit_magnitude(b, shifted))
    real = b.select(inside, b.fmul(near, 0.5), _log_far(b, shifted))
    return real, emit_atan2(b, [y, shifted[0]])


def _power(b: FunctionBuilder, args: _Args) -> Pair:
    """|z|**c exp(-d a) at the angle d log|z| + c a, a being the angle of z.

    0**0 is 1; zero to a positive real part is 0, to any other NaN (as NumPy and XLA).
    """
    z, (real, imag) = args
    angle = emit_atan2(b, [z[1], z[0]])
    h, restore = _magnitude_in_range(b, z)
    log_h = log_magnitude(b, z)
    scaled = emit_pow(b, [restore(2.0**3, 2.0**-300, 1.0), real])
    radius = b.fmul(emit_pow(b, [h, real]), scaled)
    turn = b.fma(real, angle, b.fmul(imag, log_h))
    shrinking = b.fneg(b.fmul(imag, angle))
    grown = times_circle(b, shrinking, turn)
    # one factor may leave the range where the product is within it
    far = b.or_(b.fcmp("ogt", b.fabs(shrinking), _FAR), b.fcmp("oeq", radius, 0.0))
    far = b.or_(far, b.fcmp("oeq", radius, float("inf")))
    whole = times_circle(b, b.fma(real, log_h, shrinking), turn)
    value = (
        b.select(far, whole[0], b.fmul(grown[0], radius)),
        b.select(far, whole[1], b.fmul(grown[1], radius)),
    )
    return _power_of_zero(b, z, (real, imag), value)


def _power_of_zero(b: FunctionBuilder, z: Pair, exponent: Pair, value: Pair) -> Pair:
    zero = b.and_(b.fcmp("oeq", z[0], 0.0), b.fcmp("oeq", z[1], 0.0))
    none = b.and_(b.fcmp("oeq", exponent[0], 0.0), b.fcmp("oeq", exponent[1], 0.0))
    positive = b.fcmp("ogt", exponent[0], 0.0)
    at_zero = b.select(positive, b.const(z[0].type, 0.0), NAN)
    real = b.select(zero, at_zero, value[0])
    imag = b.select(zero, at_zero, value[1])
    return b.select(none, 1.0, real), b.select(none, 0.0, imag)


def _cbrt(b: FunctionBuilder, args: _Args) -> Pair:
    """The principal root: a third of the angle; inf and NaN where that of an infinity is NaN."""
    z = args[0]
    angle = b.fdiv(emit_atan2(b, [z[1], z[0]]), 3.0)
    h, restore = _magnitude_in_range(b, z)
    root = b.fmul(emit_cbrt(b, [h]), restore(2.0, 2.0**-100, 1.0))
    real, imag = times_circle(b, b.const(root.type, 0.0), angle)
    lost = b.and_(b.fcmp("oeq", root, float("inf")), b.fcmp("uno", angle, angle))
    return b.select(lost, root, b.fmul(root, real)), b.fmul(root, imag)


emit_complex_log = shared_pair("log", _log)
emit_complex_log2 = shared_pair("log2", _log2)
emit_complex_log1p = shared_pair("log1p", _log1p)
emit_complex_power = shared_pair("power", _power)
emit_complex_cbrt = shared_pair("cbrt", _cbrt)
