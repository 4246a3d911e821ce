"""Many rows times weights of fewer bits: parts of a block become numbers, which tiles then use.

A part stays in the second cache, laid out as the whole operand would be in memory; panels are
packed of it as ever.
"""

from __future__ import annotations

from math import prod

from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, PTR, Value
from xladev.codegen.scalar.storage import store_element
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.denormals import (
    LeastArguments,
    call_least_exponent,
)
from xladev.platforms.cpu.codegen.products.dot import (
    CHECK_NBYTES,
    LEAST_PAIR_ROWS,
    ROWS_STEP,
    cut,
)
from xladev.platforms.cpu.codegen.products.driver import (
    BlockArguments,
    call_block,
    call_block_of_pairs,
)
from xladev.platforms.cpu.codegen.products.kinds import PANEL_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.narrow_weights import NarrowWeights, Weights
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.tables import LinesArguments, call_lines

BLOCK_ROWS, BLOCK_COLUMNS = 240, 128
"""Most rows and columns of a block. Weights become numbers anew for each block of rows."""
PART_STEPS = 512
"""Most steps of a part of the depth."""
BLOCKS = 8
"""Blocks to share among threads."""
_LINE_NBYTES = 64
"""Between lines of a part, so that they are not in the same sets of a cache."""


class _Sizes:
    """Where a block's memory is: panel, table of rows, two numbers, sums, part; in bytes."""

    def __init__(self, plan: NarrowWeights) -> None:
        total, left, right, _ = plan.matrices
        self.steps = min(left.depth, PART_STEPS)
        self.size = plan.dot.operands[1].shape.element_type.host_nbytes
        length = self.steps if plan.is_along_depth else BLOCK_COLUMNS
        self.line = length * self.size + _LINE_NBYTES
        self.table = PANEL_NBYTES
        self.numbers = self.table + 8 * (min(BLOCK_ROWS, -(-left.extent // 24) * 24))
        self.sums = self.numbers + CHECK_NBYTES + 48
        rows, columns = min(left.extent, BLOCK_ROWS), min(right.extent, BLOCK_COLUMNS)
        has_sums = plan.kept is not total
        self.part = self.sums + has_sums * rows * columns * total.host_nbytes
        self.part = -(-self.part // 64) * 64
        lines = BLOCK_COLUMNS if plan.is_along_depth else self.steps
        self.nbytes = self.part + lines * self.line


def blocks_workspace_nbytes(plan: NarrowWeights) -> int:
    """Bytes that each thread needs."""
    return _Sizes(plan).nbytes


def emit_in_blocks(k: KernelBuild, plan: NarrowWeights, *, in_vectors: bool) -> None:
    """Writes the kernel.

    Raises:
        NotInVectorsError: weights do not become numbers in vectors.
    """
    _Blocks(k, plan, in_vectors).emit()


class _Blocks:
    def __init__(self, k: KernelBuild, plan: NarrowWeights, in_vectors: bool) -> None:
        self.k, self.b, self.plan, self.in_vectors = k, k.b, plan, in_vectors
        self.kind = _grouped(plan, plan.kind(k), k)
        self.order = Order.COLUMNS if plan.is_along_depth else Order.ROWS
        self.sizes = _Sizes(plan)
        self.weights = Weights(k, plan, self.kind.lanes)
        rows = plan.matrices.left.extent
        least = -(-BLOCKS // prod(plan.batch)) if k.is_shared else 1
        blocks = -(-plan.matrices.right.extent // BLOCK_COLUMNS)
        wanted = -(-least // blocks)
        self.rows = cut(rows, wanted, ROWS_STEP, ROWS_STEP, BLOCK_ROWS)

    def emit(self) -> None:
        """Blocks of rows and columns for each batch index, all of them apart."""
        b, at, plan = self.b, self.k.e.at, self.plan
        rows, columns = plan.matrices.left.extent, plan.matrices.right.extent
        extents = (*plan.batch, -(-rows // self.rows), -(-columns // BLOCK_COLUMNS))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                *batch, row, column = at.delinear(number, extents)
                first = at.value(at.mul(row, self.rows)), at.value(at.mul(column, BLOCK_COLUMNS))
                self._block(tuple(batch), *first)

        self.k.split(prod(extents), part, private_nbytes=self.sizes.nbytes)

    def _block(self, batch: Index, row: Value, column: Value) -> None:
        k, b, plan, at, sizes = self.k, self.b, self.plan, self.k.e.at, self.sizes
        total, left, right, result = plan.matrices
        rows = b.intrinsic("smin", b.sub(b.const(I64, left.extent), row), self.rows)
        columns = b.intrinsic("smin", b.sub(b.const(I64, right.extent), column), BLOCK_COLUMNS)
        size = self.kind.left.host_nbytes
        base = at.add(at.strided(batch, left.batch), at.mul(row, left.free))
        base_address = b.byte_address(
            k.e.arrays[k.root.operands[0]][0].base, at.value(at.mul(base, size))
        )
        kept_nbytes = plan.kept.host_nbytes
        place = at.add(at.strided(batch, result.batch), at.mul(row, result.row))
        place = at.mul(at.add(place, column), kept_nbytes)
        kept = b.byte_address(k.results[0].base, at.value(place))
        kept_row = b.const(I64, result.row * kept_nbytes)
        sums, sums_row = kept, kept_row
        if plan.kept is not total:
            sums = b.byte_address(k.scratch, sizes.sums)
            sums_row = b.const(I64, min(right.extent, BLOCK_COLUMNS) * self.kind.size)
        part = b.byte_address(k.scratch, sizes.part)
        if self.kind.has_pairs:
            numbers = b.byte_address(k.scratch, sizes.numbers)
            length, line = b.const(I64, left.depth), b.const(I64, left.free * size)
            least = LeastArguments(base_address, line, rows, length, numbers)
            call_least_exponent(b, self.kind, least)
        with b.loop(0, left.depth, sizes.steps) as first:
            steps = b.intrinsic("smin", b.sub(b.const(I64, left.depth), first), sizes.steps)
            self._fill(batch, first, steps, column, columns, part)
            source = b.byte_address(base_address, b.mul(first, left.step * size))
            table = b.byte_address(k.scratch, sizes.table)
            lines = LinesArguments(table, source, b.const(I64, left.free * size), rows)
            call_lines(b, self.kind.rows, lines)
            unit = self.kind.step.elements
            along = plan.is_along_depth
            self._call(
                BlockArguments(
                    table=table,
                    rows=rows,
                    positions=b.const(I64, 1),
                    left_step=b.const(I64, unit * left.step * size),
                    steps=b.udiv(steps, unit),
                    right=part,
                    right_position=b.const(I64, 0),
                    right_step=b.const(I64, unit * (sizes.size if along else sizes.line)),
                    right_column=b.const(I64, sizes.line if along else sizes.size),
                    result=sums,
                    result_row=sums_row,
                    columns=columns,
                    goes_on=first,
                    runs=Value("null", PTR),
                    panel=k.scratch,
                    most_lines=b.const(I64, self.kind.depth),
                )
            )
        if plan.kept is not total:
            narrowing = NarrowingArguments(sums, sums_row, kept, kept_row, rows, columns)
            call_narrowing(b, self.kind, plan.kept, narrowing)

    def _call(self, a: BlockArguments) -> None:
        """The fast functions of pairs where no denormal can come up."""
        b, kind, sizes = self.b, self.kind, self.sizes
        if not kind.has_pairs:
            call_block(b, kind, self.order, a)
            return
        numbers = b.byte_address(self.k.scratch, sizes.numbers)
        second = b.byte_address(numbers, 8)
        line = b.const(I64, sizes.line)
        steps = b.mul(a.steps, kind.step.elements)
        count, length = (a.columns, steps) if self.plan.is_along_depth else (steps, a.columns)
        call_least_exponent(b, kind, LeastArguments(a.right, line, count, length, second))
        call_block_of_pairs(b, kind, self.order, a, numbers)

    def _fill(
        self,
        batch: Index,
        first: Value,
        steps: Value,
        column: Value,
        columns: Value,
        part: Value,
    ) -> None:
        """A part of the block's weights as numbers, line by line as they are in memory."""
        b, along = self.b, self.plan.is_along_depth
        outer, inner = (column, first) if along else (first, column)
        counts = (columns, steps) if along else (steps, columns)
        lanes = self.kind.lanes if self.in_vectors else 1
        end = b.add(inner, counts[1])
        whole = b.sub(end, b.urem(counts[1], lanes))
        with b.loop(outer, b.add(outer, counts[0])) as y:
            line = b.byte_address(part, b.mul(b.sub(y, outer), self.sizes.line))
            ranges = ((inner, whole, lanes), (whole, end, 1))
            for start, stop, count in ranges if lanes > 1 else ranges[:1]:
                with b.loop(start, stop, count) as x, self.weights.e.scope():
                    self._store(batch, y, x, count, b.sub(x, inner), line)

    def _store(
        self, batch: Index, y: Value, x: Value, lanes: int, place: Value, line: Value
    ) -> None:
        weights = self.weights
        at = (x, y) if self.plan.is_along_depth else (y, x)
        if lanes > 1:
            weights.e.at.start(x, lanes)
        made = weights.vector(batch, *at) if lanes > 1 else weights.one(batch, *at)
        dtype = self.plan.dot.operands[1].shape.element_type
        store_element(self.b, line, place, dtype, made, align=dtype.host_nbytes)


def _grouped(plan: NarrowWeights, kind: ProductKind, k: KernelBuild) -> ProductKind:
    """The kind that multiplies pairs of bf16, where rows are for that."""
    left = plan.matrices.left
    pairs = kind.in_pairs(k.b.module.target)
    if pairs is None or left.step != 1 or left.depth % 2 or left.extent < LEAST_PAIR_ROWS:
        return kind
    return pairs
