"""Computations of scalars: reducers, comparators, selections, bodies of map and loops.

Reducers come in the spelling that a backend recognises and in others that mean the same: operands
swapped, within a call, by another opcode, around a constant that changes nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.testing.draw import Draw

Node = HloInstruction
Combine = Callable[[HloBuilder, Node, Node], Node]
"""Code that combines two scalars; associative and commutative up to rounding."""


def plain(opcode: str) -> Combine:
    """One opcode."""
    return lambda b, x, y: b.op(opcode, x, y)


def _swapped(combine: Combine) -> Combine:
    return lambda b, x, y: combine(b, y, x)


def _in_call(d: Draw, combine: Combine, dtype: PrimitiveType) -> Combine:
    scalar = array(dtype)
    inner = d.computation(lambda b: combine(b, b.parameter(scalar), b.parameter(scalar)), "inner")
    return lambda b, x, y: b.op("call", x, y, to_apply=inner)


def _difference(b: HloBuilder, x: Node, y: Node) -> Node:
    """x - (-y)."""
    return b.op("subtract", x, b.op("negate", y))


def _larger(b: HloBuilder, x: Node, y: Node) -> Node:
    return b.op("select", b.op("compare", x, y, direction="GE"), x, y)


def _smaller(b: HloBuilder, x: Node, y: Node) -> Node:
    return b.op("select", b.op("compare", x, y, direction="LT"), x, y)


def _at_least_one(b: HloBuilder, x: Node, y: Node) -> Node:
    """max(max(x, y), 1): a constant within, the same however often it is applied."""
    one = b.constant(1, x.shape.element_type)
    return b.op("maximum", b.op("maximum", x, y), one)


def _neither(b: HloBuilder, x: Node, y: Node) -> Node:
    """not (not x and not y)."""
    return b.op("not", b.op("and", b.op("not", x), b.op("not", y)))


def _masked(b: HloBuilder, x: Node, y: Node) -> Node:
    return b.op("and", b.op("or", x, y), b.constant(5, x.shape.element_type))


def _combine(d: Draw, dtype: PrimitiveType) -> Combine:
    if dtype is dt.PRED:
        found = d.pick((plain("and"), plain("or"), plain("xor"), plain("maximum"), _neither))
    elif dtype.is_complex:
        found = d.pick((plain("add"), plain("multiply"), _difference))
    else:
        choices = [plain("add"), plain("add"), plain("maximum"), plain("minimum")]
        choices.append(plain("multiply"))
        if dtype.is_integral:
            choices += [plain("and"), plain("or"), plain("xor"), _larger, _smaller, _neither]
            if dtype.bits >= 4:
                choices += [_at_least_one, _masked]
        elif dtype.bits >= 16:
            choices += [_difference, _at_least_one]
        found = d.pick(choices)
    chosen: Combine = found
    return chosen


def reducer(d: Draw, dtype: PrimitiveType) -> HloComputation:
    """Takes two scalars of a type and gives one."""
    return _as_computation(d, _spelled(d, _combine(d, dtype), dtype), dtype)


def known_reducer(d: Draw, dtype: PrimitiveType, opcodes: Sequence[str]) -> HloComputation:
    """One of these opcodes, in some spelling."""
    return _as_computation(d, _spelled(d, plain(d.pick(opcodes)), dtype), dtype)


def _spelled(d: Draw, combine: Combine, dtype: PrimitiveType) -> Combine:
    if d.chance(0.15):
        combine = _swapped(combine)
    return _in_call(d, combine, dtype) if d.chance(0.15) else combine


def _as_computation(d: Draw, combine: Combine, dtype: PrimitiveType) -> HloComputation:
    scalar = array(dtype)
    return d.computation(lambda b: combine(b, b.parameter(scalar), b.parameter(scalar)))


def replacement(d: Draw, dtype: PrimitiveType) -> HloComputation:
    """The second of two scalars."""
    scalar = array(dtype)

    def build(b: HloBuilder) -> Node:
        b.parameter(scalar)
        return b.parameter(scalar)

    return d.computation(build)


def variadic_reducer(d: Draw, dtypes: Sequence[PrimitiveType]) -> HloComputation:
    """Reduces several arrays at once, each by a reducer of its own."""
    combines = [_spelled(d, _combine(d, t), t) for t in dtypes]

    def build(b: HloBuilder) -> Node:
        left = [b.parameter(array(t)) for t in dtypes]
        right = [b.parameter(array(t)) for t in dtypes]
        pairs = zip(combines, left, right, strict=True)
        return b.op("tuple", *(c(b, x, y) for c, x, y in pairs))

    return d.computation(build)


def largest_with_index(d: Draw, dtype: PrimitiveType) -> HloComputation:
    """The larger of two values with its index; the lower index where they are equal."""

    def build(b: HloBuilder) -> Node:
        a, i = b.parameter(array(dtype)), b.parameter(array(dt.S32))
        c, j = b.parameter(array(dtype)), b.parameter(array(dt.S32))
        ahead = b.op("compare", a, c, direction="GT")
        tie = b.op(
            "and", b.op("compare", a, c, direction="EQ"), b.op("compare", i, j, direction="LT")
        )
        keep = b.op("or", ahead, tie)
        return b.op("tuple", b.op("select", keep, a, c), b.op("select", keep, i, j))

    return d.computation(build)


def comparator(d: Draw, dtypes: Sequence[PrimitiveType], *, second: bool) -> HloComputation:
    """Orders by the first values, then perhaps by the second ones; floats in total order."""
    direction = d.pick(("LT", "GT"))
    second = second and d.chance(0.4)
    flipped = dtypes[0].is_signed and d.chance(0.2)

    def build(b: HloBuilder) -> Node:
        x, y, *rest = [b.parameter(array(t)) for t in dtypes for _ in range(2)]
        if flipped:
            x, y = b.op("not", x), b.op("not", y)
        before = _ordered(b, x, y, direction)
        if not second:
            return before
        tie = b.op("not", b.op("or", before, _ordered(b, y, x, direction)))
        return b.op("or", before, b.op("and", tie, _ordered(b, rest[0], rest[1], "LT")))

    return d.computation(build)


def _ordered(b: HloBuilder, x: Node, y: Node, direction: str) -> Node:
    kind = "TOTALORDER" if x.shape.element_type.is_float else None
    return b.op("compare", x, y, direction=direction, type=kind)


def selection(d: Draw, dtype: PrimitiveType) -> HloComputation:
    """Whether the first of two scalars is kept, for select-and-scatter."""
    scalar = array(dtype)
    direction = d.pick(("GE", "GE", "LE", "GT", "LT"))
    return d.computation(
        lambda b: b.op("compare", b.parameter(scalar), b.parameter(scalar), direction=direction)
    )


_INTEGER_OPS = ("add", "subtract", "multiply", "and", "or", "xor", "maximum", "minimum")
_FLOAT_OPS = ("add", "subtract", "multiply", "maximum", "minimum")
_COMPLEX_OPS = ("add", "subtract", "multiply")
_PRED_OPS = ("and", "or", "xor")
_UNARY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"float": ("negate", "abs"), "integer": ("negate", "not"), "complex": ("negate",)}
)


def scalar_function(d: Draw, dtypes: Sequence[PrimitiveType]) -> HloComputation:
    """Any function of scalars that gives one of the first one's type: a few elementwise steps."""
    dtype = dtypes[0]

    def build(b: HloBuilder) -> Node:
        given = [b.parameter(array(t)) for t in dtypes]
        values = [x if x.shape.element_type is dtype else _converted(b, x, dtype) for x in given]
        for _ in range(d.integer(1, 5)):
            values.append(_scalar_step(d, b, values, dtype))
        return values[-1]

    return d.computation(build)


def _converted(b: HloBuilder, x: Node, dtype: PrimitiveType) -> Node:
    if x.shape.element_type.is_complex and not dtype.is_complex:
        x = b.op("real", x)
    return b.op("convert", x, shape=array(dtype))


def _scalar_step(d: Draw, b: HloBuilder, values: Sequence[Node], dtype: PrimitiveType) -> Node:
    x, y = d.pick(values), d.pick(values)
    if d.chance(0.2):
        y = b.constant(1, dtype)
    if dtype is dt.PRED:
        return b.op(d.pick(_PRED_OPS), x, y)
    if d.chance(0.2):
        family = "complex" if dtype.is_complex else "float" if dtype.is_float else "integer"
        return b.op(d.pick(_UNARY[family]), x)
    if dtype.is_integral and d.chance(0.2):
        return b.op("select", b.op("compare", x, y, direction="LT"), x, y)
    operations = _INTEGER_OPS if dtype.is_integral else _FLOAT_OPS
    return b.op(d.pick(_COMPLEX_OPS if dtype.is_complex else operations), x, y)
