"""Special functions that HLO has not: of gamma, of errors, Bessel's, Airy's and zeta.

Chebyshev series are those of `special_tables`; other sources are named where they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xladev.frontends.torch.lower import special_tables as tables
from xladev.frontends.torch.lower.loops import repeat_while
from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

SPECIAL = Family("special", "Special functions.", wide=True)
_lowers = SPECIAL.lowers

_EPSILON = {dt.F32: 2.0**-24, dt.F64: 2.0**-53}


def chebyshev(series: tables.Series, x: Value) -> Value:
    """The sum of a Chebyshev series, by Clenshaw's recurrence; as many terms as the type has."""
    low, high, coefficients = series
    least = max(map(abs, coefficients)) * _EPSILON[x.dtype] / 16
    count = max(i + 1 for i, c in enumerate(coefficients) if abs(c) >= least)
    t = (x - (low + high) / 2) * (2 / (high - low))
    later, now = x.like(0), x.like(0)
    for c in reversed(coefficients[1:count]):
        later, now = now, t * 2 * now - later + c
    return t * now - later + coefficients[0]


def polynomial(coefficients: Sequence[float], x: Value) -> Value:
    """The value of a polynomial, its highest coefficient first."""
    found = x.like(coefficients[0])
    for c in coefficients[1:]:
        found = found * x + c
    return found


def _of_one(overload: str, function: Callable[[Value], Value], what: str, sample: str = "") -> None:
    def lower(b: TensorBuilder, out: Shape, x: Value) -> Value:
        return function(x.cast(out.element_type))

    SPECIAL.add(overload, lower, sample=sample, summary=what)


# Errors


def erfcx_positive(x: Value) -> Value:
    """exp(x^2) erfc(x) for x >= 0."""
    capped = x.minimum(1e300 if x.dtype is dt.F64 else 1e37)
    u = (capped - 3.75) / (capped + 3.75)
    return chebyshev(tables.ERFCX, u) / (capped * 2 + 1)


def minus_square(x: Value) -> Value:
    """exp(-x^2), the square's rounding made up for."""
    step = 2.0**12 if x.dtype is dt.F32 else 2.0**26
    high = (x * step).op("round-nearest-even") / step
    safe = x.abs().lt(64).where(high, x)
    low = x.abs().lt(64).where((x - safe) * (x + safe), 0)
    return (-(safe * safe)).exp() * (-low).exp()


def erfc(x: Value) -> Value:
    """1 - erf(x), precise where that is small."""
    size = x.abs()
    tail = minus_square(size) * erfcx_positive(size)
    return x.lt(0).where(2 - tail, tail)


def erfcx(x: Value) -> Value:
    """exp(x^2) erfc(x)."""
    positive = erfcx_positive(x.abs())
    return x.lt(0).where((x * x).exp() * 2 - positive, positive)


_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip
"""Giles, Approximating the erfinv function (2010), single precision."""


def erfcinv(c: Value) -> Value:
    """The x >= 0 with erfc(x) = c, for c from 0 to 1: Giles's approximation, made precise."""
    w = -(c * (2 - c)).log()
    y = w.lt(5).where(polynomial(_CENTRE, w - 2.5), polynomial(_TAIL, w.sqrt() - 3)) * (1 - c)
    for _ in range(3 if c.dtype is dt.F64 else 1):
        away = (erfc(y) - c) * (math.sqrt(math.pi) / 2) / minus_square(y)
        better = y + away / (y * away + 1)
        y = better.op("is-finite").where(better, y)
    return c.le(0).where(c.eq(0).where(math.inf, c.like(math.nan)), y)


def erfinv(x: Value) -> Value:
    """The inverse of the error function."""
    size = x.abs()
    y = erfcinv(1 - size)
    found = size.gt(1).where(math.nan, x.lt(0).where(-y, y))
    return size.lt(1e-4).where(x * (math.sqrt(math.pi) / 2), found)


def ndtri(p: Value) -> Value:
    """The place below which the normal distribution has this share."""
    y = erfcinv(p.minimum(1 - p) * 2) * math.sqrt(2)
    found = p.lt(0.5).where(-y, y)
    return (p.lt(0) | p.gt(1) | p.is_nan()).where(math.nan, found)


def ndtr(x: Value) -> Value:
    """The share of the normal distribution below x."""
    return erfc(x * -math.sqrt(0.5)) * 0.5


