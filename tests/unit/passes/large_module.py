"""Large modules of everything that passes look at, for tests of growth."""

from __future__ import annotations

import random

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import array

VECTOR = array(dt.F32, (8,))
MATRIX = array(dt.F32, (8, 8))
_UNARY = ("negate", "exponential", "tanh", "sine", "abs")
_BINARY = ("add", "multiply", "subtract", "maximum", "divide")


def large_module(count: int, seed: int = 0) -> HloModule:
    """A module of about ``count`` instructions, with calls, reductions, products and repeats."""
    draw = random.Random(seed)
    b = HloBuilder("large")
    values = [b.parameter(VECTOR) for _ in range(4)]
    weights = b.parameter(MATRIX)
    adder, callee = _adder(), _callee()
    zero = b.constant(0.0)
    for _ in range(count):
        values.append(_next(b, draw, values, weights, zero, adder, callee))
    return b.module(b.op("tuple", *values[-64:]))


def _next(
    b: HloBuilder,
    draw: random.Random,
    values: list[HloInstruction],
    weights: HloInstruction,
    zero: HloInstruction,
    adder: HloComputation,
    callee: HloComputation,
) -> HloInstruction:
    x, y = (draw.choice(values[-50:]) for _ in range(2))
    kind = draw.random()
    if kind < 0.35:
        return b.op(draw.choice(_UNARY), x)
    if kind < 0.8:
        return b.op(draw.choice(_BINARY), x, y)
    if kind < 0.9:
        return b.op("broadcast", b.constant(draw.choice([0.0, 1.0, 2.0])), shape=VECTOR)
    if kind < 0.94:
        total = b.op("reduce", x, zero, dimensions=(0,), to_apply=adder)
        return b.op("broadcast", total, shape=VECTOR)
    if kind < 0.97:
        return b.op("dot", x, weights, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
    return b.op("call", x, y, to_apply=callee)


def _adder() -> HloComputation:
    b = HloBuilder("adder")
    scalar = array(dt.F32)
    return b.build(b.op("add", b.parameter(scalar), b.parameter(scalar)))


def _callee() -> HloComputation:
    b = HloBuilder("callee")
    x, y = b.parameter(VECTOR), b.parameter(VECTOR)
    return b.build(b.op("add", b.op("multiply", x, y), y))
