"""Complex division, magnitude, sign and square roots."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value, constant
from xladev.codegen.math.complex.pairs import (
    INFINITY,
    NAN,
    Pair,
    binade,
    dot,
    is_infinite,
    larger,
    shared_pair,
    shared_real,
)
from xladev.codegen.math.scaling import power_of_two, scale


def _divide(b: FunctionBuilder, args: Sequence[Pair]) -> Pair:
    """Both operands scaled to [1, 2), the exponents put back at the end.

    A zero divisor divides each part by +0 and an infinite one gives zero, as NumPy and XLA do.
    """
    (a, c), (d, e) = args
    top, top_exponent = binade(b, larger(b, args[0]))
    bottom, bottom_exponent = binade(b, larger(b, args[1]))
    numerator = b.fmul(a, top), b.fmul(c, top)
    divisor = b.fmul(d, bottom), b.fmul(e, bottom)
    square = dot(b, divisor, divisor)
    exponent = b.sub(top_exponent, bottom_exponent)
    real = b.fdiv(dot(b, numerator, divisor), square)
    crossed = numerator[1], b.fneg(numerator[0])
    imag = b.fdiv(dot(b, crossed, divisor), square)
    zero = b.and_(b.fcmp("oeq", d, 0.0), b.fcmp("oeq", e, 0.0))
    vanishes = b.and_(is_infinite(b, args[1]), b.not_(is_infinite(b, args[0])))
    return (
        _quotient_part(b, a, real, exponent, zero, vanishes),
        _quotient_part(b, c, imag, exponent, zero, vanishes),
    )


def _divide_by_real(b: FunctionBuilder, z: Pair, divisor: Value) -> Pair:
    """(a + c i) / d for a divisor without imaginary part: a/d and c/d, each rounded once.

    A finite part beside one that is not becomes NaN, as it does in the products of the full
    quotient and in XLA, unless the divisor is zero.
    """
    zero = b.fcmp("oeq", divisor, 0.0)
    parts = []
    for part, other in (z, (z[1], b.fneg(z[0]))):
        alone = b.or_(zero, b.fcmp("oeq", b.fabs(part), INFINITY))
        lost = b.fadd(part, b.fmul(other, 0.0))
        parts.append(b.fdiv(b.select(alone, part, lost), divisor))
    return parts[0], parts[1]


def emit_divide(b: FunctionBuilder, args: Sequence[Pair]) -> Pair:
    """A quotient; cheap where the divisor is a real number made complex."""
    real, imag = args[1]
    if imag == constant(imag.type, 0.0):
        return _divide_by_real(b, args[0], real)
    return _emit_full_quotient(b, args)


def _quotient_part(
    b: FunctionBuilder, part: Value, value: Value, exponent: Value, zero: Value, vanishes: Value
) -> Value:
    bounded = b.intrinsic("smax", b.intrinsic("smin", exponent, 2040), -2040)
    value = scale(b, value, bounded)
    value = b.select(vanishes, b.fmul(part, 0.0), value)
    return b.select(zero, b.fdiv(part, 0.0), value)


def _hypot_scaled(b: FunctionBuilder, z: Pair) -> tuple[Value, Pair, Value]:
    """(h, w, n): w = z 2**-n with its larger part in [1, 2), n even, h = |w|."""
    inverse, n = binade(b, larger(b, z))
    odd = b.and_(n, 1)
    inverse = b.fmul(inverse, power_of_two(b, odd))
    n = b.sub(n, odd)
    w = b.fmul(z[0], inverse), b.fmul(z[1], inverse)
    return b.sqrt(dot(b, w, w)), w, n


def magnitude(b: FunctionBuilder, z: Pair) -> Value:
    """|z| in f64, without overflow or underflow on the way; infinite if a part is."""
    h, _, n = _hypot_scaled(b, z)
    return b.select(is_infinite(b, z), INFINITY, scale(b, h, n))


def _sign(b: FunctionBuilder, args: Sequence[Pair]) -> Pair:
    """z / |z|, part by part; zero is its own sign.

    An infinite magnitude makes zeros of finite parts and NaN of infinite ones.
    """
    z = args[0]
    h, w, _ = _hypot_scaled(b, z)
    zero = b.fcmp("oeq", h, 0.0)
    lost = is_infinite(b, z)
    parts = [b.select(zero, x, b.fdiv(y, h)) for x, y in zip(z, w, strict=True)]
    real, imag = (
        b.select(lost, b.fdiv(x, INFINITY), part) for x, part in zip(z, parts, strict=True)
    )
    return real, imag


def _sqrt(b: FunctionBuilder, args: Sequence[Pair]) -> Pair:
    """Principal root; the special cases are those of C99's csqrt.

    The smaller part is |y| over twice the larger, from the unscaled y, which scaling may flush.
    """
    x, y = args[0]
    h, w, n = _hypot_scaled(b, args[0])
    main = b.sqrt(b.fmul(b.fadd(b.fabs(w[0]), h), 0.5))
    main = b.fmul(main, power_of_two(b, b.ashr(n, 1)))
    other = b.fmul(b.fdiv(b.fabs(y), main), 0.5)
    right = b.fcmp("oge", x, 0.0)
    real = b.select(right, main, other)
    imag = b.copysign(b.select(right, other, main), y)
    zero = b.and_(b.fcmp("oeq", x, 0.0), b.fcmp("oeq", y, 0.0))
    real, imag = b.select(zero, 0.0, real), b.select(zero, y, imag)
    return _sqrt_of_infinity(b, args[0], (real, imag))


def _sqrt_of_infinity(b: FunctionBuilder, z: Pair, root: Pair) -> Pair:
    up = b.fcmp("oeq", b.fabs(z[1]), INFINITY)
    right = b.fcmp("oeq", z[0], INFINITY)
    left = b.fcmp("oeq", z[0], -INFINITY)
    unknown = b.fcmp("uno", z[1], z[1])
    flat = b.select(unknown, z[1], 0.0)
    real = b.select(right, INFINITY, b.select(left, flat, root[0]))
    imag = b.select(right, b.copysign(flat, z[1]), root[1])
    imag = b.select(left, b.copysign(INFINITY, z[1]), imag)
    return b.select(up, INFINITY, real), b.select(up, z[1], imag)


def _root_scaled(b: FunctionBuilder, z: Pair) -> tuple[Pair, Value, Value]:
    """(r, h, n): r = sqrt(z 2**-n) in the right half plane, h = |r|**2, n even."""
    h, w, n = _hypot_scaled(b, z)
    main = b.sqrt(b.fmul(b.fadd(b.fabs(w[0]), h), 0.5))
    other = b.fdiv(b.fmul(b.fabs(w[1]), 0.5), main)
    right = b.fcmp("oge", w[0], 0.0)
    real = b.select(right, main, other)
    imag = b.copysign(b.select(right, other, main), w[1])
    return (real, imag), h, n


def _rsqrt(b: FunctionBuilder, args: Sequence[Pair]) -> Pair:
    """The conjugate of the root over its squared magnitude; (inf, nan) at zero, as XLA has it."""
    z = args[0]
    root, h, n = _root_scaled(b, z)
    half = power_of_two(b, b.neg(b.ashr(n, 1)))
    real = b.fmul(b.fdiv(root[0], h), half)
    imag = b.fmul(b.fneg(b.fdiv(root[1], h)), half)
    zero = b.and_(b.fcmp("oeq", z[0], 0.0), b.fcmp("oeq", z[1], 0.0))
    infinite = is_infinite(b, z)
    real = b.select(zero, INFINITY, b.select(infinite, 0.0, real))
    vanishing = b.fneg(b.copysign(0.0, z[1]))
    return real, b.select(zero, NAN, b.select(infinite, vanishing, imag))


_emit_full_quotient = shared_pair("divide", _divide)
emit_magnitude = shared_real("abs", magnitude)
emit_sign = shared_pair("sign", _sign)
emit_sqrt = shared_pair("sqrt", _sqrt)
emit_rsqrt = shared_pair("rsqrt", _rsqrt)
