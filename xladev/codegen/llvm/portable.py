"""What most processors do in one instruction, for those that do not: the same bits by other means.

LLVM would call the mathematical library instead, element by element, and not every program has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType

from xladev.codegen.llvm.arithmetic import Arithmetic
from xladev.codegen.llvm.control import Control
from xladev.codegen.llvm.types import DOUBLE, FLOAT, I64, integer
from xladev.codegen.llvm.values import Value

_SPLITTER = float((1 << 27) + 1)
"""Times a double, it moves 26 of its 53 bits to where they can be cut off (Dekker, 1971)."""
_FAR = 110
"""How far a summand's exponent may be above the product's and its size still matter."""
_NEAR_ZERO = -120
"""How far below."""
_LARGE, _SMALL = 2.0**450, 2.0**-900
"""Numbers up to one, whose product is at least the other, are multiplied without loss."""
_INFINITE = 0x7FF << 52


Emitter = Callable[[Control, tuple[Value, ...]], Value]
"""Writes an intrinsic of some values of one type."""


def emit_fma(b: Control, args: tuple[Value, ...]) -> Value:
    """``x * y + z`` rounded once, of floats or doubles, in any number of lanes."""
    x, y, z = args
    return _fma_of_floats(b, x, y, z) if x.type.bits == 32 else _fma_of_doubles(b, x, y, z)


def _fma_of_floats(b: Arithmetic, x: Value, y: Value, z: Value) -> Value:
    """In doubles the product is exact; a sum that was rounded to odd may be rounded again."""
    x, y, z = (b.cast("fpext", v, DOUBLE) for v in (x, y, z))
    return b.cast("fptrunc", _sum_to_odd(b, b.fmul(x, y), z), FLOAT)


def _fma_of_doubles(b: Control, x: Value, y: Value, z: Value) -> Value:
    """The sum of product and summand is h + w, with w rounded to odd, so that it may be rounded
    once more (Boldo and Melquiond, 2008). Far from the ends of the range that is all.
    """
    product = b.fmul(x, y)
    is_usual = b.and_(b.fcmp("ole", b.fabs(x), _LARGE), b.fcmp("ole", b.fabs(y), _LARGE))
    is_usual = b.and_(is_usual, b.fcmp("ole", b.fabs(z), _LARGE))
    is_zero = b.or_(b.fcmp("oeq", x, 0.0), b.fcmp("oeq", y, 0.0))
    is_usual = b.and_(is_usual, b.or_(is_zero, b.fcmp("oge", b.fabs(product), _SMALL)))

    def usual() -> Sequence[Value]:
        h, w = _sum_in_parts(b, x, y, z)
        total = b.fadd(h, w)
        return [b.select(b.fcmp("oeq", total, 0.0), b.fadd(product, z), total)]

    def unusual() -> Sequence[Value]:
        return [_fma_of_any_doubles(b, x, y, z)]

    (result,) = b.branch(b.any(b.not_(is_usual)), unusual, usual)
    return result


def _sum_in_parts(b: Arithmetic, x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """Two numbers whose sum is ``x * y + z``, but for the second's last bit, which is odd."""
    high, low = _product(b, x, y)
    top, rest = _sum(b, z, low)
    h, middle = _sum(b, high, top)
    return h, _sum_to_odd(b, rest, middle)


def _fma_of_any_doubles(b: Arithmetic, x: Value, y: Value, z: Value) -> Value:
    """By numbers in [1, 2) and exponents of their own, so that nothing overflows on the way."""
    plain = _in_two_steps(b, x, y, z)
    special = b.or_(b.or_(_is_special(b, x), _is_special(b, y)), _is_special(b, z))
    (x, x_power), (y, y_power), (z, z_power) = (_split_exponent(b, v) for v in (x, y, z))
    power = b.add(x_power, y_power)
    apart = b.sub(z_power, power)
    far = b.icmp("sgt", apart, _FAR)
    base = b.select(far, b.sub(z_power, _FAR), power)
    apart = b.intrinsic("smax", b.intrinsic("smin", apart, _FAR), _NEAR_ZERO)
    h, w = _sum_in_parts(b, x, y, b.fmul(z, _power_of_two(b, apart)))
    total = _rounded_once(b, h, w, base)
    first = b.ashr(base, 1)
    total = b.fmul(total, _power_of_two(b, first))
    total = b.fmul(total, _power_of_two(b, b.sub(base, first)))
    return b.select(special, plain, total)


