"""dynamic-slice, dynamic-update-slice, gather and scatter: types, index types, every attribute.

Indices are in and out of bounds. Starts of slices are clamped so that the slice fits; a scattered
element that is out of bounds is dropped.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import INTEGERS, PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import array
from xladev.testing.conformance.case import Build, Case, given, special
from xladev.testing.conformance.cells import Node, Template, cells, combine, scalar_computation

Dims = tuple[int, ...]


def slices(
    sizes: Dims, taken: Dims, index: PrimitiveType = dt.S32, vector: bool = False
) -> Template:
    """Starts are one scalar per dimension, or one vector of all of them."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, sizes))
        shapes = [array(index, (len(sizes),))] if vector else [array(index)] * len(sizes)
        starts = [b.parameter(shape) for shape in shapes]
        return b.op("dynamic-slice", x, *starts, dynamic_slice_sizes=taken)

    return template


def updates(sizes: Dims, update: Dims, index: PrimitiveType = dt.S32) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, new = b.parameter(array(dtype, sizes)), b.parameter(array(dtype, update))
        starts = [b.parameter(array(index)) for _ in sizes]
        return b.op("dynamic-update-slice", x, new, *starts)

    return template


PARTS: dict[str, tuple[Dims, Dims]] = {
    "rows": ((33, 17), (5, 17)), "columns": ((17, 33), (17, 5)), "vector": ((1025,), (100,)),
    "all": ((5, 7), (5, 7)), "one": ((9, 9), (1, 1)), "nothing": ((5, 7), (0, 7)),
    "rank4": ((3, 5, 7, 9), (1, 2, 7, 4)), "scalar": ((), ()), "last": ((33, 37), (1, 37)),
}  # fmt: skip


def parts() -> Iterator[Case]:
    for name, (sizes, part) in PARTS.items():
        for dtype in (dt.F32, dt.S8):
            for opcode, made in (
                ("dynamic-slice", slices(sizes, part)),
                ("dynamic-update-slice", updates(sizes, part)),
            ):
                yield from cells(opcode, made, types=(dtype,), suffix=f"-{name}", inputs=special)
    for index in INTEGERS:
        if index.bits >= 8:
            made = slices((9, 17), (4, 5), index)
            yield from cells("dynamic-slice", made, types=(dt.F32,), suffix=f"-by-{index}",
                             inputs=special)  # fmt: skip
            made = updates((9, 17), (4, 5), index)
            yield from cells("dynamic-update-slice", made, types=(dt.F32,), suffix=f"-by-{index}",
                             inputs=special)  # fmt: skip
    yield from cells("dynamic-slice", slices((9, 17), (4, 5), vector=True), types=(dt.F32,),
                     suffix="-vector-of-starts", inputs=special)  # fmt: skip


def at_starts(starts: tuple[int, int]) -> Case:
    """A 4x5 slice of 9x17 elements at given starts, some out of bounds."""
    x = np.arange(153, dtype=np.float32).reshape(9, 17)
    row, column = (min(max(s, 0), most) for s, most in zip(starts, (5, 12), strict=True))
    name = "_".join(str(s).replace("-", "m") for s in starts)
    return Case(
        f"dynamic-slice-f32-clamped-{name}",
        lambda b: slices((9, 17), (4, 5))(b, dt.F32),
        "dynamic-slice",
        "f32",
        ("out-of-bounds",),
        inputs=given([x, *(np.int32(s) for s in starts)]),
        expected=(x[row : row + 4, column : column + 5],),
    )


STARTS = ((0, 0), (5, 12), (6, 13), (-1, -100), (8, 16), (100, 0), (2**31 - 1, -(2**31)))


def gather(operand: Dims, indices: Dims, index: PrimitiveType = dt.S32, **attrs: Any) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, at = b.parameter(array(dtype, operand)), b.parameter(array(index, indices))
        return b.op("gather", x, at, **attrs)

    return template


def take(rows: int, width: int, count: int, **more: Any) -> Template:
    """Whole rows by number."""
    return gather((rows, width), (count, 1), offset_dims=(1,), collapsed_slice_dims=(0,),
                  start_index_map=(0,), index_vector_dim=1,
                  slice_sizes=(1, width), **more)  # fmt: skip