def log_ndtr(x: Value) -> Value:
    """The logarithm of that share, precise far below."""
    t = x * math.sqrt(0.5)
    low = (erfcx(-t) * 0.5).log() - t * t
    high = (erfc(t) * -0.5).log1p()
    return x.lt(-1).where(low, high)


_of_one("erfc.default", erfc, "1 - erf.")
_of_one("erfinv.default", erfinv, "Inverse of the error function.")
_of_one("special_erfcx.default", erfcx, "exp(x^2) erfc(x).", "special.erfcx")
_of_one("special_ndtri.default", ndtri, "Inverse of the normal distribution.", "special.ndtri")
_of_one("special_ndtr.default", ndtr, "The normal distribution's function.", "special.ndtr")
_of_one("special_log_ndtr.default", log_ndtr, "Its logarithm.", "special.log_ndtr")


# Gamma

_LANCZOS = (676.520368121885098567009190444019, -1259.13921672240287047156078755283,
            771.3234287776530788486528258894, -176.61502916214059906584551354,
            12.507343278686904814458936853, -0.13857109526572011689554707,
            9.984369578019570859563e-6, 1.50563273514931155834e-7)  # fmt: skip
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS_G = 7.0
"""Lanczos's approximation of gamma for g = 7 and nine terms (Godfrey's coefficients)."""


def lgamma(x: Value) -> Value:
    """The logarithm of the size of gamma."""
    reflected = x.lt(0.5)
    z = reflected.where(-x, x - 1)
    total = x.like(_LANCZOS_FIRST)
    for at, c in enumerate(_LANCZOS):
        total = total + c / (z + (at + 1.0))
    shifted = z + (_LANCZOS_G + 0.5)
    log_shifted = (z / (_LANCZOS_G + 0.5)).log1p() + math.log(_LANCZOS_G + 0.5)
    power = (z + 0.5 - shifted / log_shifted) * log_shifted
    found = power + total.log() + 0.5 * math.log(2 * math.pi)
    size = x.abs()
    part = size - size.floor()
    near = part.gt(0.5).where(1 - part, part)
    sine = (near * math.pi).op("sine").log()
    other = math.log(math.pi) - sine - found
    result = reflected.where(sine.op("is-finite").where(other, -sine), found)
    result = (x.eq(1) | x.eq(2)).where(0, result)
    return size.eq(math.inf).where(math.inf, result)


def digamma(x: Value) -> Value:
    """The derivative of the logarithm of gamma."""
    reflected = x.lt(0.5)
    z = reflected.where(-x, x - 1)
    top, bottom = x.like(0), x.like(_LANCZOS_FIRST)
    for at, c in enumerate(_LANCZOS):
        inverse = 1 / (z + (at + 1.0))
        top = top - inverse * inverse * c
        bottom = bottom + inverse * c
    shifted = z + (_LANCZOS_G + 0.5)
    log_shifted = (z / (_LANCZOS_G + 0.5)).log1p() + math.log(_LANCZOS_G + 0.5)
    found = log_shifted + top / bottom - _LANCZOS_G / shifted
    nearest = x + (x + 0.5).floor().abs()
    angle = nearest * math.pi
    turned = found - angle.op("cosine") * math.pi / angle.op("sine")
    pole = x.le(0) & x.eq(x.floor())
    result = reflected.where(turned, found)
    return x.eq(0).where(-1 / x, pole.where(math.nan, result))


_BERNOULLI = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9,
              7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14,
              -4.5979787224074726105e15, 1.8152105401943546773e17,
              -7.1661652561756670113e18)  # fmt: skip
"""(2k)! over the Bernoulli numbers B_2k (Euler and Maclaurin's formula)."""

_TERMS = 20


def zeta(x: Value, q: Value) -> Value:
    """Hurwitz's zeta function: the sum of (q + k)^-x, for x above 1."""
    total, a = q.power(-x), q
    for _ in range(_TERMS):
        a = a + 1
        total = total + a.power(-x)
    last = a.power(-x)
    total = total + last * a / (x - 1) - last * 0.5
    factor, power = x.like(1), last
    for at, c in enumerate(_BERNOULLI):
        factor = factor * (x + 2.0 * at)
        power = power / a
        total = total + power * factor / c
        factor = factor * (x + (2.0 * at + 1))
        power = power / a
    total = x.eq(1).where(math.inf, total)
    whole = q.eq(q.floor())
    outside = (q.le(0) & ~whole & x.ne(x.floor())) | x.lt(1)
    return outside.where(math.nan, (q.le(0) & whole).where(math.inf, total))


