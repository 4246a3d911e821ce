"""Opcodes that compute nothing: constants, tuples, tokens, barriers, and parameters as results."""

from collections.abc import Iterator

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Literal
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import Case, special
from xladev.testing.conformance.cells import Node, Template, cells
from xladev.testing.random_inputs import wild_array

Dims = tuple[int, ...]


def constant(dims: Dims, layout: Dims = ()) -> Template:
    """NaN, infinities, extremes and random bits among ordinary numbers."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shape = array(dtype, dims).with_default_layout()
        if layout:
            shape = shape.with_layout(Layout(layout))
        value = wild_array(np.random.default_rng(7), shape)
        return b.op("constant", shape=shape, literal=Literal(shape, value))

    return template


def pair(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x, y = b.parameter(array(dtype, (5, 17))), b.parameter(array(dtype, (33,)))
    return b.op("tuple", y, x, y)


def nested(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x, y = b.parameter(array(dtype, (5, 17))), b.parameter(array(dtype, (33,)))
    inner = b.op("tuple", x, b.op("tuple"), y)
    return b.op("tuple", y, inner, b.op("tuple", inner))


def element(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x, y = b.parameter(array(dtype, (5, 17))), b.parameter(array(dtype, (33,)))
    inner = b.op("tuple", x, y)
    outer = b.op("tuple", inner, x)
    first = b.op("get-tuple-element", outer, index=0)
    return b.op("get-tuple-element", first, index=1)


def barrier(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x, y = b.parameter(array(dtype, (5, 17))), b.parameter(array(dtype, (33,)))
    return b.op("opt-barrier", b.op("tuple", x, y))


def after(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x = b.parameter(array(dtype, (5, 17)))
    token = b.op("after-all", b.op("after-all"), b.op("after-all"))
    return b.op("add-dependency", x, token)


def parameter(b: HloBuilder, dtype: PrimitiveType) -> Node:
    return b.parameter(array(dtype, (9, 33)))


SIZES: dict[str, Dims] = {
    "scalar": (), "vector": (130,), "empty": (0, 4), "rank5": (2, 1, 3, 2, 5), "large": (100, 101),
}  # fmt: skip


def constants() -> Iterator[Case]:
    for name, dims in SIZES.items():
        yield from cells("constant", constant(dims), types=(dt.F32, dt.S4), suffix=f"-{name}")
    for layout in ((0, 1), (1, 0)):
        made = constant((5, 17), layout)
        name = "".join(map(str, layout))
        yield from cells("constant", made, types=(dt.F32, dt.S8), suffix=f"-layout-{name}")


def many_results(b: HloBuilder) -> Node:
    """A parameter, itself again, and what is made of it: results must not share memory."""
    x = b.parameter(array(dt.F32, (33,)))
    y = b.op("negate", x)
    return b.op("tuple", x, y, x, y, b.op("constant", literal=_zero(), shape=array(dt.F32)))


def _zero() -> Literal:
    return Literal(array(dt.F32).with_default_layout(), np.zeros((), np.float32))


def empty_tuple(b: HloBuilder) -> Node:
    b.parameter(array(dt.F32, (3,)))
    return b.op("tuple")


def domain(b: HloBuilder) -> Node:
    return b.op("domain", b.parameter(array(dt.F32, (9,))))


CASES = (
    *cells("constant", constant((5, 33))),
    *constants(),
    *cells("tuple", pair, inputs=special),
    *cells("tuple", nested, types=(dt.F32, dt.S8), suffix="-nested"),
    *cells("get-tuple-element", element, inputs=special),
    *cells("opt-barrier", barrier, inputs=special),
    *cells("add-dependency", after, inputs=special),
    Case("after-all", lambda b: after(b, dt.F32), "after-all", "f32"),
    *cells("parameter", parameter, inputs=special),
    Case("results-share-nothing", many_results, "tuple", "f32"),
    Case("empty-tuple", empty_tuple, "tuple", "f32"),
)