def _in_two_steps(b: Arithmetic, x: Value, y: Value, z: Value) -> Value:
    """``x * y + z`` where one of them is zero, infinite or no number.

    A product too small for any number but zero keeps its sign if zero is added.
    """
    product = b.fmul(x, y)
    is_kept = b.and_(b.fcmp("one", x, 0.0), b.fcmp("one", y, 0.0))
    is_kept = b.and_(is_kept, b.fcmp("oeq", z, 0.0))
    return b.select(is_kept, product, b.fadd(product, z))


def _rounded_once(b: Arithmetic, h: Value, w: Value, base: Value) -> Value:
    """``h + w``, rounded so that times ``2**base`` it need not be rounded, even if subnormal.

    A number is added whose last bit becomes the least that there is, and then taken away again.
    """
    least = _power_of_two(b, b.intrinsic("smax", b.sub(-1022, base), -1000))
    is_subnormal = b.fcmp("olt", b.fabs(h), least)
    grown = b.copysign(least, h)
    high, rest = _sum(b, grown, h)
    small = b.fsub(b.fadd(high, _sum_to_odd(b, rest, w)), grown)
    total = b.fadd(h, w)
    return b.select(is_subnormal, b.copysign(small, total), total)


def _is_special(b: Arithmetic, x: Value) -> Value:
    """True of zeros, infinities and NaNs."""
    magnitude = b.and_(b.bitcast(x, I64), (1 << 63) - 1)
    return b.icmp("uge", b.sub(magnitude, 1), _INFINITE - 1)


def _split_exponent(b: Arithmetic, x: Value) -> tuple[Value, Value]:
    """(m, n) with x = m 2**n and |m| in [1, 2), for finite x but zero."""
    tiny = b.fcmp("olt", b.fabs(x), 2.0**-1022)
    bits = b.bitcast(b.select(tiny, b.fmul(x, 2.0**54), x), I64)
    field = b.and_(b.lshr(bits, 52), 0x7FF)
    mantissa = b.or_(b.and_(bits, ~_INFINITE), 1023 << 52)
    bias = b.select(tiny, b.const(field.type, 1023 + 54), 1023)
    return b.bitcast(mantissa, DOUBLE), b.sub(field, bias)


def _power_of_two(b: Arithmetic, n: Value) -> Value:
    """2**n, in the range of normal exponents."""
    return b.bitcast(b.shl(b.add(n, 1023), 52), DOUBLE)


