"""Complex arithmetic with the special values of C99 Annex G, in higher precision than asked.

Functions take arrays of a raised precision (c128 for c64, long double for c128), so a product
cannot overflow where the result does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.hlo.literal import Array


def compose(real: Any, imag: Any) -> Array:
    """Complex array of these parts, bit for bit (``real + 1j*imag`` would spoil infinities)."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def multiply(x: Array, y: Array) -> Array:
    """The plain formula, as XLA has it: no recovery of infinities."""
    real = x.real * y.real - x.imag * y.imag
    return compose(real, x.real * y.imag + x.imag * y.real)


def divide(x: Array, y: Array) -> Array:
    """Quotient; by zero gives infinity, infinities behave as in C99 Annex G.5.1."""
    norm = y.real * y.real + y.imag * y.imag
    real = (x.real * y.real + x.imag * y.imag) / norm
    imag = (x.imag * y.real - x.real * y.imag) / norm
    lost = np.isnan(real) & np.isnan(imag)
    if not np.any(lost):
        return compose(real, imag)
    return _recovered_quotient(x, y, compose(real, imag), norm, lost)


def _recovered_quotient(x: Array, y: Array, plain: Array, norm: Array, lost: Array) -> Array:
    """``plain`` with the three cases of Annex G where a NaN hides an infinity or a zero."""
    infinite_x = np.isinf(x.real) | np.isinf(x.imag)
    infinite_y = np.isinf(y.real) | np.isinf(y.imag)
    finite_x, finite_y = np.isfinite(x), np.isfinite(y)
    by_zero = (norm == 0) & ~(np.isnan(x.real) & np.isnan(x.imag))
    pole = np.copysign(np.inf, y.real)
    result = np.where(lost & by_zero, compose(pole * x.real, pole * x.imag), plain)
    a, b = _boxed(x)
    grown = compose(np.inf * (a * y.real + b * y.imag), np.inf * (b * y.real - a * y.imag))
    result = np.where(lost & ~by_zero & infinite_x & finite_y, grown, result)
    c, d = _boxed(y)
    gone = compose(0.0 * (x.real * c + x.imag * d), 0.0 * (x.imag * c - x.real * d))
    return np.where(lost & ~by_zero & finite_x & infinite_y, gone, result)


def _boxed(z: Array) -> tuple[Array, Array]:
    """Parts with infinite ones as +-1 and others as signed zero."""
    real = np.copysign(np.where(np.isinf(z.real), 1.0, 0.0), z.real)
    return real, np.copysign(np.where(np.isinf(z.imag), 1.0, 0.0), z.imag)


def sign(z: Array) -> Array:
    """``z / |z|``; 0 for 0."""
    magnitude = np.hypot(z.real, z.imag)
    unit = compose(z.real / magnitude, z.imag / magnitude)
    return np.where(magnitude == 0, np.zeros_like(unit), unit)


def rsqrt(z: Array) -> Array:
    """Reciprocal square root; (inf, nan) at 0, as XLA has it."""
    return divide(np.ones_like(z), np.sqrt(z))


def tanh(z: Array) -> Array:
    """Hyperbolic tangent; an angle that is not finite gives NaN in both parts, as XLA has it.

    (C23 keeps the zero real part of such a number.)
    """
    endless = (z.real == 0) & ~np.isfinite(z.imag)
    return np.where(endless, compose(z.imag - z.imag, z.imag - z.imag), np.tanh(z))


def tan(z: Array) -> Array:
    """Tangent: tanh(i z) = i tan(z)."""
    turned = tanh(compose(-z.imag, z.real))
    return compose(turned.imag, -turned.real)


def expm1(z: Array) -> Array:
    """exp(z) - 1 without cancellation: expm1(a)cos(b) - 2 sin(b/2)^2, and exp(a)sin(b)."""
    half = np.sin(z.imag / 2)
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * half * half
    imag = np.where(z.imag == 0, z.imag, np.exp(z.real) * np.sin(z.imag))
    return compose(real, imag)


def log1p(z: Array) -> Array:
    """log(1 + z); near 0 the real part is log1p(a(a + 2) + b^2)/2."""
    a, b = z.real, z.imag
    near = np.maximum(np.abs(a), np.abs(b)) < 0.5
    small_a, small_b = np.where(near, a, 0), np.where(near, b, 0)
    real = np.log1p(_near_one(small_a, small_b)) / 2
    return compose(np.where(near, real, np.log(np.hypot(a + 1, b))), np.arctan2(b, a + 1))


def _near_one(a: Array, b: Array) -> Array:
    """|1 + a + bi|^2 - 1 = 2a + a^2 + b^2, whose terms may cancel to almost nothing.

    The squares are split into exact products, and the sum keeps what each addition rounds off
    (Dekker's split, Knuth's two-sum).
    """
    total, lost = 2 * a, np.zeros_like(a)
    for part in (a, b):
        high, low = _halves(part)
        for term in (high * high, 2 * high * low, low * low):
            added = total + term
            kept = added - total
            lost = lost + ((total - (added - kept)) + (term - kept))
            total = added
    return np.asarray(total + lost)


def _halves(x: Array) -> tuple[Array, Array]:
    """Two numbers of half the precision whose sum is ``x``."""
    factor = x.dtype.type(2 ** ((np.finfo(x.dtype).nmant + 2) // 2) + 1)
    high = factor * x - (factor * x - x)
    return high, x - high


def log2(z: Array) -> Array:
    """Logarithm to base two."""
    logarithm = np.log(z)
    base = np.log(logarithm.real.dtype.type(2))
    return compose(logarithm.real / base, logarithm.imag / base)


def exp2(z: Array) -> Array:
    """Two to the power of z."""
    base = np.log(z.real.dtype.type(2))
    return np.exp(compose(z.real * base, z.imag * base))


def cbrt(z: Array) -> Array:
    """Principal cube root; 0 for 0."""
    logarithm = np.log(z)
    root = np.exp(compose(logarithm.real / 3, logarithm.imag / 3))
    return np.where(z == 0, np.zeros_like(z), root)


def logistic(z: Array) -> Array:
    """1 / (1 + exp(-z)).

    Near the poles, at odd multiples of pi i, 1 and exp(-x) cos(y) cancel: their sum is taken as
    (1 - exp(-x)) + 2 exp(-x) cos(y/2)^2 there.
    """
    grown = np.exp(-z)
    with np.errstate(all="ignore"):
        uncancelled = 2 * np.exp(-z.real) * np.cos(z.imag / 2) ** 2 - np.expm1(-z.real)
        cancels = np.isfinite(uncancelled) & (np.cos(z.imag) < -0.5)
    real = np.where(cancels, uncancelled, 1 + grown.real)
    return divide(np.ones_like(z), compose(real, grown.imag))


def power(x: Array, y: Array) -> Array:
    """exp(y log x); 1 where y is 0, and 0 where x is 0 and y has a positive real part."""
    result = np.exp(multiply(y, np.log(x)))
    zero_base = (x == 0) & (y.real > 0)
    result = np.where(zero_base, np.zeros_like(result), result)
    return np.where(y == 0, np.ones_like(result), result)


def precedes(x: Array, y: Array) -> Array:
    """Where x comes before y, by real and then by imaginary part."""
    return (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
