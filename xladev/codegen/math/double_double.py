"""Numbers as unevaluated sums of two f64, about 106 bits, for the logarithm inside pow.

Each operation returns (high, low) with |low| at most about an ulp of high.
"""

from __future__ import annotations

from xladev.codegen.llvm import FunctionBuilder, Operand, Value

Double = tuple[Value, Value]


def fast_sum(b: FunctionBuilder, large: Operand, small: Value) -> Double:
    """The exact sum of two f64, |large| >= |small|."""
    total = b.fadd(large, small)
    return total, b.fsub(small, b.fsub(total, large))


def exact_sum(b: FunctionBuilder, x: Value, y: Value) -> Double:
    """The exact sum of two f64 of any size."""
    total = b.fadd(x, y)
    part = b.fsub(total, x)
    return total, b.fadd(b.fsub(x, b.fsub(total, part)), b.fsub(y, part))


def exact_product(b: FunctionBuilder, x: Value, y: Value) -> Double:
    """The exact product of two f64."""
    product = b.fmul(x, y)
    return product, b.fma(x, y, b.fneg(product))


def product(b: FunctionBuilder, x: Double, y: Double) -> Double:
    """The product, to about 2**-104."""
    high, low = exact_product(b, x[0], y[0])
    low = b.multiply_add(x[0], y[1], b.multiply_add(x[1], y[0], low))
    return fast_sum(b, high, low)


def quotient(b: FunctionBuilder, x: Value, y: Double) -> Double:
    """x / y of an f64 and a double, to about 2**-104."""
    high = b.fdiv(x, y[0])
    rest = b.fma(b.fneg(high), y[0], x)
    rest = b.multiply_add(b.fneg(high), y[1], rest)
    return fast_sum(b, high, b.fdiv(rest, y[0]))
