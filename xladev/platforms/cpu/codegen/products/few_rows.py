"""A few rows times columns that each lie along memory: sums along memory, several of them at once.

Such a right operand is a matrix of weights written output by output. Packing it in panels would
read and write more than the product itself; here each element is read once, in long runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xladev.codegen.elemental.pieces import value_in_order
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.codegen.matrices import Matrices, matrices_of
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LEAST_PRODUCTS
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.lane_sums import lane_sums
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing
from xladev.platforms.cpu.codegen.products.row_sums import NARROWED

MOST_ROWS = 12
"""Rows up to which it pays; with 16, pairs of bf16 are faster in panels."""
ROWS = 4
"""Most rows of a tile."""
BLOCK_COLUMNS = 64
"""Columns that one thread takes at once."""


class FewRowsArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        matrix: first element of the first column.
        column: from one column to the next.
        columns: number of columns.
        factors: first element of the first row.
        factors_row: from one row to the next.
        rows: number of rows.
        depth: number of elements in a row, and in a column.
        result: first sum.
        result_row: from one row of sums to the next.
    """

    matrix: Value
    column: Value
    columns: Value
    factors: Value
    factors_row: Value
    rows: Value
    depth: Value
    result: Value
    result_row: Value


def call_few_rows(b: FunctionBuilder, kind: ProductKind, arguments: FewRowsArguments) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        a = FewRowsArguments(*values)

        def read(columns: Sequence[Value], start: Value, lanes: int) -> list[Value]:
            offset = inner.mul(start, kind.right.host_nbytes)
            addresses = (
                inner.byte_address(inner.byte_address(a.matrix, inner.mul(c, a.column)), offset)
                for c in columns
            )
            return [kind.read(inner, address, kind.right, lanes) for address in addresses]

        FewRows(inner, kind, a, read).emit()

    b.call_microkernel(kind.name("few_rows"), arguments, emit)


ReadColumns = Callable[[Sequence[Value], Value, int], list[Value]]
"""From numbers of columns, an element's number and a count, so many elements of each column."""


class FewRows:
    """Writes the sums of all rows and columns.

    Args:
        b: where to write.
        kind: types and vectors.
        a: what there is; ``matrix`` and ``column`` are only for ``read`` to use.
        read: gives elements of columns, in the type of the sums.
        rows: of a tile.
        pieces: vectors that are read at once, in the order of their elements' numbers modulo this.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        kind: ProductKind,
        a: FewRowsArguments,
        read: ReadColumns,
        rows: int = ROWS,
        pieces: int = 1,
    ) -> None:
        self.b, self.kind, self.a, self.read, self.rows = b, kind, a, read, rows
        self.pieces = pieces
        self.columns = columns_at_once(kind)

    def emit(self) -> None:
        """Tiles of some columns and some rows, the last ones again where there are too few."""
        b, a = self.b, self.a
        last_column, last_row = b.sub(a.columns, 1), b.sub(a.rows, 1)
        with b.loop(0, a.columns, self.columns) as first, b.loop(0, a.rows, self.rows) as above:
            columns = [
                b.intrinsic("smin", b.add(first, n), last_column) for n in range(self.columns)
            ]
            rows = [b.intrinsic("smin", b.add(above, n), last_row) for n in range(self.rows)]
            self._tile(columns, rows)

    def _tile(self, columns: Sequence[Value], rows: Sequence[Value]) -> None:
        b, a, kind = self.b, self.a, self.kind
        lefts = [b.byte_address(a.factors, b.mul(r, a.factors_row)) for r in rows]
        zeros = [b.const(kind.vector, 0)] * (len(columns) * len(rows))
        lanes = kind.lanes * self.pieces
        whole = b.sub(a.depth, b.srem(a.depth, lanes))
        sums = self._steps(columns, lefts, b.const(I64, 0), whole, zeros, lanes)
        totals = lane_sums(b, sums)
        totals = self._steps(columns, lefts, whole, a.depth, totals, 1)
        for n, total in enumerate(totals):
            row = b.byte_address(a.result, b.mul(rows[n // len(columns)], a.result_row))
            b.store(total, b.element_address(row, columns[n % len(columns)], kind.element))

    def _steps(
        self,
        columns: Sequence[Value],
        lefts: Sequence[Value],
        start: Value,
        stop: Value,
        sums: Sequence[Value],
        lanes: int,
    ) -> list[Value]:
        """Goes on with all sums, so many elements at a time."""
        b, kind, size = self.b, self.kind, self.kind.left.host_nbytes
        with b.carried_loop(start, stop, lanes, initial=list(sums)) as loop:
            values = [self._parts(x) for x in self.read(columns, loop.index, lanes)]
            offset = b.mul(loop.index, size)
            made: list[Value] = []
            for r, left in enumerate(lefts):
                factor = kind.read(b, b.byte_address(left, offset), kind.left, lanes)
                factors = self._parts(value_in_order(b, factor, self.pieces))
                held = loop.values[r * len(columns) : (r + 1) * len(columns)]
                for parts, total in zip(values, held, strict=True):
                    for one, other in zip(factors, parts, strict=True):
                        total = kind.multiply_add(b, one, other, total)
                    made.append(total)
            loop.carry(*made)
        return list(loop.values)

    def _parts(self, value: Value) -> list[Value]:
        """What is longer than a vector of sums, in such vectors."""
        lanes = self.kind.lanes
        if value.lanes <= lanes:
            return [value]
        starts = range(0, value.lanes, lanes)
        return [self.b.shuffle(value, value, tuple(range(n, n + lanes))) for n in starts]


def columns_at_once(kind: ProductKind) -> int:
    """Columns of a tile: sums fill half of the registers."""
    return 4 if kind.nbytes == WIDEST_NBYTES else 2


@dataclass(frozen=True, slots=True)
class FewRowsPlan:
    """A dot of few rows.

    Attributes:
        matrices: the operands and the result.
        batch: sizes of the batch dimensions.
        kept: type of the result.
    """

    matrices: Matrices
    batch: tuple[int, ...]
    kept: PrimitiveType


def few_rows_plan(i: HloInstruction) -> FewRowsPlan | None:
    """How a dot is computed by sums along memory; None if it is not."""
    found = matrices_of(i)
    return None if found is None else few_rows_of(i, found)


def few_rows_of(i: HloInstruction, found: Matrices, least: int = 2) -> FewRowsPlan | None:
    """The same for operands that are found in memory, or computed as they are read."""
    total, left, right, result = found
    kept = i.shape.element_type
    if not total.is_float or (kept is not total and (total, kept) not in NARROWED):
        return None
    is_along = left.step == right.step == result.column == 1 != right.free
    if not is_along or not least <= left.extent <= MOST_ROWS:
        return None
    if left.extent * right.extent * left.depth < LEAST_PRODUCTS or left.depth < WIDEST_NBYTES:
        return None
    return FewRowsPlan(found, i.shape.dims[: len(i["lhs_batch_dims"])], kept)


Emit = Callable[[ProductKind, FewRowsArguments, Index, IndexValue], None]
"""Writes a block's sums: given the batch index and the number of its first column too."""


