"""Recipes for control flow and for values that are grouped and passed on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import ARRAY_TYPES
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.testing.random_program import Draw, Recipe

_STATE = (dt.F32, dt.S32, dt.F64, dt.BF16, dt.U8, dt.C64)


def _while(d: Draw) -> HloInstruction:
    """Counts to a few, changing, swapping and passing on arrays."""
    x = d.any_value(_STATE)
    y = d.value(x.shape.element_type, x.shape.dims)
    counter = array(dt.S32)
    part = x.shape.without_layout()
    state = tuple_of(counter, part, part, part)
    turns, form = d.integer(0, 5), d.integer(0, 3)

    def condition(b: HloBuilder) -> HloInstruction:
        i = b.op("get-tuple-element", b.parameter(state), index=0)
        return b.op("compare", i, b.constant(turns, dt.S32), direction="LT")

    def body(b: HloBuilder) -> HloInstruction:
        s = b.parameter(state)
        i, p, q, r = (b.op("get-tuple-element", s, index=n) for n in range(4))
        following = b.op("add", i, b.constant(1, dt.S32))
        changed = b.op("subtract", p, q)
        forms = ((q, p, r), (changed, r, q), (r, changed, changed), (p, b.op("negate", r), p))
        return b.op("tuple", following, *forms[form])

    start = d.builder.op("tuple", d.builder.constant(0, dt.S32), x, y, x)
    before = d.computation(condition)
    loop = d.builder.op("while", start, condition=before, body=d.computation(body))
    inexact = x in d.inexact or y in d.inexact
    return _parts_kept(d, loop, inexact)


def _parts_kept(d: Draw, made: HloInstruction, inexact: bool) -> HloInstruction:
    """Takes a tuple apart; the last array is what counts as the result."""
    last = made
    for index, part in enumerate(made.shape.tuple_shapes):
        if part.is_array:
            last = d.keep(d.builder.op("get-tuple-element", made, index=index))
            if inexact or part.element_type.is_float or part.element_type.is_complex:
                d.inexact.add(last)
    return last


def _conditional(d: Draw) -> HloInstruction:
    value = d.any_value(_STATE)
    shape = value.shape.without_layout()
    branches = [d.computation(lambda b, n=n: _branch(b, shape, n)) for n in range(d.integer(1, 4))]
    if len(branches) == 2 and d.chance(0.5):
        chosen = d.value(dt.PRED, (), exact=True)
        return d.op(
            "conditional",
            chosen,
            value,
            value,
            true_computation=branches[0],
            false_computation=branches[1],
        )
    index = d.value(dt.S32, (), exact=True)
    operands = [value] * len(branches)
    return d.op("conditional", index, *operands, branch_computations=tuple(branches))


def _branch(b: HloBuilder, shape: Shape, number: int) -> HloInstruction:
    x = b.parameter(shape)
    opcode = ("negate", "copy", "add", "multiply")[number]
    return b.op(opcode, x) if number < 2 else b.op(opcode, x, x)


def _call(d: Draw) -> HloInstruction:
    value = d.any_value(_STATE)
    shape = value.shape.without_layout()
    other = d.value(value.shape.element_type, value.shape.dims)

    def body(b: HloBuilder) -> HloInstruction:
        x, y = b.parameter(shape), b.parameter(shape)
        return b.op("tuple", b.op("add", x, y), b.op("negate", x), y)

    return d.op("call", value, other, to_apply=d.computation(body))


def _barrier(d: Draw) -> HloInstruction:
    return d.op("opt-barrier", d.any_value(ARRAY_TYPES))


def _tuple(d: Draw) -> HloInstruction:
    parts = [d.any_value(ARRAY_TYPES) for _ in range(d.integer(1, 4))]
    return d.op("tuple", *parts)


CONTROL: Mapping[str, Recipe] = MappingProxyType(
    {
        "while": _while,
        "conditional": _conditional,
        "call": _call,
        "opt-barrier": _barrier,
        "tuple": _tuple,
    }
)
"""Recipe by opcode."""
