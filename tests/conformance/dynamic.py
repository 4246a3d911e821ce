"""Dimensions whose size is known at run time only, up to a bound."""

from collections.abc import Iterator

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import array
from xladev.testing.conformance.case import Case, given
from xladev.testing.conformance.cells import Node, cells, combine


def measured(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x = b.parameter(array(dtype, (9, 5), dynamic=(True, False)))
    return b.op("get-dimension-size", x, dimensions=(0,))


def cut(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """The first seven rows."""
    x = b.parameter(array(dtype, (9, 5)))
    return b.op("set-dimension-size", x, b.constant(7, dt.S32), dimensions=(0,))


def reshaped(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x = b.parameter(array(dtype, (6, 4)))
    sizes = [b.constant(n, dt.S32) for n in (3, 8)]
    return b.op("dynamic-reshape", x, *sizes, shape=array(dtype, (3, 8)))


def summed(b: HloBuilder) -> Node:
    """What is beyond the live part takes no part in the sum."""
    x = b.parameter(array(dt.F32, (9, 5)))
    size = b.parameter(array(dt.S32))
    part = b.op("set-dimension-size", x, size, dimensions=(0,))
    zero = b.constant(0.0, dt.F32)
    return b.op("reduce", part, zero, dimensions=(0, 1), to_apply=combine("add", dt.F32))


def elementwise(b: HloBuilder) -> Node:
    x = b.parameter(array(dt.F32, (9, 5), dynamic=(True, False)))
    return b.op("multiply", b.op("negate", x), x)


X = np.arange(45, dtype=np.float32).reshape(9, 5)


def sums() -> Iterator[Case]:
    for size in (0, 1, 5, 9):
        yield Case(
            f"sum-of-{size}-rows", summed, "set-dimension-size", "f32", ("dynamic",),
            inputs=given([X, np.int32(size)]), expected=(X[:size].sum(),),
        )  # fmt: skip
        yield Case(
            f"square-of-{size}-rows", elementwise, "multiply", "f32", ("dynamic",),
            inputs=given([X[:size]]), expected=(-X[:size] * X[:size],),
        )  # fmt: skip


CASES = (
    *cells("get-dimension-size", measured, tags=("dynamic",)),
    *cells("set-dimension-size", cut, tags=("dynamic",)),
    *cells("dynamic-reshape", reshaped, tags=("dynamic",)),
    *sums(),
)