def emit_few_rows(k: KernelBuild, plan: FewRowsPlan, emit: Emit | None = None) -> None:
    """Writes the kernel: blocks of columns for each batch index, all of them apart."""
    b, at = k.b, k.e.at
    extents = (*plan.batch, -(-plan.matrices.right.extent // BLOCK_COLUMNS))

    def part(begin: IndexValue, end: IndexValue) -> None:
        with b.loop(at.value(begin), at.value(end)) as number, k.e.scope():
            *batch, block = at.delinear(number, extents)
            _Block(k, plan, emit).emit(tuple(batch), at.mul(block, BLOCK_COLUMNS))

    k.split(prod(extents), part)


class _Block:
    def __init__(self, k: KernelBuild, plan: FewRowsPlan, emit: Emit | None) -> None:
        self.k, self.plan, self.given = k, plan, emit

    def emit(self, batch: Index, column: IndexValue) -> None:
        k, b, at, plan = self.k, self.k.b, self.k.e.at, self.plan
        total, left, right, result = plan.matrices
        types = [o.shape.element_type for o in k.root.operands[:2]]
        kind = ProductKind.of(b.module.target, types[0], types[1], total)
        kept_row = b.const(I64, result.row * plan.kept.host_nbytes)
        kept = self._address(
            k.results[0].base, plan.kept, at.add(at.strided(batch, result.batch), column)
        )
        columns = b.intrinsic("smin", b.sub(right.extent, at.value(column)), BLOCK_COLUMNS)
        sums, sums_row, rows = kept, kept_row, b.const(I64, left.extent)
        if plan.kept is not total:
            sums = b.alloca(kind.element, BLOCK_COLUMNS * left.extent, align=64)
            sums_row = b.const(I64, BLOCK_COLUMNS * kind.size)
        arguments = FewRowsArguments(
            matrix=self._matrix(batch, column),
            column=b.const(I64, right.free * types[1].host_nbytes),
            columns=columns,
            factors=self._address(
                k.e.arrays[k.root.operands[0]][0].base, types[0], at.strided(batch, left.batch)
            ),
            factors_row=b.const(I64, left.free * types[0].host_nbytes),
            rows=rows,
            depth=b.const(I64, left.depth),
            result=sums,
            result_row=sums_row,
        )
        if self.given is None:
            call_few_rows(b, kind, arguments)
        else:
            self.given(kind, arguments, batch, column)
        if plan.kept is not total:
            narrowing = NarrowingArguments(sums, sums_row, kept, kept_row, rows, columns)
            call_narrowing(b, kind, plan.kept, narrowing)

    def _matrix(self, batch: Index, column: IndexValue) -> Value:
        """The block's first column, if the right operand is in memory."""
        k, at, right = self.k, self.k.e.at, self.plan.matrices.right
        operand = k.root.operands[1]
        if self.given is not None:
            return k.results[0].base
        place = at.add(at.strided(batch, right.batch), at.mul(column, right.free))
        return self._address(k.e.arrays[operand][0].base, operand.shape.element_type, place)

    def _address(self, base: Value, dtype: PrimitiveType, place: IndexValue) -> Value:
        at = self.k.e.at
        return self.k.b.byte_address(base, at.value(at.mul(place, dtype.host_nbytes)))