GATHERS: dict[str, Template] = {
    "rows": take(33, 17, 9),
    "rows-sorted": take(33, 17, 9, indices_are_sorted=True),
    "rows-implicit": gather((33, 17), (9,), offset_dims=(1,), collapsed_slice_dims=(0,),
                            start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 17)),
    "columns": gather((7, 33), (5,), offset_dims=(0,), collapsed_slice_dims=(1,),
                      start_index_map=(1,), index_vector_dim=1, slice_sizes=(7, 1)),
    "elements": gather((9, 17), (20, 2), offset_dims=(), collapsed_slice_dims=(0, 1),
                       start_index_map=(0, 1), index_vector_dim=1, slice_sizes=(1, 1)),
    "elements-swapped": gather((9, 17), (20, 2), offset_dims=(), collapsed_slice_dims=(0, 1),
                               start_index_map=(1, 0), index_vector_dim=1, slice_sizes=(1, 1)),
    "windows": gather((9, 17), (4, 2), offset_dims=(1, 2), collapsed_slice_dims=(),
                      start_index_map=(0, 1), index_vector_dim=1, slice_sizes=(3, 5)),
    "windows-first": gather((9, 17), (4, 2), offset_dims=(0, 1), collapsed_slice_dims=(),
                            start_index_map=(0, 1), index_vector_dim=1, slice_sizes=(3, 5)),
    "index-vector-first": gather((9, 17), (2, 6), offset_dims=(1,), collapsed_slice_dims=(0,),
                                 start_index_map=(0, 1), index_vector_dim=0, slice_sizes=(1, 5)),
    "two-batch-dims": gather((33, 5), (3, 4, 1), offset_dims=(2,), collapsed_slice_dims=(0,),
                             start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, 5)),
    "offset-between": gather((9, 5), (3, 4, 1), offset_dims=(1,), collapsed_slice_dims=(0,),
                             start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, 5)),
    "batching": gather((4, 9, 5), (4, 3, 1), offset_dims=(2,), collapsed_slice_dims=(1,),
                       start_index_map=(1,), operand_batching_dims=(0,),
                       start_indices_batching_dims=(0,), index_vector_dim=2,
                       slice_sizes=(1, 1, 5)),
    "scalar-index": gather((33, 5), (), offset_dims=(0,), collapsed_slice_dims=(0,),
                           start_index_map=(0,), index_vector_dim=0, slice_sizes=(1, 5)),
    "batching-after-vectors": gather((4, 9, 5), (1, 3, 4), offset_dims=(2,),
                                     collapsed_slice_dims=(1,), start_index_map=(1,),
                                     operand_batching_dims=(0,), start_indices_batching_dims=(2,),
                                     index_vector_dim=0, slice_sizes=(1, 1, 5)),
    "no-indices": take(33, 17, 0),
    "empty-vectors": gather((5, 3), (4, 0), offset_dims=(1, 2), collapsed_slice_dims=(),
                            start_index_map=(), index_vector_dim=1, slice_sizes=(2, 3)),
}  # fmt: skip


def scatter(
    operand: Dims, indices: Dims, update: Dims, opcode: str = "add",
    index: PrimitiveType = dt.S32, **attrs: Any,
) -> Template:  # fmt: skip
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, at, new = (
            b.parameter(array(t, dims))
            for t, dims in ((dtype, operand), (index, indices), (dtype, update))
        )
        return b.op("scatter", x, at, new, to_apply=_body(opcode, dtype), **attrs)

    return template


def _body(opcode: str, dtype: PrimitiveType) -> HloComputation:
    if opcode == "replace":
        return scalar_computation(lambda b, x, y: b.op("copy", y), (dtype, dtype), "replace")
    if dtype is dt.PRED:
        opcode = {"add": "or", "multiply": "and"}.get(opcode, opcode)
    return combine(opcode, dtype)


def rows(opcode: str, **more: Any) -> Template:
    """Rows by number are combined with what is there."""
    return scatter((33, 17), (9, 1), (9, 17), opcode, update_window_dims=(1,),
                   inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
                   index_vector_dim=1, **more)  # fmt: skip


