"""Reductions across rows: one accumulator for each column, in memory that stays in the L1 cache.

Rows are read along memory. Of short rows, and of pieces of rows, some are read at once: their
elements are combined by halves before they go to the accumulator, which saves trips to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.vectors import NotInVectorsError, position
from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import I64, FunctionBuilder, Value, vector
from xladev.codegen.reductions import Reduction
from xladev.codegen.scalar.elements import real_of
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.reductions.reduction_space import ReductionSpace
from xladev.platforms.cpu.codegen.vectors import lanes_for, store_at

Positions = tuple[IndexValue, ...]

BLOCK = 2048
"""Columns that are reduced at once."""
LEAST_PARTS = 4
"""Blocks of columns, or parts of their rows, that threads share."""
LEAST_NBYTES = 1024
"""Bytes of a row that a block has at least: memory is read in long runs."""
MOST_NBYTES = 1 << 18
"""Most bytes, on the stack, of the accumulators of all parts."""
MOST_CHAIN = 128
"""Most additions to one accumulator: rounding grows with their number."""
MOST_ALONE = 1024
"""The same where threads need no parts of the rows: a trip to the parts' sums costs time."""
GROUPS = ((12, 8), (24, 4))
"""Most rows read at once, by the instructions in a kernel; one where there are more."""
AT_ONCE = 8
"""Pieces of rows that are open at once."""
SHORT_ROWS = 128
"""Elements that hide how long an accumulator takes to memory and back."""


def emit_column_reductions(
    k: KernelBuild,
    space: ReductionSpace,
    reductions: Sequence[Reduction],
    results: Sequence[IrArray],
) -> None:
    """Reductions whose innermost axis stays."""
    _ColumnReductions(k, space, reductions, results).emit()