def trigamma(x: Value) -> Value:
    """The second derivative of the logarithm of gamma."""
    low = x.lt(0.5)
    up = zeta(x.like(2), low.where(1 - x, x))
    sine = (x * math.pi).op("sine")
    return low.where(-up + math.pi**2 / (sine * sine), up)


def polygamma(order: int, x: Value) -> Value:
    """A derivative of digamma."""
    if order == 0:
        return digamma(x)
    if order == 1:
        return trigamma(x)
    sign = 1.0 if order % 2 else -1.0
    return zeta(x.like(order + 1), x) * (sign * math.factorial(order))


@_lowers("polygamma.default", sample="polygamma.polygamma_n_1")
def _polygamma(b: TensorBuilder, out: Shape, order: int, x: Value) -> Value:
    """A derivative of digamma."""
    return polygamma(order, x.cast(out.element_type))


@_lowers("special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar",
         sample="special.zeta")  # fmt: skip
def _zeta(b: TensorBuilder, out: Shape, x: Value | Number, q: Value | Number) -> Value:
    """Hurwitz's zeta function."""
    to = out.element_type
    return zeta(operand(b, x, to, out.dims), operand(b, q, to, out.dims))


_of_one("lgamma.default", lgamma, "Logarithm of the size of gamma.")
_of_one("digamma.default", digamma, "Derivative of the logarithm of gamma.")

_MOST = 2000
"""Terms after which series and fractions of incomplete gammas end."""


def _series(a: Value, x: Value, active: Value) -> Value:
    """The lower incomplete gamma over its factor, by a power series."""
    eps = _EPSILON[a.dtype]
    one = a.like(1)

    def going(v: Sequence[Value]) -> Value:
        count, running = v[0], v[1]
        alive = running.reduce("or", False, range(running.rank))
        return alive & count.lt(_MOST)

    def step(v: Sequence[Value]) -> list[Value]:
        count, running, r, term, total, factor = v
        r = r + 1
        term = running.where(term * (factor / r), term)
        total = running.where(total + term, total)
        return [count + 1, running & term.gt(total * eps), r, term, total, factor]

    start = [a.builder.scalar(0, dt.S32), active, a, one, one, x]
    return repeat_while(start, going, step)[4] / a


def _fraction(a: Value, x: Value, active: Value) -> Value:
    """The upper incomplete gamma over its factor, by a continued fraction (Lentz's method)."""
    eps, tiny = _EPSILON[a.dtype] * 2, 1e-30
    first = x + 1 - a
    start_c = x.like(1 / tiny)
    start_d = 1 / first.eq(0).where(tiny, first)

    def going(v: Sequence[Value]) -> Value:
        count, running = v[0], v[1]
        return running.reduce("or", False, range(running.rank)) & count.lt(_MOST)

    def step(v: Sequence[Value]) -> list[Value]:
        count, running, k, bottom, c, d, h, order = v
        k = k + 1
        an = -k * (k - order)
        bottom = bottom + 2
        new_d = an * d + bottom
        new_d = 1 / new_d.abs().lt(tiny).where(tiny, new_d)
        new_c = bottom + an / c
        new_c = new_c.abs().lt(tiny).where(tiny, new_c)
        change = new_d * new_c
        h = running.where(h * change, h)
        return [count + 1, running & (change - 1).abs().gt(eps), k, bottom, new_c, new_d, h, order]

    start = [a.builder.scalar(0, dt.S32), active, x.like(0), first, start_c, start_d, start_d, a]
    return repeat_while(start, going, step)[6]


def incomplete_gammas(a: Value, x: Value) -> tuple[Value, Value]:
    """The lower and the upper regularised incomplete gamma function."""
    valid = a.gt(0) & x.gt(0) & a.op("is-finite") & x.op("is-finite")
    order, place = valid.where(a, 1), valid.where(x, 1)
    low = place.lt(order + 1)
    factor = (order * place.log() - place - lgamma(order)).exp()
    by_series = factor * _series(order, low.where(place, 1.0), low & valid)
    by_fraction = factor * _fraction(order, low.where(order + 2, place), ~low & valid)
    lower = low.where(by_series, 1 - by_fraction)
    upper = low.where(1 - by_series, by_fraction)
    return _bordered(a, x, lower, 0.0), _bordered(a, x, upper, 1.0)


