"""Few rows times columns along memory whose weights are looked up in tables (`narrow_tables.py`).

A vector of words of 32 bits holds some weights in each lane. Shifted by the bits of one of them, it
is 16 numbers of a table's lanes; the instruction that looks them up takes no notice of their other
bits. Rows are laid out in the order in which weights come, once.

The columns of a tile are a quarter of a block apart. So memory is read in four runs, each in its
own order from column to column, which processors foresee. With neighbours, each run would end with
its column: measured, 10 GB/s instead of 15, however far ahead weights are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xladev.codegen.elemental.movement import reshaped_index
from xladev.codegen.elemental.pieces import WORD_NBITS, value_in_order
from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value, integer, vector
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import to_bits
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.few_rows import (
    FewRowsArguments,
    FewRowsPlan,
    emit_few_rows,
)
from xladev.platforms.cpu.codegen.products.kinds import CACHE_LINE_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.lane_sums import lane_sums
from xladev.platforms.cpu.codegen.products.narrow_tables import (
    LANES,
    TableEmitter,
    WeightTables,
)
from xladev.platforms.cpu.codegen.products.narrow_weights import NarrowWeights, Weights

COLUMNS, ROWS = 4, 4
"""Columns of a tile, and its rows at most: sums fill half of the registers."""
AHEAD = 2048
"""Bytes by which weights are fetched ahead."""
LEAST_ASKED_NBYTES = 256 << 10
"""Bytes of arrays for which it pays."""


def lookup_workspace_nbytes(plan: NarrowWeights) -> int:
    """The rows in f32, in the order of the weights."""
    left = plan.matrices.left
    return prod(plan.batch) * left.extent * left.depth * 4


def emit_lookups(
    k: KernelBuild, plan: NarrowWeights, tables: WeightTables, way: type[Lookups] | None = None
) -> None:
    """Writes the kernel, for targets with `has_lookups`; with ``way``, sums are made that way.

    Raises:
        NotInVectorsError: elements that weights are taken out of are no neighbours.
    """
    _lay_out(k, plan, tables)

    def emit(kind: ProductKind, a: FewRowsArguments, batch: Index, column: IndexValue) -> None:
        (way or Lookups)(k, plan, tables, kind, a, (batch, column)).emit()

    emit_few_rows(k, FewRowsPlan(plan.matrices, plan.batch, plan.kept), emit)


def _row(k: KernelBuild, plan: NarrowWeights, batch: Index, row: IndexValue) -> Value:
    """Where a row is laid out."""
    place = k.e.at.mul(row_number(k, plan, batch, row), plan.matrices.left.depth * 4)
    return k.b.byte_address(k.scratch, k.e.at.value(place))


def row_number(k: KernelBuild, plan: NarrowWeights, batch: Index, row: IndexValue) -> IndexValue:
    """A row's number among those of all batch indices."""
    at = k.e.at
    return at.add(at.mul(at.linear(batch, plan.batch), plan.matrices.left.extent), row)


def row_address(k: KernelBuild, plan: NarrowWeights, batch: Index, row: IndexValue) -> Value:
    """Where a row is in memory."""
    left, at, kind = plan.matrices.left, k.e.at, plan.kind(k)
    place = at.add(at.strided(batch, left.batch), at.mul(row, left.free))
    base = k.e.arrays[k.root.operands[0]][0].base
    return k.b.byte_address(base, at.value(at.mul(place, kind.left.host_nbytes)))


def _lay_out(k: KernelBuild, plan: NarrowWeights, tables: WeightTables) -> None:
    """Lays rows out: elements of a chunk in the order of their numbers modulo those of a word."""
    b, kind, left = k.b, plan.kind(k), plan.matrices.left
    size, chunk = kind.left.host_nbytes, tables.chunk

    def row(index: Index) -> None:
        *batch, number = index
        target = _row(k, plan, tuple(batch), number)
        source = row_address(k, plan, tuple(batch), number)
        whole = left.depth - left.depth % chunk
        for start, stop, lanes in ((0, whole, chunk), (whole, left.depth, 1)):
            with b.loop(start, stop, lanes) as x:
                value = kind.read(b, b.byte_address(source, b.mul(x, size)), kind.left, lanes)
                laid = value_in_order(b, value, tables.per_word)
                b.store(laid, b.byte_address(target, b.mul(x, 4)), align=4)

    k.nest((*plan.batch, left.extent), row)


