"""Modules of any size, of the kinds that make a compiler's work grow faster than its input."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import SliceDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.shape import array, tuple_of

VECTOR = array(dt.F32, (8,))
MATRIX = array(dt.F32, (8, 8))
COUNTER = array(dt.S32)
_UNARY = ("negate", "exponential", "tanh", "sine", "abs")
_BINARY = ("add", "multiply", "subtract", "maximum", "divide")
Node = HloInstruction


def chain(count: int) -> HloModule:
    """One long chain in which every value is used again a little later."""
    b = HloBuilder("chain")
    values = [b.parameter(VECTOR), b.parameter(VECTOR)]
    for number in range(count):
        opcode = _BINARY[number % len(_BINARY)]
        values.append(b.op(opcode, values[-1], values[-2 - number % 7 % (len(values) - 1)]))
    return b.module(values[-1])


def fan_out(count: int) -> HloModule:
    """Very many users of a few values, joined by a tree of sums."""
    b = HloBuilder("fan_out")
    x, y = b.parameter(VECTOR), b.parameter(VECTOR)
    shared = b.op("sine", b.op("add", x, y))
    level = [b.op(_BINARY[n % 5], shared, (x, y)[n % 2]) for n in range(3, count // 4)]
    level += [b.op(_UNARY[n % 5], v) for n, v in enumerate(level)]
    while len(level) > 1:
        rest = level[len(level) // 2 * 2 :]
        level = [b.op("add", p, q) for p, q in zip(level[::2], level[1::2], strict=False)] + rest
    return b.module(level[0])


def tuples(count: int) -> HloModule:
    """Tuples of very many parts, made and taken apart again."""
    b = HloBuilder("tuples")
    width = max(count // 5, 1)
    shape = tuple_of(*[VECTOR] * width)
    parts = _parts(b, b.parameter(shape), width)
    for opcode in ("sine", "negate"):
        changed = [b.op(opcode, p) for p in parts]
        parts = _parts(b, b.op("opt-barrier", b.op("tuple", *changed)), width)
    return b.module(b.op("tuple", *parts))


def loops(count: int) -> HloModule:
    """Very many small loops and branches, each with computations of its own."""
    b = HloBuilder("loops")
    x, selector = b.parameter(VECTOR), b.parameter(array(dt.PRED))
    for number in range(max(count // 31, 1)):
        start = b.op("tuple", b.constant(0, dt.S32), x, x)
        iterations = 3 + number % 5
        made = b.op("while", start, condition=_until(iterations), body=_body(number))
        x = b.op("get-tuple-element", made, index=1)
        branch, other = _branch("sine"), _branch("cosine")
        argument = b.op("tuple", x, b.op("get-tuple-element", made, index=2))
        x = b.op(
            "conditional", selector, argument, argument,
            true_computation=branch, false_computation=other,
        )  # fmt: skip
    return with_unique_names(b.module(x))


def calls(count: int) -> HloModule:
    """Very many calls and reductions, each of a computation of its own."""
    b = HloBuilder("calls")
    x, zero = b.parameter(VECTOR), b.constant(0.0)
    for number in range(max(count // 12, 1)):
        x = b.op("call", x, x, to_apply=_callee(f"callee.{number}"))
        total = b.op("reduce", x, zero, dimensions=(0,), to_apply=_adder(f"adder.{number}"))
        x = b.op("add", x, b.op("broadcast", total, shape=VECTOR))
    return with_unique_names(b.module(x))


def movement(count: int) -> HloModule:
    """Reshapes, transposes, slices, concatenations and conversions, most of them in vain."""
    b = HloBuilder("movement")
    x = b.parameter(MATRIX)
    one = b.op("broadcast", b.constant(1.0), shape=MATRIX)
    for _ in range(max(count // 12, 1)):
        turned = b.op("transpose", x, dimensions=(1, 0))
        flat = b.op("reshape", b.op("sine", turned), shape=array(dt.F32, (64,)))
        halves = [b.op("slice", flat, slice=(SliceDim(s, s + 32),)) for s in (0, 32)]
        whole = b.op("concatenate", *halves, dimensions=(0,))
        wide = b.op("convert", whole, shape=array(dt.F64, (64,)))
        narrow = b.op("convert", b.op("negate", wide), shape=array(dt.F32, (64,)))
        square = b.op("reshape", narrow, shape=MATRIX)
        scaled = b.op("multiply", b.op("transpose", square, dimensions=(1, 0)), one)
        x = b.op("dot", scaled, turned, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    return b.module(x)


def mixed(count: int, seed: int = 0) -> HloModule:
    """A bit of everything, on operands drawn at random, with repeats."""
    draw = random.Random(seed)
    b = HloBuilder("mixed")
    values = [b.parameter(VECTOR) for _ in range(4)]
    weights, zero = b.parameter(MATRIX), b.constant(0.0)
    adder, callee = _adder("adder"), _callee("callee")
    for number in range(count):
        x, y = (draw.choice(values[-50:]) for _ in range(2))
        kind = number * 37 % 100 / 100
        if kind < 0.35:
            made = b.op(draw.choice(_UNARY), x)
        elif kind < 0.8:
            made = b.op(draw.choice(_BINARY), x, y)
        elif kind < 0.9:
            made = b.op("broadcast", b.constant(draw.choice([0.0, 1.0, 2.0])), shape=VECTOR)
        elif kind < 0.94:
            total = b.op("reduce", x, zero, dimensions=(0,), to_apply=adder)
            made = b.op("broadcast", total, shape=VECTOR)
        elif kind < 0.97:
            made = b.op("dot", x, weights, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
        else:
            made = b.op("call", x, y, to_apply=callee)
        values.append(made)
    return b.module(b.op("tuple", *values[-64:]))


KINDS: Mapping[str, Callable[[int], HloModule]] = MappingProxyType(
    {
        "calls": calls,
        "chain": chain,
        "fan-out": fan_out,
        "loops": loops,
        "mixed": mixed,
        "movement": movement,
        "tuples": tuples,
    }
)
"""A module of about so many instructions, by kind."""


def _parts(b: HloBuilder, whole: Node, width: int) -> list[Node]:
    return [b.op("get-tuple-element", whole, index=n) for n in range(width)]


def _adder(name: str) -> HloComputation:
    b = HloBuilder(name)
    return b.build(b.op("add", b.parameter(array(dt.F32)), b.parameter(array(dt.F32))))


def _callee(name: str) -> HloComputation:
    b = HloBuilder(name)
    x, y = b.parameter(VECTOR), b.parameter(VECTOR)
    return b.build(b.op("add", b.op("multiply", x, y), y))


def _until(iterations: int) -> HloComputation:
    b = HloBuilder("until")
    at = b.op("get-tuple-element", b.parameter(tuple_of(COUNTER, VECTOR, VECTOR)), index=0)
    return b.build(b.op("compare", at, b.constant(iterations, dt.S32), direction="LT"))


def _body(number: int) -> HloComputation:
    """Counts, and changes one vector by an invariant expression of another."""
    b = HloBuilder("body")
    at, x, held = _parts(b, b.parameter(tuple_of(COUNTER, VECTOR, VECTOR)), 3)
    constant = b.op("sine", held)
    after = b.op(_BINARY[number % 5], b.op("tanh", x), constant)
    following = b.op("add", at, b.constant(1, dt.S32))
    return b.build(b.op("tuple", following, after, held))


def _branch(opcode: str) -> HloComputation:
    b = HloBuilder("branch")
    x, y = _parts(b, b.parameter(tuple_of(VECTOR, VECTOR)), 2)
    return b.build(b.op("add", b.op(opcode, x), y))