def _bordered(a: Value, x: Value, inside: Value, at_zero: float) -> Value:
    """Values at the border of the domain, where series say nothing."""
    found = x.eq(math.inf).where(1 - at_zero, x.eq(0).where(at_zero, inside))
    found = a.eq(0).where(x.gt(0).where(x.like(1 - at_zero), x.like(math.nan)), found)
    found = a.eq(math.inf).where(x.eq(math.inf).where(x.like(math.nan), x.like(at_zero)), found)
    return (a.lt(0) | x.lt(0) | a.is_nan() | x.is_nan()).where(math.nan, found)


@_lowers("igamma.default")
def _igamma(b: TensorBuilder, out: Shape, a: Value, x: Value) -> Value:
    """The lower regularised incomplete gamma function."""
    to = out.element_type
    return incomplete_gammas(operand(b, a, to, out.dims), operand(b, x, to, out.dims))[0]


@_lowers("igammac.default")
def _igammac(b: TensorBuilder, out: Shape, a: Value, x: Value) -> Value:
    """The upper regularised incomplete gamma function."""
    to = out.element_type
    return incomplete_gammas(operand(b, a, to, out.dims), operand(b, x, to, out.dims))[1]


# Bessel's functions


def i0e(x: Value) -> Value:
    """exp(-|x|) I0(x)."""
    size = x.abs()
    large = chebyshev(tables.I0E_LARGE, 8 / size.maximum(8)) / size.maximum(8).sqrt()
    return size.le(8).where(chebyshev(tables.I0E_SMALL, size.minimum(8)), large)


def i1e(x: Value) -> Value:
    """exp(-|x|) I1(x)."""
    size = x.abs()
    large = chebyshev(tables.I1E_LARGE, 8 / size.maximum(8)) / size.maximum(8).sqrt()
    small = chebyshev(tables.I1E_SMALL, size.minimum(8)) * size
    found = size.le(8).where(small, large)
    return x.lt(0).where(-found, found)


def i0(x: Value) -> Value:
    """Modified Bessel function of the first kind, order 0."""
    return x.abs().exp() * i0e(x)


def i1(x: Value) -> Value:
    """Modified Bessel function of the first kind, order 1."""
    return x.abs().exp() * i1e(x)


def _domain(x: Value, found: Value, at_zero: float) -> Value:
    """Values for x at zero and below."""
    return (x.lt(0) | x.is_nan()).where(math.nan, x.eq(0).where(at_zero, found))


def k0e(x: Value) -> Value:
    """exp(x) K0(x)."""
    low, high = x.maximum(1e-300 if x.dtype is dt.F64 else 1e-38).minimum(2), x.maximum(2)
    small = chebyshev(tables.K0_SMALL, low * low) - (low * 0.5).log() * i0(low)
    large = chebyshev(tables.K0E_LARGE, 2 / high) / high.sqrt()
    return _domain(x, x.le(2).where(small * low.exp(), large), math.inf)


def k1e(x: Value) -> Value:
    """exp(x) K1(x)."""
    low, high = x.maximum(1e-300 if x.dtype is dt.F64 else 1e-37).minimum(2), x.maximum(2)
    small = chebyshev(tables.K1_SMALL, low * low) / low + (low * 0.5).log() * i1(low)
    large = chebyshev(tables.K1E_LARGE, 2 / high) / high.sqrt()
    return _domain(x, x.le(2).where(small * low.exp(), large), math.inf)


def k0(x: Value) -> Value:
    """Modified Bessel function of the second kind, order 0."""
    return k0e(x) * (-x).exp()


def k1(x: Value) -> Value:
    """Modified Bessel function of the second kind, order 1."""
    return k1e(x) * (-x).exp()


def _wave(x: Value, order: int) -> tuple[Value, Value, Value, Value]:
    """P and Q of the asymptotic form for x >= 8, and sine and cosine of its phase."""
    far = x.maximum(8)
    t = 8 / far
    p = chebyshev(tables.P1 if order else tables.P0, t * t)
    q = chebyshev(tables.Q1 if order else tables.Q0, t * t) * t
    scale = (2 / math.pi / far).sqrt()
    sine, cosine = far.op("sine"), far.op("cosine")
    half = math.sqrt(0.5)
    if order:
        turned = (-(sine + cosine) * half, (sine - cosine) * half)
    else:
        turned = ((sine - cosine) * half, (sine + cosine) * half)
    return p * scale, q * scale, *turned