class Lookups:
    """A block of columns.

    Args:
        k: the kernel.
        plan: of its dot.
        tables: what is looked up.
        kind: types and vectors.
        a: where results go.
        first: the batch index, and the number of the first column.
    """

    def __init__(
        self,
        k: KernelBuild,
        plan: NarrowWeights,
        tables: WeightTables,
        kind: ProductKind,
        a: FewRowsArguments,
        first: tuple[Index, IndexValue],
    ) -> None:
        self.k, self.b, self.plan, self.tables = k, k.b, plan, tables
        self.kind, self.a = kind, a
        self.batch, self.first = first
        self.numbers = TableEmitter(k, tables)
        self.words = VectorEmitter(k.e, tables.chunk // tables.per_element)
        self.words.least_asked_nbytes = LEAST_ASKED_NBYTES
        self.weights = Weights(k, plan, 1)
        left = plan.matrices.left
        self.rows = [_row(k, plan, self.batch, r) for r in range(left.extent)]
        self.depth = left.depth
        self.whole = left.depth - left.depth % tables.chunk
        most = CACHE_LINE_NBYTES // (tables.words * 4)
        chunks = self.whole // tables.chunk
        self.at_once = next(n for n in (8, 4, 2, 1) if n <= most and chunks % n == 0)

    def emit(self) -> None:
        """Columns a quarter of the block apart are one tile; the last ones again if need be."""
        b = self.b
        last, apart = b.sub(self.a.columns, 1), b.udiv(b.add(self.a.columns, COLUMNS - 1), COLUMNS)
        with b.loop(0, apart) as first:
            columns = [
                b.intrinsic("smin", b.add(first, b.mul(apart, n)), last) for n in range(COLUMNS)
            ]
            for start in range(0, len(self.rows), ROWS):
                with self.k.e.scope():
                    self._tile(columns, range(start, min(start + ROWS, len(self.rows))))

    def _tile(self, columns: Sequence[Value], rows: Sequence[int]) -> None:
        b = self.b
        sums = self.sums(columns, rows)
        starts = range(0, len(sums), COLUMNS)
        of_rows = [lane_sums(b, sums[n : n + COLUMNS]) for n in starts]
        totals = self._rest(columns, rows, [total for row in of_rows for total in row])
        for n, total in enumerate(totals):
            row = b.byte_address(self.a.result, b.mul(self.a.result_row, rows[n // COLUMNS]))
            column = b.mul(columns[n % COLUMNS], self.a.result_column)
            b.store(total, b.byte_address(row, column))

    def sums(self, columns: Sequence[Value], rows: Sequence[int]) -> Sequence[Value]:
        """A vector of sums for each column of the first row, of the second, and so on."""
        zeros = [self.b.const(self.kind.vector, 0)] * (len(columns) * len(rows))

        def step(depth: Value, sums: list[Value]) -> None:
            self._chunk(columns, rows, depth, sums)

        return self.over_chunks(zeros, step)

    def over_chunks(
        self, initial: Sequence[Value], step: Callable[[Value, list[Value]], None]
    ) -> Sequence[Value]:
        """Goes over whole chunks: ``step`` is given where one begins, and changes the values."""
        b, chunk = self.b, self.tables.chunk
        with b.carried_loop(0, self.whole, chunk * self.at_once, initial=initial) as loop:
            held = list(loop.values)
            for n in range(self.at_once):
                self.words.ahead = AHEAD if n == 0 else 0
                with self.k.e.scope(), self.numbers.scope(), self.words.scope():
                    step(b.add(loop.index, n * chunk), held)
            loop.carry(*held)
        return list(loop.values)

    def table(self, column: IndexValue, depth: Value) -> Value:
        """The numbers of a chunk's patterns, in f32."""
        index = self.weights.index(self.numbers.at, self.batch, depth, column)
        return real_of(self.numbers.element(self.plan.dot.operands[1], index), "a product")

    def _chunk(
        self, columns: Sequence[Value], rows: Sequence[int], depth: Value, sums: list[Value]
    ) -> None:
        """Looks the weights of a chunk up, and goes on with the sums."""
        b, tables = self.b, self.tables
        per_vector = LANES // tables.words
        numbers, words = list[Value](), list[Value]()
        for column in columns:
            place = self.k.e.at.add(self.first, column)
            numbers.append(self.table(place, depth))
            found = self.words_of(place, depth)
            words.append(b.shuffle(found, found, tuple(n % tables.words for n in range(LANES))))
        for v in range(tables.chunk // LANES):
            moved = [tables.place(n // tables.words + per_vector * v) for n in range(LANES)]
            by = Value(f"<{', '.join(f'i32 {n}' for n in moved)}>", words[0].type)
            shifted = [b.lshr(held, by) if any(moved) else held for held in words]
            weights = [b.look_up(*x) for x in zip(numbers, shifted, strict=True)]
            for r, row in enumerate(rows):
                address = b.byte_address(self.rows[row], b.mul(b.add(depth, v * LANES), 4))
                factor = b.load(self.kind.vector, address, align=4)
                for n, weight in enumerate(weights, r * COLUMNS):
                    sums[n] = self.kind.multiply_add(b, factor, weight, sums[n])

    def words_of(self, column: IndexValue, depth: Value) -> Value:
        """The words of a chunk."""
        b, e, tables = self.b, self.words, self.tables
        source, per = tables.source, tables.per_element
        first = b.udiv(depth, per)
        e.at.start(first, e.lanes)
        batches, columns = prod(self.plan.batch), self.plan.matrices.right.extent
        batch = e.at.linear(self.batch, self.plan.batch)
        ours = (batches, columns, self.depth // per)
        index = reshaped_index(e, (batch, column, first), ours, source.shape.dims)
        found = to_bits(b, e.element(source, index), source.shape.element_type)
        type_ = vector(integer(WORD_NBITS), tables.words)
        return b.emit(type_, f"bitcast {found} to {type_.text}")

    def _rest(
        self, columns: Sequence[Value], rows: Sequence[int], totals: Sequence[Value]
    ) -> Sequence[Value]:
        """Adds what is behind the last whole chunk of a column, one by one."""
        b, kind = self.b, self.kind
        if self.whole == self.depth:
            return totals
        with b.carried_loop(self.whole, self.depth, initial=totals) as loop:
            sums = list(loop.values)
            with self.k.e.scope():
                for n, column in enumerate(columns):
                    place = self.k.e.at.add(self.first, column)
                    one = self.weights.one(self.batch, loop.index, place)
                    weight = self.weights.summed(one, kind)
                    for r, row in enumerate(rows):
                        address = b.byte_address(self.rows[row], b.mul(loop.index, 4))
                        factor, at = b.load(kind.element, address), r * COLUMNS + n
                        sums[at] = kind.multiply_add(b, factor, weight, sums[at])
            loop.carry(*sums)
        return loop.values
