"""Arithmetic: what is exact for integers and, where said, for IEEE floats.

Rules for floats keep every bit but those of NaN: ``x + (-0)`` is ``x`` and ``x + 0`` is not, since
``-0 + 0`` is ``0``. Powers are the exception, see `power_of_small_integer`.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import (
    Bits,
    Integer,
    Number,
    RealFloat,
    Splat,
    Unsigned,
    is_real_float,
    is_unsigned,
    splat_int,
)
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite
from xladev.passes.splats import splat_of

# Sums


@rewrite(m.Add(Number("x"), m.All(-0.0)))
def add_zero(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x + 0 = x for integers, x + (-0) = x for floats."""
    return x


@rewrite(m.Subtract(Number("x"), m.All(0)))
def subtract_zero(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x - 0 = x."""
    return x


@rewrite(m.Subtract(Integer("x"), m.Op("x")))
def subtract_itself(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x - x = 0 for integers."""
    return r.full_like(x, 0)


@rewrite(m.Add(Number("x"), m.Negate(m.Op("y"))))
def add_negated(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """x + (-y) = x - y."""
    return r.subtract(x, y)


@rewrite(m.Subtract(Number("x"), m.Negate(m.Op("y"))))
def subtract_negated(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """x - (-y) = x + y."""
    return r.add(x, y)


@rewrite(m.Subtract(m.Add(Integer("x"), m.Op("y")), m.Op("y")))
def subtract_addend(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """(x + y) - y = x for integers, which wrap."""
    return x


@rewrite(m.Add(m.Subtract(Integer("x"), m.Op("y")), m.Op("y")))
def add_subtrahend(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """(x - y) + y = x for integers, which wrap."""
    return x


# Products


@rewrite(
    m.Multiply(m.Op("x").where(lambda i: not i.shape.element_type.is_complex, "real"), m.All(1))
)
def multiply_one(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x * 1 = x."""
    return x


@rewrite(m.Multiply(Bits(), m.All(0, "zero")))
def multiply_zero(r: Rewriter, root: HloInstruction, zero: HloInstruction) -> HloInstruction:
    """x * 0 = 0 for integers."""
    return zero


@rewrite(m.Multiply(Number("x"), m.All(-1)))
def multiply_minus_one(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x * (-1) = -x."""
    return r.op("negate", x)


@rewrite(m.Multiply(m.Negate(Number("x")), m.Negate(m.Op("y"))))
def multiply_negated(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """(-x) * (-y) = x * y."""
    return r.multiply(x, y)


@rewrite(m.Divide(Number("x"), m.All(1)))
def divide_one(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x / 1 = x."""
    return x


@rewrite(m.Divide(Number("x"), m.All(-1)))
def divide_minus_one(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x / (-1) = -x; the least integer wraps in both."""
    return r.op("negate", x)


@rewrite(m.Divide(RealFloat("x"), Splat("c")))
def divide_power_of_two(
    r: Rewriter, root: HloInstruction, x: HloInstruction, c: HloInstruction
) -> HloInstruction | None:
    """x / 2^k = x * 2^-k, where both powers are normal numbers: the same number is rounded."""
    value = splat_of(c)
    assert value is not None
    number = float(value)
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return None
    with np.errstate(over="ignore"):
        inverse = np.asarray(1 / number).astype(value.dtype)
    normal = _least_normal(value.dtype)
    if not normal <= abs(float(inverse)) < math.inf or abs(number) < normal:
        return None
    return r.multiply(x, float(inverse))


def _least_normal(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_normal)  # type: ignore[no-untyped-call]


@rewrite(m.Opcode("divide", Unsigned("x"), Splat("c")))
def divide_unsigned(
    r: Rewriter, root: HloInstruction, x: HloInstruction, c: HloInstruction
) -> HloInstruction | None:
    """x / 2^k = x >> k for unsigned integers."""
    number = splat_int(c)
    if not number or number & (number - 1):
        return None
    return r.elementwise("shift-right-logical", x, number.bit_length() - 1)


@rewrite(m.Opcode("remainder", Unsigned("x"), Splat("c")))
def remainder_unsigned(
    r: Rewriter, root: HloInstruction, x: HloInstruction, c: HloInstruction
) -> HloInstruction | None:
    """x mod 2^k = x and 2^k - 1 for unsigned integers."""
    number = splat_int(c)
    if not number or number & (number - 1):
        return None
    return r.elementwise("and", x, number - 1)


@rewrite(m.Remainder(Integer("x"), m.All(1)))
def remainder_one(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x mod 1 = 0."""
    return r.full_like(x, 0)


_SMALL_POWERS = (0, 1, 2, 3)


@rewrite(m.Power(Number("x"), Splat("n")))
def power_of_small_integer(
    r: Rewriter, root: HloInstruction, x: HloInstruction, n: HloInstruction
) -> HloInstruction | None:
    """x^0 = 1, x^1 = x, x^2 = x x, x^3 = x x x, x^-1 = 1 / x.

    For floats these differ from `power` by its own tolerance: each step is rounded. Cubes are left
    to types in which two roundings are within it.
    """
    value = splat_of(n)
    assert value is not None
    number = float(value)
    if number == -1 and is_real_float(x):
        return r.divide(1, x)
    if number not in _SMALL_POWERS:
        return None
    if number == 3 and x.shape.element_type.is_narrow_float:
        return None
    result = r.full_like(x, 1) if number == 0 else x
    for _ in range(int(number) - 1):
        result = r.multiply(result, x)
    return result


# Signs


@rewrite(m.Negate(m.Negate(Number("x"))))
def negate_twice(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """-(-x) = x."""
    return x


@rewrite(m.Negate(m.Subtract(Integer("x"), m.Op("y"))))
def negate_difference(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """-(x - y) = y - x for integers; for floats, the zero of x - x would change its sign."""
    return r.subtract(y, x)


@rewrite(m.Abs(m.Opcode(("negate", "abs"), Number("x"))))
def abs_of_sign(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """|-x| = ||x|| = |x|."""
    return r.op("abs", x)


@rewrite(m.Opcode(("floor", "ceil", "round-nearest-afz", "round-nearest-even"), Number("x")))
def round_twice(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """Rounding what is whole already changes nothing."""
    return x if x.opcode in _ROUNDING else None


_ROUNDING = frozenset({"floor", "ceil", "round-nearest-afz", "round-nearest-even"})

# Extremes


@rewrite(m.Opcode(("maximum", "minimum"), m.Op("x"), m.Op("x")))
def extreme_of_itself(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """max(x, x) = min(x, x) = x."""
    return x


@rewrite(m.Opcode(("maximum", "minimum"), Number("x"), Splat("c")))
def extreme_of_limit(
    r: Rewriter, root: HloInstruction, x: HloInstruction, c: HloInstruction
) -> HloInstruction | None:
    """max(x, least) = min(x, greatest) = x; the other way round, the limit of an integer."""
    value = splat_of(c)
    assert value is not None
    is_maximum = root.opcode == "maximum"
    if is_real_float(x):
        return x if float(value) == (-math.inf if is_maximum else math.inf) else None
    bits = x.shape.element_type.bits
    least = 0 if is_unsigned(x) else -(1 << bits - 1)
    limits = (least, least + (1 << bits) - 1)
    if int(value) == limits[not is_maximum]:
        return x
    return c if int(value) == limits[is_maximum] else None


@rewrite(m.Maximum(m.Op("x"), m.Maximum(m.Op("x"), m.Op("y"), capture="inner")))
def maximum_again(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """max(x, max(x, y)) = max(x, y)."""
    return inner


@rewrite(m.Minimum(m.Op("x"), m.Minimum(m.Op("x"), m.Op("y"), capture="inner")))
def minimum_again(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """min(x, min(x, y)) = min(x, y)."""
    return inner


# Constants of chains

_ASSOCIATIVE = ("add", "multiply", "and", "or", "xor", "maximum", "minimum")


@rewrite(
    m.Opcode(
        _ASSOCIATIVE, m.Opcode(_ASSOCIATIVE, Bits("x"), Splat("a"), capture="inner"), Splat("b")
    )
)
def join_constants(
    r: Rewriter,
    root: HloInstruction,
    inner: HloInstruction,
    x: HloInstruction,
    a: HloInstruction,
    b: HloInstruction,
) -> HloInstruction | None:
    """(x op a) op b = x op (a op b) for integers, which wrap."""
    if inner.opcode != root.opcode or splat_of(x) is not None:
        return None
    return r.op(root.opcode, x, r.op(root.opcode, a, b))


ARITHMETIC: tuple[RewriteRule, ...] = (
    add_zero, subtract_zero, subtract_itself, add_negated, subtract_negated, subtract_addend,
    add_subtrahend, multiply_one, multiply_zero, multiply_minus_one, multiply_negated, divide_one,
    divide_minus_one, divide_power_of_two, divide_unsigned, remainder_one, remainder_unsigned,
    power_of_small_integer, negate_twice, negate_difference, abs_of_sign, round_twice,
    extreme_of_itself, extreme_of_limit, maximum_again, minimum_again, join_constants,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