def j0(x: Value) -> Value:
    """Bessel function of the first kind, order 0."""
    size = x.abs()
    low = size.minimum(8)
    p, q, sine, cosine = _wave(size, 0)
    found = size.le(8).where(chebyshev(tables.J0_SMALL, low * low), p * cosine - q * sine)
    return size.eq(math.inf).where(0, found)


def j1(x: Value) -> Value:
    """Bessel function of the first kind, order 1."""
    size = x.abs()
    low = size.minimum(8)
    p, q, sine, cosine = _wave(size, 1)
    small = chebyshev(tables.J1_SMALL, low * low) * low
    found = size.le(8).where(small, p * cosine - q * sine)
    return size.eq(math.inf).where(0, x.lt(0).where(-found, found))


def y0(x: Value) -> Value:
    """Bessel function of the second kind, order 0."""
    low = x.maximum(1e-300 if x.dtype is dt.F64 else 1e-38).minimum(8)
    p, q, sine, cosine = _wave(x, 0)
    smooth = chebyshev(tables.Y0_SMALL, low * low)
    small = smooth + (low * 0.5).log() * j0(low) * (2 / math.pi)
    return _domain(x, x.le(8).where(small, p * sine + q * cosine), -math.inf)


def y1(x: Value) -> Value:
    """Bessel function of the second kind, order 1."""
    low = x.maximum(1e-300 if x.dtype is dt.F64 else 1e-37).minimum(8)
    p, q, sine, cosine = _wave(x, 1)
    smooth = chebyshev(tables.Y1_SMALL, low * low) * low
    small = smooth + ((low * 0.5).log() * j1(low) - 1 / low) * (2 / math.pi)
    return _domain(x, x.le(8).where(small, p * sine + q * cosine), -math.inf)


def spherical_j0(x: Value) -> Value:
    """sin(x) / x."""
    square = x * x
    series = polynomial((-1 / 5040, 1 / 120, -1 / 6, 1.0), square)
    found = x.abs().lt(0.1).where(series, x.op("sine") / x)
    return x.abs().eq(math.inf).where(0, found)


def airy(x: Value) -> Value:
    """Airy's function Ai."""
    middle = chebyshev(tables.AIRY_MIDDLE, x.maximum(-3).minimum(3))
    high, low = x.maximum(3), (-x).maximum(3)
    z = high * high.sqrt() * (2 / 3)
    large = chebyshev(tables.AIRY_LARGE, 2 / z) * (-z).exp()
    large = large / (high.sqrt().sqrt() * (2 * math.sqrt(math.pi)))
    z = low * low.sqrt() * (2 / 3)
    t = 2 / z
    phase = z + math.pi / 4
    f = chebyshev(tables.AIRY_F, t * t)
    g = chebyshev(tables.AIRY_G, t * t) * t
    waves = phase.op("sine") * f - phase.op("cosine") * g
    small = waves / (low.sqrt().sqrt() * math.sqrt(math.pi))
    found = x.gt(3).where(large, x.lt(-3).where(small, middle))
    return x.abs().eq(math.inf).where(math.nan, found)


_BESSEL: dict[str, tuple[Callable[[Value], Value], str]] = {
    "special_i0e": (i0e, "special.i0e"),
    "special_i1": (i1, "special.i1"),
    "special_i1e": (i1e, "special.i1e"),
    "special_modified_bessel_i0": (i0, "special.modified_bessel_i0"),
    "special_modified_bessel_i1": (i1, "special.modified_bessel_i1"),
    "special_modified_bessel_k0": (k0, "special.modified_bessel_k0"),
    "special_modified_bessel_k1": (k1, "special.modified_bessel_k1"),
    "special_scaled_modified_bessel_k0": (k0e, "special.scaled_modified_bessel_k0"),
    "special_scaled_modified_bessel_k1": (k1e, "special.scaled_modified_bessel_k1"),
    "special_bessel_j0": (j0, "special.bessel_j0"),
    "special_bessel_j1": (j1, "special.bessel_j1"),
    "special_bessel_y0": (y0, "special.bessel_y0"),
    "special_bessel_y1": (y1, "special.bessel_y1"),
    "special_spherical_bessel_j0": (spherical_j0, "special.spherical_bessel_j0"),
    "special_airy_ai": (airy, "special.airy_ai"),
}
_of_one("i0.default", i0, i0.__doc__ or "")
for _name, (_function, _sample) in _BESSEL.items():
    _of_one(f"{_name}.default", _function, _function.__doc__ or "", _sample)
