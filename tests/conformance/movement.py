"""Opcodes that move elements: every type, and every attribute in several values.

Nothing is computed, so results are exact in every type; NaN payloads may change.
"""

from collections.abc import Iterator
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import Build, Case, special
from xladev.testing.conformance.cells import Node, Template, cells

Dims = tuple[int, ...]


def one(opcode: str, dims: Dims, result: Dims | None = None, **attrs: Any) -> Template:
    """An opcode of one array; the result's sizes only where they are not inferred."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, dims))
        return b.op(opcode, x, shape=None if result is None else array(dtype, result), **attrs)

    return template


def pad(dims: Dims, *padding: Dims) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, fill = b.parameter(array(dtype, dims)), b.parameter(array(dtype))
        return b.op("pad", x, fill, padding=tuple(PadDim(*p) for p in padding))

    return template


def sliced(dims: Dims, *parts: Dims) -> Template:
    return one("slice", dims, slice=tuple(SliceDim(*p) for p in parts))


def concatenate(dimension: int, *operands: Dims) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        made = [b.parameter(array(dtype, dims)) for dims in operands]
        return b.op("concatenate", *made, dimensions=(dimension,))

    return template


def iota(dims: Dims, dimension: int) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        return b.op("iota", shape=array(dtype, dims), iota_dimension=dimension)

    return template


def laid_out(opcode: str, source: str, target: str, dims: Dims) -> Template:
    """A change of layout, or of what stands beside it."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, dims, layout=Layout(tuple(map(int, source)))))
        shape = array(dtype, dims, layout=Layout(tuple(map(int, target))))
        return b.op(opcode, x, shape=shape)

    return template


