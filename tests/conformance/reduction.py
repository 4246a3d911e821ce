"""reduce, reduce-window, select-and-scatter, map, scan, sort and topk: types and attributes.

Reducers come in every opcode that combines two values. Sums are held to their terms' rounding in
any order; extremes, logic and integers are exact.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import FLOATS, INTEGERS, PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import Case, cuttable, given, ordinary, special
from xladev.testing.conformance.cells import (
    Node,
    Template,
    cells,
    combine,
    of_type,
    scalar_computation,
)

Dims = tuple[int, ...]
Window = tuple[WindowDim, ...]


def reduce(sizes: Dims, dims: Dims, opcode: str = "", layout: Dims = ()) -> Template:
    """By one opcode; without one by addition, of truth values by or."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shape = array(dtype, sizes, layout=Layout(layout) if layout else None)
        x, init = b.parameter(shape), b.parameter(array(dtype))
        body = combine(opcode or ("or" if dtype is dt.PRED else "add"), dtype)
        return b.op("reduce", x, init, dimensions=dims, to_apply=body)

    return template


REDUCTIONS: dict[str, tuple[Dims, Dims]] = {
    "rows": ((33, 65), (1,)), "columns": ((33, 65), (0,)), "all": ((17, 33), (0, 1)),
    "middle": ((5, 33, 7), (1,)), "outer-inner": ((5, 7, 33), (0, 2)), "none": ((5, 7), ()),
    "vector": ((1025,), (0,)), "scalar": ((), ()), "of-empty": ((0, 5), (0,)),
    "to-empty": ((5, 0), (0,)), "ones": ((1, 1, 1), (0, 2)), "rank5": ((2, 3, 4, 5, 3), (1, 3)),
    "rank6": ((2, 1, 3, 2, 5, 4), (0, 2, 5)), "long": ((3, 4099), (1,)),
}  # fmt: skip
REDUCERS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
SOME = (dt.F32, dt.S32, dt.PRED, dt.BF16, dt.U8, dt.C64)


def reductions() -> Iterator[Case]:
    for name, (sizes, dims) in REDUCTIONS.items():
        for opcode in ("add", "maximum"):
            made = reduce(sizes, dims, opcode)
            yield from cells("reduce", made, types=(dt.F32, dt.S32), suffix=f"-{opcode}-{name}")
    for opcode in REDUCERS:
        made = reduce((9, 33), (1,), opcode)
        # products leave the range of their type in one order and not in another
        drawn = ordinary if opcode == "multiply" else special
        yield from cells("reduce", made, types=SOME, suffix=f"-by-{opcode}", inputs=drawn)
    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)):
        made = reduce((5, 6, 17), (1,), "add", order)
        name = "".join(map(str, order))
        yield from cells("reduce", made, types=(dt.F32,), suffix=f"-layout-{name}")


def long_sums() -> Iterator[Case]:
    """Sums that stagnate, or drift off, where the sum so far is kept in too few digits."""
    for dtype, count, value in (
        (dt.BF16, 4099, 1.0),
        (dt.F16, 4099, 1.0),
        (dt.F32, 1_000_003, 0.1),
    ):
        yield cuttable(partial(long_sum, dtype, count, value))


