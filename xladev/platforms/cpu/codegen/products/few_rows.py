"""A few rows times columns that each lie along memory: sums along memory, several of them at once.

Such a right operand is a matrix of weights written output by output. Packing it in panels would
read and write more than the product itself; here each element is read once, in long runs. Many rows
times a few columns are the same, turned: rows of the left operand are taken as columns, and the
few columns, which are turned first if they lie across memory, as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xladev.codegen.arrays import IrArray, element_strides
from xladev.codegen.elemental.pieces import value_in_order
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I1, I64, FunctionBuilder, Value
from xladev.codegen.matrices import Matrices, ResultStrides, Side, matrices_by_shape, matrices_of
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LEAST_PRODUCTS
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.lane_sums import lane_sums
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing
from xladev.platforms.cpu.codegen.products.row_sums import NARROWED, row_sums_of

MOST_ROWS = 12
"""Rows up to which it pays, or columns of products that are turned; with 16, pairs of bf16 are
faster in panels, and so is f32 that is turned."""
MOST_SHALLOW_ROWS, SHALLOW_NBYTES = 32, 16 << 10
"""The same for f32 whose columns of a tile have so few bytes that they stay in the L1 cache for all
rows."""
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
        result_column: from one column of sums to the next.
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
    result_column: Value


def call_few_rows(b: FunctionBuilder, kind: ProductKind, arguments: FewRowsArguments) -> None:
    """Calls the function, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        a = FewRowsArguments(*values)

        def read(columns: Sequence[Value], start: Value, lanes: int) -> list[Value]:
            offset = inner.mul(start, kind.right.host_nbytes)
            addresses = [
                inner.byte_address(inner.byte_address(a.matrix, inner.mul(c, a.column)), offset)
                for c in columns
            ]
            if lanes > 1 and inner.module.target.has_prefetch:
                following = inner.mul(a.column, tiles.columns)
                for address, fetches in zip(addresses, tiles.fetches, strict=True):
                    ahead = inner.select(fetches, following, inner.const(I64, 0))
                    inner.prefetch(inner.byte_address(address, ahead))
            return [kind.read(inner, address, kind.right, lanes) for address in addresses]

        tiles = FewRows(inner, kind, a, read)
        tiles.emit()

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
        is_apart: true if columns of a tile are a part of the block apart, so that memory is read in
            runs that the processor foresees; else they are neighbours, and asked for by ``read``.

    Attributes:
        fetches: of a tile's columns, whether it asks for the following ones: all rows of tiles take
            turns.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        kind: ProductKind,
        a: FewRowsArguments,
        read: ReadColumns,
        rows: int = ROWS,
        pieces: int = 1,
        is_apart: bool = False,
    ) -> None:
        self.b, self.kind, self.a, self.read, self.rows = b, kind, a, read, rows
        self.pieces, self.is_apart = pieces, is_apart
        self.columns = columns_at_once(kind)
        self.fetches = [b.const(I1, 1)] * self.columns

    def emit(self) -> None:
        """Tiles of some columns and some rows, the last ones again where there are too few."""
        b, a = self.b, self.a
        last_column, last_row = b.sub(a.columns, 1), b.sub(a.rows, 1)
        stop, step, offsets = a.columns, self.columns, list[Value | int](range(self.columns))
        if self.is_apart:
            stop, step = b.udiv(b.add(a.columns, self.columns - 1), self.columns), 1
            offsets = [b.mul(stop, n) for n in range(self.columns)]
        with b.loop(0, stop, step) as first, b.loop(0, a.rows, self.rows) as above:
            columns = [b.intrinsic("smin", b.add(first, n), last_column) for n in offsets]
            rows = [b.intrinsic("smin", b.add(above, n), last_row) for n in range(self.rows)]
            groups = b.udiv(b.add(last_row, self.rows), self.rows)
            group = b.udiv(above, self.rows)
            self.fetches = [
                b.icmp("eq", b.urem(b.const(I64, n), groups), group) for n in range(self.columns)
            ]
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
            b.store(total, b.byte_address(row, b.mul(columns[n % len(columns)], a.result_column)))

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
        is_turned: true if rows are those of the right operand, and columns the left one's.
        packs: true if the rows lie across memory, and are turned first.
    """

    matrices: Matrices
    batch: tuple[int, ...]
    kept: PrimitiveType
    is_turned: bool = False
    packs: bool = False

    def operands(self, i: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
        """What has the rows, and what has the columns."""
        left, right = i.operands[:2]
        return (right, left) if self.is_turned else (left, right)

    def packed_shape(self, i: HloInstruction) -> Shape | None:
        """Of the rows that are turned; None if none are."""
        left = self.matrices.left
        dtype = self.operands(i)[0].shape.element_type
        return array(dtype, (*self.batch, left.extent, left.depth)) if self.packs else None


def few_rows_plan(i: HloInstruction) -> FewRowsPlan | None:
    """How a dot is computed by sums along memory; None if it is not."""
    found = matrices_of(i)
    if found is None:
        return None
    plan = few_rows_of(i, found)
    if plan is not None and found.left.extent <= MOST_ROWS:
        return plan
    return _few_columns_of(i, found) or plan


def is_fast_along_memory(i: HloInstruction) -> bool:
    """True if a dot takes no longer with columns along memory than across it."""
    found = matrices_by_shape(i)
    if found is None:
        return False
    if row_sums_of(i, found) is not None:
        return True
    return found.left.extent <= ROWS and few_rows_of(i, found) is not None


def is_faster_than_panels(i: HloInstruction) -> bool:
    """True if a dot is faster by sums along memory than with a right operand that is packed."""
    plan = few_rows_plan(i)
    return plan is not None and (plan.is_turned or plan.matrices.left.extent <= MOST_ROWS)


def few_rows_workspace_nbytes(i: HloInstruction, plan: FewRowsPlan) -> int:
    """Bytes of the rows that are turned first."""
    shape = plan.packed_shape(i)
    return 0 if shape is None else shape.nbytes


def few_rows_of(i: HloInstruction, found: Matrices, least: int = 2) -> FewRowsPlan | None:
    """The same for operands that are found in memory, or computed as they are read."""
    _, left, right, result = found
    if left.step != 1 or result.column != 1 or left.extent < least:
        return None
    if not _pays(i, found.total, left, right, _most_rows(i, left.depth)):
        return None
    return FewRowsPlan(found, i.shape.dims[: len(i["lhs_batch_dims"])], i.shape.element_type)


def _pays(
    i: HloInstruction, total: PrimitiveType, few: Side, many: Side, most: int = MOST_ROWS
) -> bool:
    """Whether sums along memory are the way for a few rows and for columns that lie along it."""
    kept = i.shape.element_type
    is_kept = total.is_float and (kept is total or (total, kept) in NARROWED)
    is_along = many.step == 1 != many.free
    products = few.extent * many.extent * few.depth
    is_enough = products >= LEAST_PRODUCTS and few.depth >= WIDEST_NBYTES
    return is_kept and is_along and is_enough and few.extent <= most


def _most_rows(i: HloInstruction, depth: int) -> int:
    is_plain = all(x.shape.element_type is dt.F32 for x in (i, *i.operands[:2]))
    is_shallow = ROWS * depth * dt.F32.host_nbytes <= SHALLOW_NBYTES
    return MOST_SHALLOW_ROWS if is_plain and is_shallow else MOST_ROWS


def _few_columns_of(i: HloInstruction, found: Matrices) -> FewRowsPlan | None:
    """How a dot of many rows and few columns is computed by sums along memory."""
    total, rows, columns, (along, row, column) = found
    kept = i.shape.element_type
    if (kept is not total and column != 1) or not 2 <= columns.extent <= rows.extent:
        return None
    if not _pays(i, total, columns, rows):
        return None
    batch = i.shape.dims[: len(i["lhs_batch_dims"])]
    packs = columns.step != 1
    if packs:
        strides = element_strides(array(total, (*batch, columns.extent, columns.depth)))
        columns = Side(strides[:-2], columns.depth, columns.extent, 1, columns.depth)
    turned = Matrices(total, columns, rows, ResultStrides(along, column, row))
    return FewRowsPlan(turned, batch, kept, is_turned=True, packs=packs)


Emit = Callable[[ProductKind, FewRowsArguments, Index, IndexValue], None]
"""Writes a block's sums: given the batch index and the number of its first column too."""


