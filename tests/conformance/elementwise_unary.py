"""Elementwise opcodes of one operand: every opcode in every element type that it takes.

Each cell runs on 33x37 elements, which fill no tile or vector evenly: once ordinary numbers, legal
for the opcode, and once every special value of the type and random bits. Ranks 0 to 6, empty and
degenerate shapes and layouts are varied for one exact and one inexact opcode.
"""

from collections.abc import Iterator

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import Build, Case, special
from xladev.testing.conformance.cells import Node, cells, elementwise, of_type

DIMS = (33, 37)
UNARY = tuple(
    name
    for name, op in OPSET.items()
    if op.elementwise and op.arity == 1 and name not in ("convert", "bitcast-convert", "copy")
    and not any(a.required for a in op.attrs)
)  # fmt: skip

SHAPES = {
    "scalar": (), "one": (1,), "vector": (1025,), "prime": (1021,), "row": (1, 130),
    "column": (130, 1), "rank3": (3, 17, 19), "rank4": (2, 3, 5, 18), "rank5": (2, 3, 1, 5, 17),
    "rank6": (2, 1, 3, 2, 5, 7), "empty": (0,), "empty-middle": (3, 0, 5), "ones6": (1,) * 6,
    "large": (257, 513),
}  # fmt: skip

LAYOUTS = {
    "01": (33, 37), "021": (5, 6, 7), "102": (5, 6, 7), "120": (5, 6, 7), "012": (5, 6, 7),
    "0231": (3, 4, 5, 6), "3012": (3, 4, 5, 6), "1302": (3, 4, 5, 6),
}  # fmt: skip


def shapes() -> Iterator[Case]:
    for opcode, dtype in (("negate", dt.F32), ("tanh", dt.F32), ("not", dt.S8), ("abs", dt.BF16)):
        for name, dims in SHAPES.items():
            program = elementwise(opcode, 1, dims)
            yield Case(
                f"{opcode}-{dtype}-{name}",
                of_type(program, dtype),
                opcode,
                dtype.name,
                ("shape",),
            )


def laid_out(
    opcode: str, dims: tuple[int, ...], source: Layout | None, target: Layout | None
) -> Build:
    def program(b: HloBuilder) -> Node:
        x = b.parameter(array(dt.F32, dims, layout=source))
        return b.op(opcode, x, shape=array(dt.F32, dims, layout=target))

    return program


def layouts() -> Iterator[Case]:
    for opcode in ("negate", "exponential"):
        for name, dims in LAYOUTS.items():
            layout = Layout(tuple(int(d) for d in name))
            for role, pair in {
                "in": (layout, None), "out": (None, layout), "both": (layout, layout)
            }.items():  # fmt: skip
                yield Case(
                    f"{opcode}-f32-layout-{name}-{role}",
                    laid_out(opcode, dims, *pair),
                    opcode,
                    "f32",
                    ("layout",),
                )


CASES = (
    *(c for o in UNARY for c in cells(o, elementwise(o, 1, DIMS), inputs=special)),
    *shapes(),
    *layouts(),
)
