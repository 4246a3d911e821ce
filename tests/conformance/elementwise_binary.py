"""Elementwise opcodes of two or three operands, in every element type that they take.

Each cell meets ordinary numbers, every pair of special values (infinity times zero, division by
zero, the least integer by -1, shifts by the width and more, NaN against anything), and random bits.
"""

from collections.abc import Iterator

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array
from xladev.testing.conformance.case import Case, special
from xladev.testing.conformance.cells import Node, Template, cells, elementwise

DIMS = (33, 37)
NOT_PLAIN = ("compare", "stochastic-convert")
BINARY = tuple(
    n for n, op in OPSET.items() if op.elementwise and op.arity == 2 and n not in NOT_PLAIN
)
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def comparison(direction: str, kind: str | None = None) -> Template:
    return elementwise("compare", 2, DIMS, direction=direction, type=kind)


def select(b: HloBuilder, dtype: PrimitiveType) -> Node:
    condition = b.parameter(array(dt.PRED, DIMS))
    return b.op("select", condition, *(b.parameter(array(dtype, DIMS)) for _ in range(2)))


def clamp_by_scalars(b: HloBuilder, dtype: PrimitiveType) -> Node:
    low, x, high = (b.parameter(array(dtype, d)) for d in ((), DIMS, ()))
    return b.op("clamp", low, x, high)


def with_itself(opcode: str) -> Template:
    """Both operands are the same value."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, DIMS))
        return b.op(opcode, x, x)

    return template


def compares() -> Iterator[Case]:
    for direction in DIRECTIONS:
        suffix = f"-{direction.lower()}"
        yield from cells("compare", comparison(direction), inputs=special, suffix=suffix)
        yield from cells(
            "compare",
            comparison(direction, "TOTALORDER"),
            inputs=special,
            suffix=f"{suffix}-total",
            types=(dt.F32, dt.F64, dt.BF16, dt.F16),
        )


SHAPES = ((), (1,), (1025,), (3, 17, 19), (2, 1, 3, 2, 5, 7), (0,), (3, 0, 5))


def shapes() -> Iterator[Case]:
    for opcode, dtype in (("add", dt.F32), ("multiply", dt.S32), ("maximum", dt.BF16)):
        for dims in SHAPES:
            name = "x".join(map(str, dims)) or "scalar"
            yield from cells(
                opcode, elementwise(opcode, 2, dims), types=(dtype,), suffix=f"-{name}"
            )


CASES = (
    *(c for o in BINARY for c in cells(o, elementwise(o, 2, DIMS), inputs=special)),
    *compares(),
    *cells("select", select, inputs=special),
    *cells("clamp", elementwise("clamp", 3, DIMS), inputs=special),
    *cells("clamp", clamp_by_scalars, suffix="-scalar", types=(dt.F32, dt.S32, dt.BF16, dt.U8)),
    *(
        c
        for o in ("subtract", "divide", "multiply", "xor", "remainder")
        for c in cells(o, with_itself(o), inputs=special, types=(dt.F32, dt.S32), suffix="-itself")
    ),
    *shapes(),
)