def emit_few_rows(k: KernelBuild, plan: FewRowsPlan, emit: Emit | None = None) -> None:
    """Writes the kernel: blocks of columns for each batch index, all of them apart."""
    b, at = k.b, k.e.at
    extents = (*plan.batch, -(-plan.matrices.right.extent // BLOCK_COLUMNS))
    packed = plan.packed_shape(k.root)
    if packed is not None:
        _turn(k, plan, IrArray(k.scratch, packed))

    def part(begin: IndexValue, end: IndexValue) -> None:
        with b.loop(at.value(begin), at.value(end)) as number, k.e.scope():
            *batch, block = at.delinear(number, extents)
            _Block(k, plan, emit).emit(tuple(batch), at.mul(block, BLOCK_COLUMNS))

    k.split(prod(extents), part)


def _turn(k: KernelBuild, plan: FewRowsPlan, packed: IrArray) -> None:
    """Writes rows that lie across memory along it, in the kernel's own."""
    operand = plan.operands(k.root)[0]
    found = matrices_of(k.root)
    assert found is not None
    side, source = found.right, k.e.arrays[operand][0]
    count = len(plan.batch)

    def element(index: Index) -> None:
        batch, (row, step) = index[:count], index[count:]
        place = k.e.at.strided((*batch, row, step), (*side.batch, side.free, side.step))
        packed.store(k.b, index, source.load_linear(k.b, place))

    k.nest(packed.shape.dims, element)


class _Block:
    def __init__(self, k: KernelBuild, plan: FewRowsPlan, emit: Emit | None) -> None:
        self.k, self.plan, self.given = k, plan, emit

    def emit(self, batch: Index, column: IndexValue) -> None:
        k, b, at, plan = self.k, self.k.b, self.k.e.at, self.plan
        total, left, right, result = plan.matrices
        operands = plan.operands(k.root)
        types = [o.shape.element_type for o in operands]
        kind = ProductKind.of(b.module.target, types[0], types[1], total)
        kept_row, kept_column = (
            b.const(I64, n * plan.kept.host_nbytes) for n in (result.row, result.column)
        )
        first = at.add(at.strided(batch, result.batch), at.mul(column, result.column))
        kept = self._address(k.results[0].base, plan.kept, first)
        columns = b.intrinsic("smin", b.sub(right.extent, at.value(column)), BLOCK_COLUMNS)
        sums, rows, strides = kept, b.const(I64, left.extent), (kept_row, kept_column)
        if plan.kept is not total:
            sums = b.alloca(kind.element, BLOCK_COLUMNS * left.extent, align=64)
            between, along = b.const(I64, BLOCK_COLUMNS * kind.size), b.const(I64, kind.size)
            strides = (between, along)
            if plan.is_turned:
                strides = (along, b.const(I64, left.extent * kind.size))
        arguments = FewRowsArguments(
            matrix=self._matrix(batch, column),
            column=b.const(I64, right.free * types[1].host_nbytes),
            columns=columns,
            factors=self._address(
                k.scratch if plan.packs else k.e.arrays[operands[0]][0].base,
                types[0],
                at.strided(batch, left.batch),
            ),
            factors_row=b.const(I64, left.free * types[0].host_nbytes),
            rows=rows,
            depth=b.const(I64, left.depth),
            result=sums,
            result_row=strides[0],
            result_column=strides[1],
        )
        if self.given is None:
            call_few_rows(b, kind, arguments)
        else:
            self.given(kind, arguments, batch, column)
        if plan.kept is not total:
            lines = (strides[1], kept, kept_column, columns, rows)
            if not plan.is_turned:
                lines = (strides[0], kept, kept_row, rows, columns)
            narrowing = NarrowingArguments(sums, *lines)
            call_narrowing(b, kind, plan.kept, narrowing)

    def _matrix(self, batch: Index, column: IndexValue) -> Value:
        """The block's first column, if the right operand is in memory."""
        k, at, right = self.k, self.k.e.at, self.plan.matrices.right
        operand = self.plan.operands(k.root)[1]
        if self.given is not None:
            return k.results[0].base
        place = at.add(at.strided(batch, right.batch), at.mul(column, right.free))
        return self._address(k.e.arrays[operand][0].base, operand.shape.element_type, place)

    def _address(self, base: Value, dtype: PrimitiveType, place: IndexValue) -> Value:
        at = self.k.e.at
        return self.k.b.byte_address(base, at.value(at.mul(place, dtype.host_nbytes)))