def bitcast(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x = b.parameter(array(dtype, (6, 35), layout=Layout((1, 0))))
    return b.op("bitcast", x, shape=array(dtype, (35, 6), layout=Layout((0, 1))))


BROADCASTS = {
    "scalar": ((), (5, 67), ()), "rows": ((67,), (5, 67), (1,)), "columns": ((5,), (5, 67), (0,)),
    "middle": ((7,), (3, 7, 5), (1,)), "two-of-four": ((3, 5), (2, 3, 4, 5), (1, 3)),
    "first-last": ((9, 4), (9, 33, 4), (0, 2)), "to-empty": ((3,), (3, 0), (0,)),
    "rank6": ((2, 3), (2, 2, 1, 3, 2, 2), (1, 3)), "same": ((4, 9), (4, 9), (0, 1)),
    "of-one": ((1,), (1025, 1), (1,)),
}  # fmt: skip
RESHAPES = {
    "flatten": ((5, 6, 7), (210,)), "split": ((1025,), (5, 205)), "to-scalar": ((1, 1), ()),
    "from-scalar": ((), (1, 1, 1)), "rank6": ((30, 8), (2, 3, 5, 2, 2, 2)),
    "ones": ((3, 1, 5, 1), (3, 5)),
    "regroup": ((6, 35), (10, 21)), "empty": ((0, 3), (5, 0)), "same": ((4, 5), (4, 5)),
}  # fmt: skip
TRANSPOSES = {
    "10": (33, 65), "01": (7, 9), "021": (5, 18, 33), "102": (5, 18, 33), "120": (5, 18, 33),
    "201": (5, 18, 33), "210": (5, 18, 33), "0213": (2, 17, 3, 19), "3210": (3, 4, 5, 17),
    "0321": (2, 5, 7, 17), "2301": (3, 5, 16, 17), "43210": (2, 3, 4, 5, 6),
    "504132": (2, 3, 1, 4, 2, 5),
    "0": (130,), "1-empty0": (3, 0),
}  # fmt: skip
REVERSES = {
    "none": ((5, 7), ()), "0": ((33, 5), (0,)), "1": ((5, 67), (1,)), "01": ((9, 17), (0, 1)),
    "vector": ((1025,), (0,)), "02": ((3, 4, 17), (0, 2)), "rank5": ((2, 3, 2, 5, 3), (0, 2, 4)),
    "empty": ((0, 4), (0, 1)),
}  # fmt: skip
SLICES = {
    "all": ((7, 9), (0, 7, 1), (0, 9, 1)), "strided": ((17, 33), (1, 17, 2), (3, 30, 5)),
    "last": ((33, 37), (32, 33, 1), (36, 37, 1)), "nothing": ((5, 6), (2, 2, 1), (0, 6, 1)),
    "vector": ((1025,), (1, 1025, 1)), "wide-stride": ((100,), (3, 100, 64)),
    "rank4": ((3, 5, 7, 18), (1, 3, 1), (0, 5, 2), (2, 7, 3), (1, 18, 1)),
}  # fmt: skip
PADS = {
    "edges": ((5, 17), (1, 2, 0), (3, 4, 0)), "interior": ((5, 17), (0, 0, 1), (0, 0, 2)),
    "negative": ((9, 17), (-2, -1, 0), (-3, 0, 0)), "mixed": ((9, 17), (-2, 3, 1), (4, -5, 2)),
    "negative-interior": ((7,), (-3, -4, 2)), "to-nothing": ((4,), (-2, -2, 0)),
    "of-empty": ((0, 3), (2, 1, 0), (1, 0, 0)), "none": ((4, 5), (0, 0, 0), (0, 0, 0)),
    "rank4": ((2, 3, 4, 5), (1, 0, 0), (0, 1, 1), (2, -1, 0), (0, 0, 3)), "scalar": ((),),
    "to-one-element": ((3, 4), (-2, -2, 1), (-3, -3, 2)),
    "to-one-hole": ((2, 5), (-1, -1, 1), (0, 0, 0)), "of-one": ((1, 1), (3, 0, 2), (0, 2, 1)),
}  # fmt: skip
CONCATENATIONS: dict[str, tuple[Any, ...]] = {
    "one": (0, (3, 4)), "two": (0, (3, 17), (5, 17)), "minor": (1, (5, 16), (5, 1), (5, 33)),
    "middle": (1, (2, 3, 5), (2, 1, 5), (2, 4, 5)), "empty": (0, (0, 3), (2, 3), (0, 3)),
    "many": (0, *((n, 3) for n in range(1, 18))), "vector": (0, (1,), (1024,), (7,)),
}  # fmt: skip
IOTAS = {"vector": ((130,), 0), "rows": ((33, 5), 0), "columns": ((5, 33), 1),
    "rank4": ((2, 3, 5, 4), 2), "empty": ((0,), 0)}  # fmt: skip
COPIES = (
    ("10", "01"),
    ("01", "10"),
    ("210", "012"),
    ("210", "102"),
    ("120", "201"),
    ("3210", "0231"),
)
SIZES = {2: (33, 37), 3: (5, 18, 33), 4: (3, 5, 4, 17)}


def varied() -> Iterator[Case]:
    for name, (dims, result, at) in BROADCASTS.items():
        yield from _some("broadcast", one("broadcast", dims, result, dimensions=at), name)
    for name, (dims, result) in RESHAPES.items():
        yield from _some("reshape", one("reshape", dims, result), name)
    for name, dims in TRANSPOSES.items():
        order = tuple(int(d) for d in name.replace("-empty", ""))
        yield from _some("transpose", one("transpose", dims, dimensions=order), name)
    for name, (dims, at) in REVERSES.items():
        yield from _some("reverse", one("reverse", dims, dimensions=at), name)
    for name, (dims, *parts) in SLICES.items():
        yield from _some("slice", sliced(dims, *parts), name)
    for name, (dims, *padding) in PADS.items():
        yield from _some("pad", pad(dims, *padding), name)
    for name, (axis, *operands) in CONCATENATIONS.items():
        yield from _some("concatenate", concatenate(axis, *operands), name)
    for name, (dims, axis) in IOTAS.items():
        yield from _some("iota", iota(dims, axis), name)
    for source, target in COPIES:
        made = laid_out("copy", source, target, SIZES[len(source)])
        yield from _some("copy", made, f"{source}-to-{target}")


def _some(opcode: str, template: Template, name: str) -> Iterator[Case]:
    types = (dt.F32, dt.S8) if opcode != "iota" else (dt.F32, dt.S32)
    yield from cells(opcode, template, types=types, suffix=f"-{name}", tags=("attributes",))


CELLS: dict[str, Template] = {
    "broadcast": one("broadcast", (37,), (33, 37), dimensions=(1,)),
    "reshape": one("reshape", (33, 14), (21, 22)),
    "transpose": one("transpose", (33, 17), dimensions=(1, 0)),
    "reverse": one("reverse", (33, 17), dimensions=(0, 1)),
    "slice": sliced((33, 17), (1, 32, 2), (3, 17, 1)),
    "pad": pad((33, 17), (1, 2, 1), (-1, 3, 0)),
    "concatenate": concatenate(1, (9, 17), (9, 1), (9, 16)),
    "iota": iota((7, 33), 1),
    "copy": laid_out("copy", "10", "01", (33, 17)),
    "bitcast": bitcast,
}


def wide_iota() -> Build:
    """Further than narrow types count: the value wraps, or is rounded."""
    return lambda b: b.op("iota", shape=array(dt.U8, (3, 600)), iota_dimension=1)


CHAINS: dict[str, tuple[str, dict[str, Any]]] = {
    "reverse": ("reverse", {"dimensions": (1,)}),
    "reverse-both": ("reverse", {"dimensions": (0, 1)}),
    "strided-slice": ("slice", {"slice": (SliceDim(0, 6, 2), SliceDim(1, 35, 3))}),
    "narrow-slice": ("slice", {"slice": (SliceDim(0, 6, 1), SliceDim(5, 17, 1))}),
    "transpose": ("transpose", {"dimensions": (1, 0)}),
}


def reshaped_chain(opcode: str, attrs: dict[str, Any], flat: bool) -> Template:
    """Moved, reshaped, and computed with: in one kernel if the backend can."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        moved = b.op(opcode, b.parameter(array(dtype, (6, 35))), **attrs)
        rows, columns = moved.shape.dims
        dims = (rows * columns,) if flat else (columns, 1, rows)
        reshaped = b.op("reshape", moved, shape=array(dtype, dims))
        return b.op("add", reshaped, reshaped)

    return template


def part_of_reshape(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Rows of the result go over the ends of the operand's, and its columns seem to fit them."""
    reshaped = b.op("reshape", b.parameter(array(dtype, (9, 7))), shape=array(dtype, (7, 9)))
    part = b.op("slice", reshaped, slice=(SliceDim(0, 7, 1), SliceDim(0, 5, 1)))
    return b.op("add", part, part)


def chains() -> Iterator[Case]:
    yield from cells("reshape", part_of_reshape, types=(dt.F32, dt.S32), suffix="-and-slice")
    for name, (opcode, attrs) in CHAINS.items():
        for kind in ("flat", "other"):
            made = reshaped_chain(opcode, attrs, kind == "flat")
            yield from cells("reshape", made, types=(dt.F32, dt.S32), suffix=f"-{kind}-of-{name}")


TILED_BITCASTS = {
    "from-tiles": ("f32[5,7]{1,0:T(4,2)}", "f32[64]"),
    "to-tiles": ("f32[24]", "f32[3,5]{0,1:T(2,2)(2,1)}"),
    "between-tiles": ("s32[9,20]{1,0:T(4,8)}", "s32[12,24]{0,1:T(8,4)}"),
    "tiles-to-bytes": ("bf16[5,7]{1,0:T(8,16)(2,1)}", "u8[256]"),
    "packed-to-bytes": ("s4[3,5]{0,1:E(4)}", "u8[8]"),
    "bytes-to-packed": ("u8[8]", "s4[3,5]{0,1:E(4)}"),
}


def tiled_bitcasts() -> Iterator[Case]:
    """Bytes of layouts in tiles, or of several elements to a byte; what fills tiles up is zero."""
    for name, (source, target) in TILED_BITCASTS.items():
        text = (
            f"HloModule m\nENTRY e {{ x = {source} parameter(0)\n ROOT r = {target} bitcast(x) }}"
        )
        yield Case(f"bitcast-{name}", text, "bitcast", source.partition("[")[0], inputs=special)


CASES = (
    *(c for o, template in CELLS.items() for c in cells(o, template, inputs=special)),
    *varied(),
    *chains(),
    *tiled_bitcasts(),
    Case("iota-u8-wraps", wide_iota(), "iota", "u8"),
    Case(
        "iota-bf16-rounds",
        lambda b: b.op("iota", shape=array(dt.BF16, (1000,)), iota_dimension=0),
        "iota",
        "bf16",
    ),
)
