"""Dot row by row, result[i, :] += lhs[i, k] * rhs[k, :], along contiguous memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.contraction import accumulation_type, multiply_add
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.depth_parts import (
    add_parts,
    depth_parts,
    part_depth,
    part_steps,
)
from xladev.platforms.cpu.codegen.products.dot import CACHED_NBYTES
from xladev.platforms.cpu.codegen.products.kinds import CACHE_LINE_NBYTES

FEW_ROWS = 4
"""Fewer rows than threads could want: they share the depth."""
LEAST_COLUMNS = 1024
"""Columns of such a row, where its depth is not cut, that a thread has at least: a page of f32."""
AT_ONCE = 8
"""Rows of the right operand that are read at once: memory comes in as many streams."""

RUN_NBYTES = 512
"""Bytes of each of these rows between which the following ones are asked for."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Where sums go: the result, or one of the parts' own.

    Attributes:
        array: rows and columns, behind the number of the part if there are several.
        part: its number, if so.
    """

    array: IrArray
    part: tuple[IndexValue, ...] = ()

    def at(self, row: Index, column: IndexValue) -> Index:
        """Index of a sum."""
        return (*self.part, *row, column)


def emit_row_wise(k: KernelBuild) -> None:
    """All rows, or parts of the depth where rows are few."""
    i = k.root
    rows, depth = i.operands[0].shape.dims[:-1], i.operands[0].shape.dims[-1]
    shape, width = _sums_of_parts(i), i.shape.dims[-1]
    if shape is None:
        step = _block_columns(prod(rows), width) if k.is_shared else max(width, 1)

        def block_of_row(places: Index) -> None:
            first = k.e.at.value(k.e.at.mul(places[-1], step))
            last = k.b.intrinsic("smin", k.b.add(first, step), width)
            _emit_row(k, places[:-1], (0, depth), (first, last), _Sums(k.results[0]))

        k.split_nest((*rows, -(-width // step)), block_of_row)
        return
    sums, parts = IrArray(k.scratch, shape), shape.dims[0]
    size = part_depth(depth, parts, AT_ONCE)

    def part_of_row(places: Index) -> None:
        part, row = places[0], places[1:]
        first, end = part_steps(k, part, size, depth)
        _emit_row(k, row, (first, end), (0, width), _Sums(sums, (part,)))

    k.split_nest((parts, *rows), part_of_row)
    add_parts(k, shape)


def row_wise_workspace_nbytes(i: HloInstruction) -> int:
    """Bytes of the sums of parts of the depth; 0 if it is not cut."""
    shape = _sums_of_parts(i)
    return 0 if shape is None else shape.nbytes


def _sums_of_parts(i: HloInstruction) -> Shape | None:
    """The sums of all parts of the depth; None if it is not cut."""
    lhs, rhs = (o.shape for o in i.operands[:2])
    row_nbytes = rhs.dims[-1] * rhs.element_type.host_nbytes
    rows = prod(lhs.dims[:-1])
    parts = depth_parts(rows, lhs.dims[-1], row_nbytes) if rows < FEW_ROWS else 1
    return array(i.shape.element_type, (parts, *i.shape.dims)) if parts > 1 else None


def _block_columns(rows: int, width: int) -> int:
    """Columns that a thread computes at once of a row whose depth is not cut; all of many rows."""
    if rows >= FEW_ROWS:
        return max(width, 1)
    return max(LEAST_COLUMNS, -(-width // (FEW_ROWS * LEAST_COLUMNS)) * LEAST_COLUMNS)


def _emit_row(
    k: KernelBuild,
    row: Index,
    steps_of: tuple[IndexValue, IndexValue],
    columns: tuple[IndexValue, IndexValue],
    sums: _Sums,
) -> None:
    """The sums of some columns of one row over some steps of the depth."""
    (first, end), (lowest, highest) = steps_of, columns
    i, b, at = k.root, k.b, k.e.at
    lhs, rhs = i.operands[:2]
    dtype = i.shape.element_type
    batch = len(i["lhs_batch_dims"])
    zero = constant_element(dtype, 0)
    with b.loop(lowest, highest) as n:
        sums.array.store(b, sums.at(row, n), zero)
    count = at.sub(end, first)
    whole = at.add(first, at.mul(at.div(count, AT_ONCE), AT_ONCE))
    for begin, stop, step in ((first, whole, AT_ONCE), (whole, end, 1)):
        if begin == stop:
            continue
        with b.loop(begin, stop, step) as d, k.e.scope():
            steps = [at.add(d, x) for x in range(step)]
            lefts = [_converted(k, k.e.element(lhs, (*row, x)), lhs, i) for x in steps]
            following = [at.add(x, step) for x in steps] if step == AT_ONCE else []
            with _columns(k, row[:batch], following, columns) as n, k.e.scope():
                place = sums.at(row, n)
                total = sums.array.load(b, place)
                for x, left in zip(steps, lefts, strict=True):
                    right = _converted(k, k.e.element(rhs, (*row[:batch], x, n)), rhs, i)
                    total = multiply_add(k.e, dtype, total, left, right)
                sums.array.store(b, place, total)


@contextmanager
def _columns(
    k: KernelBuild, batch: Index, following: Sequence[IndexValue], columns: tuple[IndexValue, ...]
) -> Iterator[Value]:
    """A loop over columns; of an operand that no cache holds, some lines ahead of it are asked for
    before each run of columns."""
    b, (lowest, highest), rhs = k.b, columns, k.root.operands[1]
    is_far = rhs in k.e.arrays and rhs.shape.nbytes > CACHED_NBYTES
    if not (following and is_far and b.module.target.has_prefetch):
        with b.loop(lowest, highest) as n:
            yield n
        return
    array, at = k.e.arrays[rhs][0], k.e.at
    size = rhs.shape.element_type.host_nbytes
    depth, width = rhs.shape.dims[-2:]
    with b.loop(lowest, highest, RUN_NBYTES // size) as run:
        stop = b.intrinsic("smin", b.add(run, RUN_NBYTES // size), highest)
        for step in following:
            line = at.mul(step, width)
            matrix = at.mul(at.linear(batch, rhs.shape.dims[:-2]), depth * width)
            place = at.value(at.mul(at.add(at.add(matrix, line), run), size))
            for nbytes in range(0, RUN_NBYTES, CACHE_LINE_NBYTES):
                b.prefetch(b.byte_address(array.base, b.add(place, nbytes)), is_near=False)
        with b.loop(run, stop) as n:
            yield n


def _converted(
    k: KernelBuild, element: Element, source: HloInstruction, i: HloInstruction
) -> Element:
    have, want = source.shape.element_type, i.shape.element_type
    return element if have is want else emit_convert(k.b, element, have, want)


def is_row_wise(i: HloInstruction) -> bool:
    """True for [batch..., m, k] x [batch..., k, n] with sums kept in the result's own type."""
    lhs, rhs = i.operands[:2]
    batch = len(i["lhs_batch_dims"])
    leading = tuple(range(batch))
    return (
        accumulation_type(i.shape.element_type) is i.shape.element_type
        and lhs.shape.rank == batch + 2
        and rhs.shape.rank == batch + 2
        and i["lhs_batch_dims"] == leading
        and i["rhs_batch_dims"] == leading
        and i["lhs_contracting_dims"] == (batch + 1,)
        and i["rhs_contracting_dims"] == (batch,)
        and all(
            s.minor_to_major == tuple(range(s.rank - 1, -1, -1))
            for s in (i.shape, lhs.shape, rhs.shape)
        )
    )
