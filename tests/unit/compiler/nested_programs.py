"""Random programs of loops, branches and calls within each other, on small integer arrays.

Tuples are nested, values pass through unchanged, are used twice, or not at all; arrays are changed
in place. Integers leave no room for rounding: results are equal or wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.shape import Shape, array, tuple_of

VECTOR, MATRIX, NUMBER = array(dt.S32, (4,)), array(dt.S32, (2, 2)), array(dt.S32)
FLOATS, EMPTY, TRUTH = array(dt.F32, (4,)), array(dt.S32, (0,)), array(dt.PRED)
DEEPEST = 3


def nested_program(seed: int) -> HloModule:
    """The program of a seed."""
    draw = random.Random(seed)
    body = Body(draw, HloBuilder("nested"), 0)
    for _ in range(draw.randrange(1, 4)):
        body.keep(body.b.parameter(body.shape(1) if draw.random() < 0.3 else VECTOR))
    body.steps(draw.randrange(2, 9))
    results = [body.shape() if draw.random() < 0.4 else VECTOR for _ in range(draw.randrange(1, 5))]
    root = body.rooted(tuple_of(*results))
    return with_unique_names(HloModule("nested", body.b.build(root)))


@dataclass
class Body:
    """One computation being made.

    Attributes:
        draw: makes the choices.
        b: holds the instructions.
        depth: how many computations are around it.
        values: what may be used.
    """

    draw: random.Random
    b: HloBuilder
    depth: int
    values: list[HloInstruction] = field(default_factory=list[HloInstruction])

    def keep(self, value: HloInstruction) -> HloInstruction:
        """Makes a value usable, and most of its parts."""
        self.values.append(value)
        for n in range(len(value.shape.tuple_shapes)):
            if self.draw.random() < 0.8:
                self.keep(self.b.op("get-tuple-element", value, index=n))
        return value

    def shape(self, level: int = 0) -> Shape:
        """A shape; a tuple in one of six cases, not nested deeper than two."""
        plain = self.draw.choices((VECTOR, NUMBER, MATRIX, FLOATS, EMPTY, TRUTH, None),
                                  (50, 15, 10, 5, 2, 3, 15))[0]  # fmt: skip
        if plain is not None or level == 2:
            return plain or VECTOR
        return tuple_of(*(self.shape(level + 1) for _ in range(self.draw.randrange(3))))

    def of(self, shape: Shape) -> HloInstruction:
        """A value of a shape: often the latest, sometimes a new one."""
        there = [v for v in self.values if v.shape.equal_ignoring_layout(shape)]
        if there and self.draw.random() > 0.05:
            return there[-1] if self.draw.random() < 0.5 else self.draw.choice(there)
        return self.keep(self._new(shape))

    def _new(self, shape: Shape) -> HloInstruction:
        if shape == TRUTH:
            return self.b.op("compare", self.of(NUMBER), self.of(NUMBER), direction="LT")
        if shape.is_tuple:
            return self.b.op("tuple", *map(self.of, shape.tuple_shapes))
        values = np.arange(shape.size).reshape(shape.dims) + self.draw.randrange(-3, 5)
        return self.b.constant(values, shape.element_type)

    def rooted(self, shape: Shape) -> HloInstruction:
        """A value to end with: tuples are made there and then, arrays copied or passed on."""
        if not shape.is_tuple:
            value = self.of(shape)
            return self.b.op("copy", value) if self.draw.random() < 0.7 else value
        if self.draw.random() < 0.1:
            return self.b.op("opt-barrier", self.of(shape))
        return self.b.op("tuple", *map(self.rooted, shape.tuple_shapes))

    def steps(self, count: int) -> None:
        """More values; computations are called where they are not too deep."""
        kinds = (*_PLAIN, *_CALLING, *_CALLING) if self.depth < DEEPEST else _PLAIN
        for _ in range(count):
            self.keep(self.draw.choice(kinds)(self))

    def inner(self, parameters: Sequence[Shape], count: int) -> Body:
        """The beginning of a computation that this one calls."""
        made = Body(self.draw, HloBuilder("inner"), self.depth + 1)
        for shape in parameters:
            made.keep(made.b.parameter(shape))
        made.steps(count)
        return made


def _scalar(opcode: str) -> HloComputation:
    b = HloBuilder("scalar")
    x, y = b.parameter(NUMBER), b.parameter(NUMBER)
    if opcode == "compare":
        return b.build(b.op("compare", x, y, direction="GT"))
    return b.build(b.op(opcode, x, y))


def _binary(g: Body) -> HloInstruction:
    opcode = g.draw.choice(("add", "subtract", "xor", "maximum", "multiply"))
    return g.b.op(opcode, g.of(VECTOR), g.of(VECTOR))


def _moved(g: Body) -> HloInstruction:
    if g.draw.random() < 0.5:
        return g.b.op("reverse", g.of(VECTOR), dimensions=(0,))
    return g.b.op("transpose", g.of(MATRIX), dimensions=(1, 0))


def _reshaped(g: Body) -> HloInstruction:
    shapes = (VECTOR, MATRIX)
    return g.b.op("reshape", g.of(g.draw.choice(shapes)), shape=g.draw.choice(shapes))


def _sorted(g: Body) -> HloInstruction:
    return g.b.op("sort", g.of(VECTOR), dimensions=(0,), to_apply=_scalar("compare"))


def _updated(g: Body) -> HloInstruction:
    part = g.of(VECTOR)
    if g.draw.random() < 0.5:
        part = g.b.op("dynamic-slice", part, g.of(NUMBER), dynamic_slice_sizes=(2,))
    return g.b.op("dynamic-update-slice", g.of(VECTOR), part, g.of(NUMBER))


def _scattered(g: Body) -> HloInstruction:
    index = g.b.op("reshape", g.of(VECTOR), shape=array(dt.S32, (4, 1)))
    return g.b.op(
        "scatter", g.of(VECTOR), index, g.of(VECTOR), to_apply=_scalar("add"),
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )  # fmt: skip


def _reduced(g: Body) -> HloInstruction:
    add = _scalar("add")
    return g.b.op("reduce", g.of(VECTOR), g.of(NUMBER), dimensions=(0,), to_apply=add)


def _grouped(g: Body) -> HloInstruction:
    return g.b.op("tuple", *(g.of(g.shape()) for _ in range(g.draw.randrange(1, 3))))


def _loop(g: Body) -> HloInstruction:
    """A loop of at most three rounds; its counter is anywhere in the state."""
    shapes = [g.shape() for _ in range(g.draw.randrange(1, 5))]
    at = g.draw.randrange(len(shapes) + 1)
    state = tuple_of(*shapes[:at], NUMBER, *shapes[at:])
    body = g.inner([state], g.draw.randrange(5))
    counter = body.b.op("get-tuple-element", body.values[0], index=at)
    following = body.b.op("add", counter, body.b.constant(1, dt.S32))
    parts = [body.rooted(s) for s in shapes]
    after = body.b.op("tuple", *parts[:at], following, *parts[at:])
    test = g.inner([state], g.draw.randrange(2))
    counter = test.b.op("get-tuple-element", test.values[0], index=at)
    limit = test.b.constant(g.draw.randrange(4), dt.S32)
    go_on = test.b.op("compare", counter, limit, direction="LT")
    begin = [g.of(s) for s in shapes]
    first = g.b.op("tuple", *begin[:at], g.b.constant(0, dt.S32), *begin[at:])
    return g.b.op("while", first, condition=test.b.build(go_on), body=body.b.build(after))


def _branches(g: Body) -> HloInstruction:
    result = g.shape()
    shapes = [g.shape() for _ in range(g.draw.choice((1, 2, 3)))]
    called = tuple(_ending(g.inner([s], g.draw.randrange(4)), result) for s in shapes)
    operands = [g.of(s) for s in shapes]
    if len(called) == 2 and g.draw.random() < 0.5:
        return g.b.op("conditional", g.of(TRUTH), *operands,
                      true_computation=called[0], false_computation=called[1])  # fmt: skip
    return g.b.op("conditional", g.of(NUMBER), *operands, branch_computations=called)


def _call(g: Body) -> HloInstruction:
    shapes = [g.shape() for _ in range(g.draw.randrange(1, 3))]
    called = _ending(g.inner(shapes, g.draw.randrange(1, 4)), g.shape())
    return g.b.op("call", *map(g.of, shapes), to_apply=called)


def _ending(body: Body, result: Shape) -> HloComputation:
    return body.b.build(body.rooted(result))


_Step = Callable[[Body], HloInstruction]
_PLAIN: tuple[_Step, ...] = (
    _binary, _binary, _moved, _reshaped, _sorted, _updated, _scattered, _reduced, _grouped,
)  # fmt: skip
_CALLING: tuple[_Step, ...] = (_loop, _loop, _branches, _call)
