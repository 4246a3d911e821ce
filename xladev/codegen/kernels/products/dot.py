"""Dots as blocks of products: which dots, where their operands lie, what memory they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernels.build import KernelBuild
from xladev.codegen.kernels.products.denormals import (
    LeastArguments,
    call_least_exponent,
    has_no_denormals,
)
from xladev.codegen.kernels.products.driver import (
    NEAR_NBYTES,
    BlockArguments,
    call_block,
    call_stream,
)
from xladev.codegen.kernels.products.kinds import PANEL_NBYTES, WIDEST_NBYTES, ProductKind
from xladev.codegen.kernels.products.matrices import Matrices, Side, matrices_by_shape, matrices_of
from xladev.codegen.kernels.products.narrowing import NarrowingArguments, call_narrowing
from xladev.codegen.kernels.products.orders import Order
from xladev.codegen.kernels.products.tables import LinesArguments, call_lines
from xladev.codegen.kernels.tactics import DEFAULT, Tactic
from xladev.codegen.llvm import I64, PTR, TargetTraits, Value
from xladev.hlo.dtype import BF16, PrimitiveType
from xladev.hlo.ir import HloInstruction

LEAST_PRODUCTS = 2048
"""Multiplications below which a plain loop is as fast."""
LEAST_ROWS = 2
LEAST_PAIR_ROWS = 16
"""Rows from which on it pays to look for denormals, which takes a pass over the columns."""
CHECK_NBYTES = 16
"""Two numbers about the operands of a block."""
LEAST_COLUMNS = WIDEST_NBYTES // 8
ROWS_STEP, COLUMNS_STEP = 48, 32
"""What tiles of 8 rows and of 6 divide, and tiles of all widths."""
BLOCK_ROWS = 240
"""Most rows of a block. Columns are packed anew for each block."""
BLOCK_COLUMNS = 512
LEAST_BLOCKS = 8
"""Blocks to share among threads; smaller ones than these two are not made for that."""
LEAST_BLOCK_ROWS = 48
LEAST_BLOCK_COLUMNS = 128
STREAMED_ROWS = 16
"""Rows up to which columns of a large operand are not packed: they would be used too seldom."""
STREAMED_COLUMNS = 1024


@dataclass(frozen=True, slots=True)
class DotPlan:
    """A dot as one product of matrices for each batch index; strides in elements.

    Attributes:
        total: type of the sums.
        kept: type of the result.
        batch: sizes of the batch dimensions.
        rows, columns, depth: sizes.
        left, right: the operands.
        result: strides of the result along batch and rows.
        tactic: how the blocks are cut and gone through.
    """

    total: PrimitiveType
    kept: PrimitiveType
    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    left: Side
    right: Side
    result: tuple[tuple[int, ...], int]
    tactic: Tactic = DEFAULT

    @property
    def block_rows(self) -> int:
        """Most rows of a block."""
        return self.tactic.block_rows or BLOCK_ROWS

    @property
    def panel_nbytes(self) -> int:
        """Bytes of a panel of packed columns."""
        return self.tactic.panel_nbytes or PANEL_NBYTES

    @property
    def order(self) -> Order:
        """How the right operand lies in memory."""
        if self.right.free == 1:
            return Order.ROWS
        return Order.COLUMNS if self.right.step == 1 else Order.APART

    def is_streamed(self, kind: ProductKind) -> bool:
        """True if the right operand is read as it lies in memory."""
        is_plain = self.order is Order.ROWS and kind.right is kind.total and not self.is_narrowed
        if not is_plain or self.columns % kind.width:
            return False
        if self.tactic.is_streamed is not None:
            return self.tactic.is_streamed
        is_near = self.depth * self.right.step * kind.size <= NEAR_NBYTES
        return is_near or self.rows <= STREAMED_ROWS

    @property
    def is_narrowed(self) -> bool:
        """True if the result has fewer bits than the sums."""
        return self.kept is not self.total

    @property
    def table_nbytes(self) -> int:
        """The addresses of a block's rows."""
        return 8 * min(self.block_rows, -(-self.rows // 24) * 24)

    @property
    def sums_nbytes(self) -> int:
        """The sums of a block, where the result does not take them."""
        rows, columns = min(self.rows, self.block_rows), min(self.columns, BLOCK_COLUMNS)
        return rows * columns * self.total.host_nbytes if self.is_narrowed else 0

    @property
    def workspace_nbytes(self) -> int:
        """One packed panel, the table of rows, two numbers, sums."""
        return self.panel_nbytes + self.table_nbytes + CHECK_NBYTES + self.sums_nbytes


def dot_plan(i: HloInstruction, tactic: Tactic = DEFAULT) -> DotPlan | None:
    """How a dot is computed in blocks; None if it is not."""
    found = matrices_of(i)
    plan = None if found is None else _plan(i, found)
    return None if plan is None else replace(plan, tactic=tactic)


def is_fast_as_it_is(i: HloInstruction) -> bool:
    """True if blocks read the operands of a dot, row-major ones, without going to and fro."""
    found = matrices_by_shape(i)
    if found is None or not all(is_row_major(value.shape) for value in (i, *i.operands)):
        return False
    plan = _plan(i, found)
    if plan is None or plan.order is Order.APART:
        return False
    return 1 in (plan.left.step, plan.left.free)


def _plan(i: HloInstruction, found: Matrices) -> DotPlan | None:
    total, left, right, result = found
    rows, columns = left.extent, right.extent
    if result.column != 1 or rows < LEAST_ROWS or columns < LEAST_COLUMNS:
        return None
    if rows * columns * left.depth < LEAST_PRODUCTS:
        return None
    batch = i.shape.dims[: len(i["lhs_batch_dims"])]
    kept = i.shape.element_type
    strides = result.batch, result.row
    return DotPlan(total, kept, batch, rows, columns, left.depth, left, right, strides)


def cut(extent: int, parts: int, step: int, least: int, most: int) -> int:
    """Size of about equal parts of an extent.

    Args:
        extent: what is cut.
        parts: how many parts are wanted.
        step: divides the size.
        least, most: bounds of the size, which the step divides.
    """
    count = max(parts, -(-extent // most))
    size = -(-extent // count)
    return min(max(-(-size // step) * step, least), most)


def emit_dot_blocks(k: KernelBuild, plan: DotPlan) -> None:
    """Writes the kernel: blocks of rows and columns for each batch index, all of them apart."""
    _Blocks(k, plan).emit()


def _grouped(plan: DotPlan, kind: ProductKind, target: TargetTraits) -> ProductKind:
    """The kind that multiplies neighbours of a row at once, where they lie for that."""
    if plan.left.step != 1:
        return kind
    pairs, quads = kind.in_pairs(target), kind.in_quads(target)
    if quads is not None and plan.depth % quads.step.elements == 0:
        return quads
    is_aligned = plan.order is Order.ROWS or (
        plan.order is Order.COLUMNS
        and all(n % 2 == 0 for n in (plan.right.free, *plan.right.batch))
    )
    if pairs is not None and is_aligned and plan.depth % pairs.step.elements == 0:
        return pairs if plan.rows >= LEAST_PAIR_ROWS else kind
    return kind


class _Blocks:
    def __init__(self, k: KernelBuild, plan: DotPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        left, right = (o.shape.element_type for o in k.root.operands[:2])
        kind = ProductKind.of(k.b.module.target, left, right, plan.total)
        self.kind = _grouped(plan, kind.by(plan.tactic), k.b.module.target)
        self.is_streamed = plan.is_streamed(self.kind)
        widest = STREAMED_COLUMNS if self.is_streamed else BLOCK_COLUMNS
        least = LEAST_BLOCKS if k.is_shared else 1
        tall = LEAST_BLOCK_ROWS if k.is_shared else plan.block_rows
        self.rows = cut(plan.rows, least, ROWS_STEP, tall, plan.block_rows)
        least = -(-least // -(-plan.rows // self.rows))
        self.columns = cut(plan.columns, least, COLUMNS_STEP, LEAST_BLOCK_COLUMNS, widest)

    def emit(self) -> None:
        """One loop over all blocks, in parts."""
        p, b, at = self.plan, self.b, self.k.e.at
        extents = (*p.batch, -(-p.rows // self.rows), -(-p.columns // self.columns))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                *batch, row, column = at.delinear(number, extents)
                first = at.value(at.mul(row, self.rows)), at.value(at.mul(column, self.columns))
                self._block(tuple(batch), *first)

        self.k.split(prod(extents), part, private_nbytes=p.workspace_nbytes)

    def _block(self, batch: Index, row: Value, column: Value) -> None:
        p, b, kind = self.plan, self.b, self.kind
        rows = b.intrinsic("smin", b.sub(b.const(I64, p.rows), row), self.rows)
        columns = b.intrinsic("smin", b.sub(b.const(I64, p.columns), column), self.columns)
        unit = kind.step.elements
        sizes = [o.shape.element_type.host_nbytes for o in self.k.root.operands[:2]]
        left, right = (self.k.e.arrays[o][0] for o in self.k.root.operands[:2])
        panel = self.k.scratch
        table = b.byte_address(panel, p.panel_nbytes)
        base = self._address(left.base, sizes[0], batch, (p.left.batch, p.left.free), row)
        self._fill_table(table, base, rows, p.left.free * sizes[0])
        kept_nbytes = p.kept.host_nbytes
        kept = self._address(self.k.results[0].base, kept_nbytes, batch, p.result, row)
        kept = b.byte_address(kept, b.mul(column, kept_nbytes))
        kept_row = b.const(I64, p.result[1] * kept_nbytes)
        numbers = b.byte_address(table, p.table_nbytes)
        sums, sums_row = kept, kept_row
        if p.is_narrowed:
            sums = b.byte_address(numbers, CHECK_NBYTES)
            sums_row = b.const(I64, min(self.columns, p.columns) * kind.size)
        arguments = BlockArguments(
            table=table,
            rows=rows,
            positions=b.const(I64, 1),
            left_step=b.const(I64, unit * p.left.step * sizes[0]),
            steps=b.const(I64, p.depth // unit),
            right=self._address(right.base, sizes[1], batch, (p.right.batch, p.right.free), column),
            right_position=b.const(I64, 0),
            right_step=b.const(I64, unit * p.right.step * sizes[1]),
            right_column=b.const(I64, p.right.free * sizes[1]),
            result=sums,
            result_row=sums_row,
            columns=columns,
            goes_on=b.const(I64, 0),
            runs=Value("null", PTR),
            panel=panel,
        )
        if self.is_streamed:
            call_stream(b, kind, arguments)
            return
        if kind.has_pairs:
            self._call_pairs(arguments, base, numbers)
        else:
            call_block(b, kind, p.order, arguments)
        if p.is_narrowed:
            narrowing = NarrowingArguments(sums, sums_row, kept, kept_row, rows, columns)
            call_narrowing(b, kind, p.kept, narrowing)

    def _call_pairs(self, a: BlockArguments, left: Value, numbers: Value) -> None:
        """The fast functions where no denormal can come up."""
        p, b, kind = self.plan, self.b, self.kind
        depth, row = b.const(I64, p.depth), b.const(I64, p.left.free * BF16.host_nbytes)
        second = b.byte_address(numbers, 8)
        call_least_exponent(b, kind, LeastArguments(left, row, a.rows, depth, numbers))
        step = b.const(I64, p.right.step * BF16.host_nbytes)
        lines = (
            LeastArguments(a.right, step, depth, a.columns, second)
            if p.order is Order.ROWS
            else LeastArguments(a.right, a.right_column, a.columns, depth, second)
        )
        call_least_exponent(b, kind, lines)
        is_safe = has_no_denormals(b, numbers, second)
        with b.when(is_safe):
            call_block(b, kind, p.order, a)
        with b.when(b.not_(is_safe)):
            call_block(b, kind.exact, p.order, a)

    def _address(
        self,
        base: Value,
        size: int,
        batch: Index,
        strides: tuple[tuple[int, ...], int],
        first: Value,
    ) -> Value:
        at = self.k.e.at
        place = at.add(at.strided(batch, strides[0]), at.mul(first, strides[1]))
        return self.b.byte_address(base, at.value(at.mul(place, size)))

    def _fill_table(self, table: Value, base: Value, rows: Value, stride: int) -> None:
        """Addresses of the rows; the last one again and again to the end of its tile."""
        b, most = self.b, self.kind.rows
        call_lines(b, most, LinesArguments(table, base, b.const(I64, stride), rows))
