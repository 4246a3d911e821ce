"""Rounding to formats that have no element type, and rounding by random bits."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.numerics.casts import float_to_integer
from xladev.hlo.numerics.precision import narrow, widen

_IEEE_MANTISSA: Mapping[PrimitiveType, int] = {
    dt.F16: 10, dt.BF16: 7, dt.F32: 23, dt.F64: 52,
}  # fmt: skip
_AS_HALF = (dt.F8E5M2, dt.F8E5M2FNUZ)


def reduce_precision(array: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Each element rounded as if its format had these field widths (at most its own).

    Mantissas round to nearest even, magnitudes past the range become infinite, those below the
    least normal become zero. NaN stays. Other formats go by way of f32, and those whose range is
    that of f16 by way of f16: what is subnormal in a narrow format has all its digits there.
    """
    own = dt.by_numpy(array.dtype)
    if own not in _IEEE_MANTISSA:
        wide = array.astype(np.float16 if own in _AS_HALF else np.float32)
        reduced = reduce_precision(wide, exponent_bits, mantissa_bits)
        return narrow(reduced, array.dtype)
    bits = np.asarray(array).view(f"u{array.dtype.itemsize}")
    bits = _round_mantissa(bits, _IEEE_MANTISSA[own], mantissa_bits)
    bits = _limit_exponent(bits, own.bits, _IEEE_MANTISSA[own], exponent_bits)
    return np.where(np.isnan(array), array, bits.view(array.dtype))


def _round_mantissa(bits: Array, own: int, kept: int) -> Array:
    """To nearest even: add just under half of the last kept bit, plus that bit, then truncate."""
    if kept >= own:
        return bits
    number = bits.dtype.type
    last = number(1 << (own - kept))
    odd = (bits & last) >> number(own - kept)
    return (bits + ((last >> number(1)) - number(1)) + odd) & ~(last - number(1))


def _limit_exponent(bits: Array, width: int, mantissa: int, kept: int) -> Array:
    """Infinity where the exponent is past ``kept`` bits, zero where below its normals."""
    own = width - 1 - mantissa
    if kept >= own:
        return bits
    number = bits.dtype.type
    bias, kept_bias = (1 << (own - 1)) - 1, (1 << (kept - 1)) - 1
    sign = bits & number(1 << (width - 1))
    infinity = number(((1 << own) - 1) << mantissa)
    exponent = bits & infinity
    over = exponent > number((bias + kept_bias) << mantissa)
    under = exponent <= number((bias - kept_bias) << mantissa)
    return np.where(over, sign | infinity, np.where(under, sign, bits))


def stochastic_convert(array: Array, random: Array, target: PrimitiveType) -> Array:
    """Each element as one of its two neighbours in ``target``.

    The one farther from zero is taken where the random bits, as a fraction of their range, are
    less than the distance covered from the nearer one; what does not fit saturates, NaN as in a
    conversion.
    """
    if target.is_float:
        return _stochastic_float(widen(array), random, target)
    return _stochastic_integer(widen(array).astype(np.float64), random, target)


def _chance(random: Array) -> Array:
    """Random bits as a fraction in [0, 1), with the precision of long double."""
    bits = dt.by_numpy(random.dtype).bits
    return np.ldexp(widen(random).astype(np.longdouble), -bits)


def _stochastic_integer(values: Array, random: Array, target: PrimitiveType) -> Array:
    """Compares in fixed point: the fraction's digits beyond those of the random bits are dropped.

    Source: XLA's HloEvaluator, ``kStochasticConvert``.
    """
    magnitude = np.abs(values)
    whole = np.trunc(magnitude)
    bits = dt.by_numpy(random.dtype).bits
    fraction = np.trunc(np.ldexp((magnitude - whole).astype(np.longdouble), bits))
    moved = whole + (widen(random).astype(np.longdouble) < fraction)
    return float_to_integer(np.copysign(moved, values), target)


def _stochastic_float(values: Array, random: Array, target: PrimitiveType) -> Array:
    nearest = narrow(values, target.np)
    back = widen(nearest).astype(np.float64)
    largest = ml_dtypes.finfo(target.np).max  # type: ignore[no-untyped-call]
    outward = np.copysign(np.float64(largest), values).astype(target.np)  # some have no infinity
    inward = np.nextafter(nearest, np.zeros_like(nearest))
    toward_zero = np.where(np.abs(back) > np.abs(values), inward, nearest)
    away = np.nextafter(toward_zero, outward)
    low, high = (widen(x).astype(np.longdouble) for x in (toward_zero, away))
    covered = (values - low) / np.where(high == low, 1, high - low)
    chosen = np.where(_chance(random) < covered, away, toward_zero)
    return np.where(back == values, nearest, np.where(np.isfinite(values), chosen, nearest))