def long_sum(dtype: PrimitiveType, count: int, value: float, factor: int) -> Case:
    terms = np.full(count // factor, value, dtype.np)
    return Case(
        f"reduce-{dtype}-add-{count}-alike",
        of_type(reduce(terms.shape, (0,), "add"), dtype), "reduce", dtype.name,
        ("accuracy",), inputs=given([terms, dtype.np.type(0)]),
    )  # fmt: skip


def by_size(b: HloBuilder, x: Node, y: Node) -> Node:
    """The one of greater size; of equal ones the greater."""
    bx, by = b.op("abs", x), b.op("abs", y)
    larger = b.op("compare", bx, by, direction="GT")
    equal = b.op("compare", bx, by, direction="EQ")
    other = b.op("select", equal, b.op("maximum", x, y), y)
    return b.op("select", larger, x, other)


def largest_size(b: HloBuilder, x: Node, y: Node) -> Node:
    """A maximum, but not of the parameters."""
    return b.op("maximum", b.op("abs", x), b.op("abs", y))


def both_ends(b: HloBuilder, *values: Node) -> Node:
    low, high, x, y = values
    return b.op("tuple", b.op("minimum", low, x), b.op("maximum", high, y))


def by_bits(b: HloBuilder, x: Node, y: Node) -> Node:
    """The one whose bits are the greater integer."""
    bits = [b.op("bitcast-convert", value, shape=array(dt.S32)) for value in (x, y)]
    return b.op("bitcast-convert", b.op("maximum", *bits), shape=array(dt.F32))


CUSTOM = {"by-size": by_size, "largest-size": largest_size, "by-bits": by_bits}


def custom() -> Iterator[Case]:
    """Reducers of several instructions, and of one array twice; over one element, too."""
    for name, body in CUSTOM.items():
        for dims in ((7, 33), (33, 7), (5, 1), (3, 1030)):

            def build(b: HloBuilder, body: Any = body, dims: Dims = dims) -> Node:
                reducer = scalar_computation(body, (dt.F32, dt.F32), "custom")
                x, init = b.parameter(array(dt.F32, dims)), b.constant(0.0, dt.F32)
                return b.op("reduce", x, init, dimensions=(1,), to_apply=reducer)

            yield Case(f"reduce-{name}-{dims[0]}x{dims[1]}", build, "reduce", "f32")
    for size in (1, 2, 33):

        def twice(b: HloBuilder, size: int = size) -> Node:
            reducer = scalar_computation(both_ends, (dt.F32,) * 4, "ends")
            x = b.parameter(array(dt.F32, (5, size)))
            inits = (b.constant(9.0, dt.F32), b.constant(-9.0, dt.F32))
            return b.op("reduce", x, x, *inits, dimensions=(1,), to_apply=reducer)

        yield Case(f"reduce-ends-of-{size}", twice, "reduce", "f32", ("variadic",))
        yield Case(f"reduce-ends-of-{size}-unchanged", twice, "reduce", "f32", ("variadic",),
                   options=("optimization_level=0",))  # fmt: skip


def windowed(window: Window, sizes: Dims, opcode: str = "") -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, init = b.parameter(array(dtype, sizes)), b.parameter(array(dtype))
        body = combine(opcode or ("or" if dtype is dt.PRED else "add"), dtype)
        return b.op("reduce-window", x, init, window=window, to_apply=body)

    return template


W = WindowDim
WINDOWS: dict[str, tuple[Window, Dims]] = {
    "pool2x2": ((W(2, 2), W(2, 2)), (8, 34)),
    "same3x3": ((W(3, 1, 1, 1), W(3, 1, 1, 1)), (9, 17)),
    "strided": ((W(3, 2, 1, 0), W(2, 3, 0, 2)), (11, 19)),
    "dilated": ((W(2, 1, 0, 0, 1, 3), W(3, 1, 2, 2, 1, 2)), (9, 17)),
    "base-dilated": ((W(2, 1, 1, 1, 2), W(3, 1, 0, 0, 3)), (5, 9)),
    "cumulative": ((W(33, 1, 32, 0),), (33,)),
    "cumulative-rows": ((W(1), W(17, 1, 16, 0)), (5, 17)),
    "cumulative-backward": ((W(80, 1, 0, 79),), (80,)),
    "cumulative-columns": ((W(70, 1, 69, 0), W(1)), (70, 17)),
    "long-rows": ((W(1), W(40, 1, 3, 0)), (3, 900)),
    "long-columns": ((W(21, 1, 4, 7, 1, 3), W(3)), (300, 18)),
    "wide": ((W(7, 1, 3, 3), W(9, 1, 4, 4)), (30, 40)),
    "negative": ((W(2, 1, -1, -1), W(2, 1, -2, 0)), (7, 9)),
    "nhwc": ((W(1), W(3, 2, 1, 1), W(3, 2, 1, 1), W(1)), (2, 9, 9, 5)),
    "whole": ((W(7), W(9)), (7, 9)),
    "rank1": ((W(5, 2),), (130,)),
    "too-big": ((W(9), W(2)), (5, 6)),
    "empty": ((W(2), W(2)), (0, 5)),
}


def windows() -> Iterator[Case]:
    for name, (window, sizes) in WINDOWS.items():
        for opcode, types in (("add", (dt.F32, dt.S32)), ("maximum", (dt.F32, dt.BF16))):
            made = windowed(window, sizes, opcode)
            yield from cells("reduce-window", made, types=types, suffix=f"-{opcode}-{name}")


def chosen(direction: str, window: Window, sizes: Dims) -> Template:
    """Where a window's chosen element is, the source's element is added."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, sizes))
        out = tuple(w.output_size(s) for w, s in zip(window, sizes, strict=True))
        source, init = b.parameter(array(dtype, out)), b.parameter(array(dtype))
        select = scalar_computation(
            lambda b, x, y: b.op("compare", x, y, direction=direction), (dtype, dtype), "select"
        )
        scatter = combine("or" if dtype is dt.PRED else "add", dtype)
        return b.op("select-and-scatter", x, source, init, window=window, select=select,
                    scatter=scatter)  # fmt: skip

    return template


POOLS: dict[str, tuple[str, Window, Dims]] = {
    "pool2x2": ("GE", (W(2, 2), W(2, 2)), (8, 18)),
    "overlapping": ("GE", (W(3, 2), W(3, 2)), (9, 17)),
    "padded": ("GT", (W(3, 2, 1, 1), W(2, 1, 0, 1)), (7, 9)),
    "least": ("LE", (W(4, 4),), (64,)),
    "nhwc": ("GE", (W(1), W(2, 2), W(2, 2), W(1)), (2, 6, 6, 3)),
}


def pools() -> Iterator[Case]:
    for name, pool in POOLS.items():
        made = chosen(*pool)
        yield from cells("select-and-scatter", made, types=(dt.F32, dt.S32), suffix=f"-{name}")


def mapped(count: int, sizes: Dims) -> Template:
    """x * y + x, of truth values x and y or x, element by element."""

    def function(b: HloBuilder, *given: Node) -> Node:
        x, y = given[0], given[-1]
        return b.op("add", b.op("multiply", x, y), x)

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        operands = [b.parameter(array(dtype, sizes)) for _ in range(count)]
        body = scalar_computation(function, (dtype,) * count, "function")
        return b.op("map", *operands, dimensions=tuple(range(len(sizes))), to_apply=body)

    return template


def maps() -> Iterator[Case]:
    for name, count, sizes in (
        ("one", 1, (33,)), ("three", 3, (5, 7)), ("scalar", 2, ()), ("empty", 2, (0, 3)),
    ):  # fmt: skip
        yield from cells("map", mapped(count, sizes), types=(dt.F32, dt.S32), suffix=f"-{name}")


def scanned(sizes: Dims, axis: int, opcode: str = "", **attrs: Any) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        part = array(dtype, sizes[:axis] + sizes[axis + 1 :])
        x, carry = b.parameter(array(dtype, sizes)), b.parameter(part)
        inner = HloBuilder("scanned")
        value, so_far = inner.parameter(part), inner.parameter(part)
        joined = inner.op(opcode or ("or" if dtype is dt.PRED else "add"), value, so_far)
        body = inner.build(inner.op("tuple", joined, joined))
        return b.op("scan", x, carry, dimensions=(axis,), num_carries=1, to_apply=body, **attrs)

    return template


SCANS: dict[str, tuple[Dims, int, str, dict[str, Any]]] = {
    "vector": ((33,), 0, "add", {}),
    "reverse": ((33,), 0, "add", {"is_reverse": True}),
    "inner": ((5, 17), 1, "multiply", {}),
    "middle-reverse": ((3, 9, 4), 1, "maximum", {"is_reverse": True}),
    "of-empty": ((0, 3), 0, "add", {}),
    "not-associative": ((9, 3), 0, "subtract", {"is_associative": "false"}),
}


def scans() -> Iterator[Case]:
    for name, (sizes, axis, opcode, attrs) in SCANS.items():
        made = scanned(sizes, axis, opcode, **attrs)
        yield from cells("scan", made, types=(dt.F32, dt.S32), suffix=f"-{name}")


def ordered_by(dtypes: tuple[PrimitiveType, ...], direction: str) -> HloComputation:
    """By the first array; floats in total order."""
    kind = "TOTALORDER" if dtypes[0].is_float else None

    def build(b: HloBuilder, *given: Node) -> Node:
        return b.op("compare", given[0], given[1], direction=direction, type=kind)

    return scalar_computation(build, [t for t in dtypes for _ in range(2)], "order")


def sort(
    sizes: Dims, axis: int, direction: str = "LT", others: tuple[PrimitiveType, ...] = (),
    stable: bool = True,
) -> Template:  # fmt: skip
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        dtypes = (dtype, *others)
        operands = [b.parameter(array(t, sizes)) for t in dtypes]
        body = ordered_by(dtypes, direction)
        return b.op("sort", *operands, dimensions=(axis,), is_stable=stable, to_apply=body)

    return template


SORTS: dict[str, Template] = {
    "descending": sort((5, 33), 1, "GT"),
    "columns": sort((33, 5), 0),
    "with-values": sort((4, 33), 1, "LT", (dt.S32,)),
    "with-two": sort((130,), 0, "GT", (dt.F32, dt.PRED)),
    "long": sort((4099,), 0),
    "one": sort((1,), 0),
    "empty": sort((3, 0), 1),
    "rank4": sort((2, 3, 17, 2), 2),
    "unstable": sort((65,), 0, stable=False),
}


def topk(sizes: Dims, k: int, largest: bool = True) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, sizes))
        return b.op("topk", x, k=k, largest=largest, is_stable=True)

    return template


TOPKS: dict[str, Template] = {
    "least": topk((5, 33), 4, False), "one": topk((7, 9), 1), "all": topk((3, 17), 17),
    "vector": topk((1025,), 10), "rank3": topk((2, 3, 33), 5), "none": topk((3, 5), 0),
}  # fmt: skip

CASES = (
    *cells("reduce", reduce((9, 33), (1,)), inputs=special),
    *reductions(),
    *long_sums(),
    *custom(),
    *cells("reduce-window", windowed(*WINDOWS["same3x3"])),
    *windows(),
    *cells("select-and-scatter", chosen(*POOLS["pool2x2"])),
    *pools(),
    *cells("map", mapped(2, (9, 17))),
    *maps(),
    *cells("scan", scanned((17, 3), 0)),
    *scans(),
    *cells("sort", sort((5, 33), 1), inputs=special, types=(*INTEGERS, *FLOATS, dt.PRED)),
    *(
        c
        for n, s in SORTS.items()
        for c in cells("sort", s, types=(dt.F32, dt.S32), suffix=f"-{n}")
    ),
    *cells("topk", topk((5, 33), 4), inputs=special),
    *(
        c
        for n, s in TOPKS.items()
        for c in cells("topk", s, types=(dt.F32, dt.S32), suffix=f"-{n}")
    ),
)