def _product(b: Arithmetic, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded product of two doubles and its error."""
    product = b.fmul(x, y)
    (x_high, x_low), (y_high, y_low) = _halves(b, x), _halves(b, y)
    error = b.fsub(b.fmul(x_high, y_high), product)
    error = b.fadd(b.fadd(error, b.fmul(x_high, y_low)), b.fmul(x_low, y_high))
    return product, b.fadd(error, b.fmul(x_low, y_low))


def _halves(b: Arithmetic, x: Value) -> tuple[Value, Value]:
    moved = b.fmul(x, _SPLITTER)
    high = b.fsub(moved, b.fsub(moved, x))
    return high, b.fsub(x, high)


def _sum(b: Arithmetic, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded sum and its error (Knuth)."""
    total = b.fadd(x, y)
    added = b.fsub(total, x)
    return total, b.fadd(b.fsub(x, b.fsub(total, added)), b.fsub(y, added))


def _sum_to_odd(b: Arithmetic, x: Value, y: Value) -> Value:
    """The sum of doubles; if it is not exact, the one of its neighbours whose last bit is 1."""
    total, error = _sum(b, x, y)
    bits = b.bitcast(total, I64)
    outward = b.icmp("sge", b.xor(bits, b.bitcast(error, I64)), 0)
    moved = b.add(bits, b.select(outward, b.const(bits.type, 1), -1))
    is_even = b.icmp("eq", b.and_(bits, 1), 0)
    inexact = b.and_(is_even, b.fcmp("one", error, 0.0))
    return b.bitcast(b.select(inexact, moved, bits), DOUBLE)


_Rounding = Callable[[Arithmetic, Value, Value], Value]
"""Of a magnitude below the limit, and that rounded to a whole number, ties to even."""


def _down(b: Arithmetic, magnitude: Value, whole: Value) -> Value:
    return b.fsub(whole, b.select(b.fcmp("ogt", whole, magnitude), b.const(whole.type, 1.0), 0.0))


def _away(b: Arithmetic, magnitude: Value, whole: Value) -> Value:
    down = _down(b, magnitude, whole)
    is_half = b.fcmp("oge", b.fsub(magnitude, down), 0.5)
    return b.fadd(down, b.select(is_half, b.const(whole.type, 1.0), 0.0))


def _even(_: Arithmetic, magnitude: Value, whole: Value) -> Value:
    return whole


_BY_MAGNITUDE: Mapping[str, _Rounding] = MappingProxyType(
    {"trunc": _down, "round": _away, "roundeven": _even, "rint": _even}
)
_BY_SIGN: Mapping[str, tuple[str, float]] = MappingProxyType(
    {"floor": ("ogt", -1.0), "ceil": ("olt", 1.0)}
)


def _emit_rounding(b: Arithmetic, name: str, x: Value) -> Value:
    """An intrinsic that rounds to a whole number.

    Adding what makes the last bit a whole number, and taking it away, rounds to even.
    """
    limit = 2.0 ** (23 if x.type.bits == 32 else 52)
    magnitude = b.fabs(x)
    whole = b.fsub(b.fadd(magnitude, limit), limit)
    if name in _BY_SIGN:
        beyond, step = _BY_SIGN[name]
        whole = b.copysign(whole, x)
        rounded = b.select(b.fcmp(beyond, whole, x), b.fadd(whole, step), whole)
    else:
        rounded = _BY_MAGNITUDE[name](b, magnitude, whole)
    return b.select(b.fcmp("olt", magnitude, limit), b.copysign(rounded, x), x)


def _rounding(name: str) -> Emitter:
    return lambda b, args: _emit_rounding(b, name, args[0])


ROUNDINGS = frozenset({*_BY_MAGNITUDE, *_BY_SIGN})
"""Intrinsics that round to a whole number."""


def _emit_extreme(b: Arithmetic, beyond: str, x: Value, y: Value) -> Value:
    """The larger or smaller of two; of zeros, the one with the sign that says so; NaN is kept."""
    left, right = (b.bitcast(v, integer(v.type.bits)) for v in (x, y))
    same = b.and_(left, right) if beyond == "ogt" else b.or_(left, right)
    chosen = b.select(b.fcmp(beyond, x, y), x, y)
    chosen = b.select(b.fcmp("oeq", x, y), b.bitcast(same, x.type.scalar()), chosen)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), chosen)


def _emit_number(b: Arithmetic, beyond: str, x: Value, y: Value) -> Value:
    """The same, but a number where only one is NaN."""
    left = b.select(b.fcmp("uno", x, x), y, x)
    right = b.select(b.fcmp("uno", y, y), x, y)
    return _emit_extreme(b, beyond, left, right)


def _emit_most(b: Arithmetic, beyond: str, x: Value) -> Value:
    """The largest or smallest lane, lane by lane."""
    lanes = [b.extract(x, n) for n in range(x.lanes)]
    return reduce(lambda one, other: _emit_extreme(b, beyond, one, other), lanes)


EMITTERS: Mapping[str, Emitter] = MappingProxyType(
    {
        "fma": emit_fma,
        "maximum": lambda b, args: _emit_extreme(b, "ogt", *args),
        "minimum": lambda b, args: _emit_extreme(b, "olt", *args),
        "maxnum": lambda b, args: _emit_number(b, "ogt", *args),
        "minnum": lambda b, args: _emit_number(b, "olt", *args),
        "vector.reduce.fmaximum": lambda b, args: _emit_most(b, "ogt", *args),
        "vector.reduce.fminimum": lambda b, args: _emit_most(b, "olt", *args),
        **{name: _rounding(name) for name in ROUNDINGS},
    }
)
"""By name of the intrinsic."""