SCATTERS: dict[str, Template] = {
    "add": rows("add"),
    "multiply": rows("multiply"),
    "minimum": rows("minimum"),
    "maximum": rows("maximum"),
    "rows-implicit": scatter((33, 5), (9,), (9, 5), update_window_dims=(1,),
                             inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
                             index_vector_dim=1),
    "batching-after-vectors": scatter((4, 9, 5), (1, 3, 4), (3, 4, 5), update_window_dims=(2,),
                                      inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
                                      input_batching_dims=(0,), scatter_indices_batching_dims=(2,),
                                      index_vector_dim=0),
    "empty-vectors": scatter((5, 3), (4, 0), (4, 5, 3), update_window_dims=(1, 2),
                             scatter_dims_to_operand_dims=(), index_vector_dim=1),
    "elements": scatter((9, 17), (20, 2), (20,), inserted_window_dims=(0, 1),
                        scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1),
    "elements-swapped": scatter((9, 17), (20, 2), (20,), inserted_window_dims=(0, 1),
                                scatter_dims_to_operand_dims=(1, 0), index_vector_dim=1),
    "windows": scatter((9, 17), (4, 2), (4, 3, 5), update_window_dims=(1, 2),
                       scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1),
    "windows-first": scatter((9, 17), (4, 2), (3, 5, 4), update_window_dims=(0, 1),
                             scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1),
    "index-vector-first": scatter((9, 17), (1, 6), (6, 17), update_window_dims=(1,),
                                  inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
                                  index_vector_dim=0),
    "batching": scatter((4, 9, 5), (4, 3, 1), (4, 3, 5), update_window_dims=(2,),
                        inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
                        input_batching_dims=(0,), scatter_indices_batching_dims=(0,),
                        index_vector_dim=2),
    "no-updates": scatter((9, 5), (0, 1), (0, 5), update_window_dims=(1,),
                          inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
                          index_vector_dim=1),
}  # fmt: skip


def distinct(count: int, rows_: int) -> list[int]:
    return [(7 * n + 3) % rows_ for n in range(count)]


def unique(sorted_: bool) -> Case:
    """The program promises that no two indices are equal, and perhaps that they ascend."""
    at = sorted(distinct(9, 33)) if sorted_ else distinct(9, 33)
    x = np.arange(561, dtype=np.float32).reshape(33, 17)
    new = -np.arange(153, dtype=np.float32).reshape(9, 17)
    want = x.copy()
    want[at] = new
    program: Build = lambda b: rows("replace", unique_indices=True, indices_are_sorted=sorted_)(  # noqa: E731
        b, dt.F32
    )
    name = "scatter-f32-unique-sorted" if sorted_ else "scatter-f32-unique"
    at_array = np.array(at, np.int32).reshape(9, 1)
    return Case(name, program, "scatter", "f32", inputs=given([x, at_array, new]), expected=(want,))


def two_operands(b: HloBuilder) -> Node:
    """Two arrays get sums and extremes at the same indices."""
    x, y = b.parameter(array(dt.F32, (33, 5))), b.parameter(array(dt.S32, (33, 5)))
    at = b.parameter(array(dt.S32, (9, 1)))
    u, v = b.parameter(array(dt.F32, (9, 5))), b.parameter(array(dt.S32, (9, 5)))
    body = scalar_computation(
        lambda b, p, q, r, s: b.op("tuple", b.op("add", p, r), b.op("maximum", q, s)),
        (dt.F32, dt.S32) * 2,
        "both",
    )
    return b.op(
        "scatter", x, y, at, u, v, update_window_dims=(1,), inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=body,
    )  # fmt: skip


def varied() -> Iterator[Case]:
    for name, made in GATHERS.items():
        yield from cells("gather", made, types=(dt.F32, dt.S8), suffix=f"-{name}", inputs=special)
    for name, made in SCATTERS.items():
        yield from cells("scatter", made, types=(dt.F32, dt.S32), suffix=f"-{name}")
    for index in INTEGERS:
        if index.bits >= 8:
            made = gather((33, 5), (9, 1), index, offset_dims=(1,), collapsed_slice_dims=(0,),
                          start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 5))  # fmt: skip
            yield from cells("gather", made, types=(dt.F32,), suffix=f"-by-{index}", inputs=special)
            made = scatter((33, 5), (9, 1), (9, 5), "add", index, update_window_dims=(1,),
                           inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
                           index_vector_dim=1)  # fmt: skip
            yield from cells(
                "scatter", made, types=(dt.S32,), suffix=f"-by-{index}", inputs=special
            )


CASES = (
    *cells("dynamic-slice", slices((9, 17), (4, 5)), inputs=special),
    *cells("dynamic-update-slice", updates((9, 17), (4, 5)), inputs=special),
    *parts(),
    *(at_starts(s) for s in STARTS),
    *cells("gather", GATHERS["rows"], inputs=special),
    *cells("scatter", rows("add")),
    *varied(),
    unique(sorted_=False),
    unique(sorted_=True),
    Case("scatter-two-operands", two_operands, "scatter", "f32", ("variadic",)),
)