class _ColumnReductions:
    """Writes the loops of one kernel."""

    def __init__(
        self,
        k: KernelBuild,
        space: ReductionSpace,
        reductions: Sequence[Reduction],
        results: Sequence[IrArray],
    ) -> None:
        self.k, self.b, self.space, self.reductions, self.results = (
            k,
            k.b,
            space,
            reductions,
            results,
        )
        self.columns = space.axes[-1].extent
        self.lanes = lanes_for(k, self.columns)
        if self.lanes == 1:
            raise NotInVectorsError("too few columns for vectors")
        self.e = space.emitter(self.lanes)
        size = len(k.spec.computation.instructions)
        most = next((rows for most, rows in GROUPS if size <= most), 1)
        self.group = min(most, self._rows_at_once())
        self.chain = MOST_ALONE if self._has_whole_rows() else MOST_CHAIN
        self.reduced = [axis.extent for axis in space.axes if axis.reduced]
        self.block = min(BLOCK, self.columns)
        self.in_parts = k.is_shared and self._has_parts()
        if k.is_shared and not self.in_parts:
            self.block = self._narrow_block()

    def emit(self) -> None:
        """All results."""
        if self.in_parts:
            self._one_block((*(0 for _ in self._kept()), 0))
            return
        self.k.split_nest([*self._kept(), -(-self.columns // self.block)], self._one_block)

    def _rows_at_once(self) -> int:
        """Few where whole rows are read; pieces of rows come in time only if many are open."""
        if not self._has_whole_rows():
            return AT_ONCE
        return 1 << max(1, SHORT_ROWS // self.columns).bit_length() - 1

    def _has_whole_rows(self) -> bool:
        """Whether threads have enough to do without pieces or parts of rows."""
        return self.columns <= BLOCK and prod(self._kept()) >= LEAST_PARTS

    def _kept(self) -> list[int]:
        return [axis.extent for axis in self.space.axes[:-1] if not axis.reduced]

    def _has_parts(self) -> bool:
        """Whether one block has several parts of rows, with room on the stack for their sums."""
        nbytes = sum(reduction.dtype.host_nbytes for reduction in self.reductions) * self.block
        parts = self._part_count(self.reduced)
        alone = self.columns <= BLOCK and prod(self._kept()) == 1
        return alone and LEAST_PARTS <= parts <= MOST_NBYTES // nbytes

    def _part_count(self, extents: Sequence[int]) -> int:
        """How many parts of rows `_over` adds; those that are not whole apart."""
        if prod(extents) <= self.chain * self.group:
            return 1
        return extents[0] if len(extents) > 1 else extents[0] // (self.chain * self.group)

    def _narrow_block(self) -> int:
        """Columns of a block such that several threads have some."""
        least = LEAST_NBYTES // min(reduction.dtype.host_nbytes for reduction in self.reductions)
        blocks = max(LEAST_PARTS // max(prod(self._kept()), 1), 1)
        wanted = -(-self.columns // blocks)
        return min(self.block, max(least, -(-wanted // least) * least))

    def _one_block(self, positions: Positions) -> None:
        *outer, number = positions
        first = self.e.at.value(self.e.at.mul(number, self.block))
        with self.e.scope():
            self.e.at.is_multiple(first, self.block)
            totals = self._buffers()
            block = _Block(self, tuple(outer), first)
            initial = [
                self.k.e.element(reduction.reduce.operands[1], ()) for reduction in self.reductions
            ]
            block.fill(totals, [real_of(x, "a reduction in vectors") for x in initial])
            self._over(block, (), self.reduced, totals)
            block.store(totals)

    def _buffers(self) -> list[Value]:
        return [
            self.b.alloca(reduction.type, self.block, align=64) for reduction in self.reductions
        ]

    def _over(
        self, block: _Block, at: Positions, extents: Sequence[int], held: Sequence[Value]
    ) -> None:
        """Combines accumulators with all rows of the remaining reduced axes."""
        if prod(extents) <= self.chain * self.group:
            self._rows(block, at, extents, (0, extents[-1]), held)
            return
        if self.in_parts and not at:
            self._shared_parts(block, extents, held)
            return
        parts = self._buffers()

        def part(rows: Callable[[], None]) -> None:
            block.fill(parts, [reduction.start(1) for reduction in self.reductions])
            rows()
            block.add(held, parts)

        if len(extents) > 1:
            with self.b.loop(0, extents[0]) as x, self.e.scope():
                part(lambda: self._over(block, (*at, x), extents[1:], parts))
            return
        size = self.chain * self.group
        whole = extents[0] // size * size
        with self.b.loop(0, whole, size) as x, self.e.scope():
            part(lambda: self._rows(block, at, extents, (x, size), parts))
        if whole < extents[0]:
            part(lambda: self._rows(block, at, extents, (whole, extents[0] - whole), parts))

    def _shared_parts(self, block: _Block, extents: Sequence[int], held: Sequence[Value]) -> None:
        """As `_over`: all parts in several threads, then added in their order."""
        count, size = self._part_count(extents), self.chain * self.group
        buffers = [self.b.alloca(f.type, count * self.block, align=64) for f in self.reductions]

        def own(number: Value) -> list[Value]:
            first = self.b.mul(number, self.block)
            pairs = zip(self.reductions, buffers, strict=True)
            return [self.b.element_address(buffer, first, r.type) for r, buffer in pairs]

        def part(begin: IndexValue, end: IndexValue) -> None:
            with self.b.loop(begin, end) as number, self.e.scope():
                parts = own(number)
                block.fill(parts, [reduction.start(1) for reduction in self.reductions])
                if len(extents) > 1:
                    self._over(block, (number,), extents[1:], parts)
                else:
                    self._rows(block, (), extents, (self.e.at.mul(number, size), size), parts)

        self.k.split(count, part, captures=buffers)
        with self.b.loop(0, count) as number:
            block.add(held, own(number))
        if len(extents) == 1 and count * size < extents[0]:
            parts = self._buffers()
            block.fill(parts, [reduction.start(1) for reduction in self.reductions])
            self._rows(block, (), extents, (count * size, extents[0] - count * size), parts)
            block.add(held, parts)

    def _rows(
        self,
        block: _Block,
        at: Positions,
        extents: Sequence[int],
        rows: tuple[IndexValue, int],
        held: Sequence[Value],
    ) -> None:
        """Some rows of the innermost reduced axis, at every position of those around it."""
        if len(extents) > 1:
            with self.b.loop(0, extents[0]) as x, self.e.scope():
                self._rows(block, (*at, x), extents[1:], rows, held)
            return
        start, count = rows
        whole = count // self.group * self.group
        base, end, stop = (self.k.e.at.value(self.k.e.at.add(start, n)) for n in (0, whole, count))
        if whole:
            with self.b.loop(base, end, self.group) as row, self.e.scope():
                group = [self.k.e.at.add(row, n) for n in range(self.group)]
                block.reduction([(*at, r) for r in group], held)
        if whole < count:
            with self.b.loop(end, stop) as row, self.e.scope():
                block.reduction([(*at, row)], held)


class _Block:
    """Loops over the columns of one block: vectors, then those that are left."""

    def __init__(self, around: _ColumnReductions, outer: Positions, first: Value) -> None:
        self.around, self.outer, self.first = around, outer, first
        self.b: FunctionBuilder = around.b
        self.width: Value = self.b.const(I64, around.block)
        if around.columns % around.block:
            left = self.b.sub(self.b.const(I64, around.columns), first)
            self.width = self.b.intrinsic("smin", left, around.block)

    def _columns(self, body: Callable[[Value, int], None]) -> None:
        """Runs ``body(column, lanes)``."""
        around = self.around
        lanes = around.lanes
        no_rest = around.columns % lanes == 0
        end = self.width if no_rest else self.b.and_(self.width, -lanes)
        with self.b.loop(0, end, lanes) as column, around.e.scope():
            around.e.at.start(column, lanes)
            body(column, lanes)
        if not no_rest:
            with self.b.loop(end, self.width) as column, around.k.e.scope():
                body(column, 1)

    def fill(self, buffers: Sequence[Value], elements: Sequence[Value]) -> None:
        """Stores one element for each reduction in every column."""

        def body(column: Value, lanes: int) -> None:
            for reduction, buffer, element in zip(
                self.around.reductions, buffers, elements, strict=True
            ):
                address = self.b.element_address(buffer, column, reduction.type)
                self.b.store(self.b.splat(element, lanes), address)

        self._columns(body)

    def _held(
        self, reduction: Reduction, buffer: Value, column: Value, lanes: int
    ) -> tuple[Value, Value]:
        address = self.b.element_address(buffer, column, reduction.type)
        return address, self.b.load(vector(reduction.type, lanes), address)

    def add(self, totals: Sequence[Value], parts: Sequence[Value]) -> None:
        """Combines accumulators with others."""

        def body(column: Value, lanes: int) -> None:
            for reduction, total, part in zip(self.around.reductions, totals, parts, strict=True):
                address, held = self._held(reduction, total, column, lanes)
                _, more = self._held(reduction, part, column, lanes)
                self.b.store(reduction.combine(self.b, held, more), address)

        self._columns(body)

    def reduction(self, rows: Sequence[Positions], buffers: Sequence[Value]) -> None:
        """Combines accumulators with the elements of some rows."""

        def body(column: Value, lanes: int) -> None:
            for reduction, buffer in zip(self.around.reductions, buffers, strict=True):
                new = [self._element(reduction, row, column, lanes) for row in rows]
                address, held = self._held(reduction, buffer, column, lanes)
                self.b.store(
                    reduction.combine(self.b, held, reduction.by_halves(self.b, new)), address
                )

        self._columns(body)

    def _positions(self, reduced: Positions, last: IndexValue) -> Positions:
        outer, inner = iter(self.outer), iter(reduced)
        axes = self.around.space.axes[:-1]
        return (*(next(inner) if axis.reduced else next(outer) for axis in axes), last)

    def _element(self, reduction: Reduction, row: Positions, column: Value, lanes: int) -> Value:
        space, operand = self.around.space, reduction.reduce.operands[0]
        if lanes == 1:
            single = self.around.k.e
            positions = self._positions(row, single.at.add(self.first, column))
            return real_of(
                single.element(operand, space.dims_at(single.at, positions)),
                "a reduction in vectors",
            )
        e = self.around.e
        positions = self._positions(row, e.at.add(self.first, column))
        return real_of(
            e.element(operand, space.vector_index(e, positions)), "a reduction in vectors"
        )

    def store(self, totals: Sequence[Value]) -> None:
        """Stores the results."""
        around = self.around
        nowhere = (0,) * len(around.reduced)

        def body(column: Value, lanes: int) -> None:
            at = around.k.e.at if lanes == 1 else around.e.at
            positions = self._positions(nowhere, at.add(self.first, column))
            for reduction, total, result in zip(
                around.reductions, totals, around.results, strict=True
            ):
                _, held = self._held(reduction, total, column, lanes)
                element = reduction.rounded(self.b, held)
                index = around.space.result_index(at, positions, reduction)
                if lanes == 1:
                    result.store(self.b, index, element)
                else:
                    store_at(around.k, result, position(at, result.shape, index), element)

        self._columns(body)
