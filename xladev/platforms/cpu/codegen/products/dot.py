"""Dots as blocks of products: which dots, where their operands are, what memory they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, PTR, TargetTraits, Value
from xladev.codegen.matrices import Matrices, Side, matrices_by_shape, matrices_of
from xladev.hlo.dtype import BF16, PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.denormals import (
    LeastArguments,
    call_least_exponent,
)
from xladev.platforms.cpu.codegen.products.depth_parts import (
    add_parts,
    depth_parts,
    part_depth,
    part_steps,
)
from xladev.platforms.cpu.codegen.products.driver import (
    NEAR_NBYTES,
    BlockArguments,
    call_block,
    call_block_of_pairs,
    call_stream,
)
from xladev.platforms.cpu.codegen.products.kinds import (
    PANEL_NBYTES,
    WIDEST_NBYTES,
    ProductKind,
    ReductionStep,
)
from xladev.platforms.cpu.codegen.products.left_panels import (
    BETWEEN_NBYTES,
    PACKED_STEPS,
    LeftArguments,
    call_pack_left,
    packed_left_nbytes,
    pays_to_pack_left,
)
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.panels import Panels, panels_of
from xladev.platforms.cpu.codegen.products.tables import LinesArguments, call_lines
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

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
LONG_NBYTES = 4
"""Bytes of the sums whose panels are long."""
LONG_PANEL_NBYTES, LONG_LINES = 2 * PANEL_NBYTES, 512
"""Panels of so many bytes have so many lines at most, unless shorter ones have more: the sums go to
memory and back less often, and rows of a block and the panel stay in the second cache. Measured
best with 64-byte vectors of f32."""
LEAST_BLOCKS = 8
"""Blocks to share among threads; smaller ones than these two are not made for that."""
LEAST_BLOCK_ROWS = 48
LEAST_BLOCK_COLUMNS = 128
STREAMED_ROWS = 16
"""Rows up to which columns of a large operand are not packed: they would be used too seldom."""
STREAMED_COLUMNS = 4096
"""Columns of a block that is not packed: memory is read in long runs."""
PAGE_COLUMNS = 1024
"""The same where threads share blocks: memory is read in runs of a page. Two threads that read half
pages need up to twice the time of one, so the depth is cut where two runs are more than a row."""
LEAST_ROW_NBYTES = 4 * WIDEST_NBYTES
"""Bytes of a row of a right operand whose depth is cut: tiles of all machines are as wide at most,
so that all cut the same products."""
CACHED_NBYTES, CACHED_COLUMNS = 4 << 20, 256
"""Right operands of so few bytes are expected in a cache, where short runs cost one thread 1%:
shared blocks have as few columns as these."""


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
        panels: where the right operand is, if it is packed.
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
    panels: Panels | None = None
    tactic: Tactic = DEFAULT

    @property
    def block_rows(self) -> int:
        """Most rows of a block."""
        return self.tactic.block_rows or BLOCK_ROWS

    @property
    def block_columns(self) -> int:
        """Most columns of a block that is packed."""
        return self.tactic.block_columns or BLOCK_COLUMNS

    @property
    def panel_nbytes(self) -> int:
        """Bytes of a panel that is packed; none for one that is packed."""
        return 0 if self.panels is not None else self.part_nbytes

    @property
    def part_nbytes(self) -> int:
        """Most bytes of a panel in one part of the depth."""
        is_long = self.total.host_nbytes == LONG_NBYTES and not self.is_narrowed
        return self.tactic.panel_nbytes or (LONG_PANEL_NBYTES if is_long else PANEL_NBYTES)

    def lines(self, kind: ProductKind) -> int:
        """Most lines of a panel in one part of the depth."""
        if self.tactic.panel_nbytes or kind.step is not ReductionStep.ELEMENT:
            return kind.depth
        return max(kind.depth, min(LONG_LINES, self.part_nbytes // (kind.width * kind.size)))

    @property
    def order(self) -> Order:
        """How the right operand is laid out in memory."""
        if self.panels is not None:
            return Order.PANELS
        if self.right.free == 1:
            return Order.ROWS
        return Order.COLUMNS if self.right.step == 1 else Order.APART

    def is_streamed(self, kind: ProductKind) -> bool:
        """True if the right operand is read as it is in memory."""
        is_plain = self.order is Order.ROWS and kind.right is kind.total and not self.is_narrowed
        if not is_plain or self.columns < kind.width:
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
        rows, columns = min(self.rows, self.block_rows), min(self.columns, self.block_columns)
        return rows * columns * self.total.host_nbytes if self.is_narrowed else 0

    @property
    def packs_left(self) -> bool:
        """True if rows are packed: neighbours of a step, far from those of the next, used often."""
        is_apart = self.left.free == 1 < self.left.step
        nbytes = self.depth * self.left.step * self.total.host_nbytes
        return is_apart and pays_to_pack_left(self.rows, self.columns, nbytes)

    @property
    def depth_parts(self) -> int:
        """In how many parts the depth of a product is cut whose right operand is streamed."""
        is_whole = prod(self.batch) == 1 and self.result[1] == self.columns
        if not is_whole or self.rows > STREAMED_ROWS or self.packs_left or self.is_narrowed:
            return 1
        row_nbytes = self.columns * self.total.host_nbytes
        is_wide = self.columns >= 2 * PAGE_COLUMNS
        if is_wide or row_nbytes < LEAST_ROW_NBYTES or self.tactic.is_streamed is False:
            return 1
        return depth_parts(self.rows, self.depth, row_nbytes) if self.order is Order.ROWS else 1

    def cuts_depth(self, kind: ProductKind) -> bool:
        """True if threads share the depth of the product."""
        return self.is_streamed(kind) and self.depth_parts > 1

    @property
    def parts_shape(self) -> Shape:
        """The sums of all parts of the depth."""
        return array(self.total, (self.depth_parts, self.rows, self.columns))

    @property
    def workspace_nbytes(self) -> int:
        """What each thread needs, and the sums of parts of the depth."""
        parts_nbytes = self.parts_shape.nbytes if self.depth_parts > 1 else 0
        return self.private_nbytes + parts_nbytes

    @property
    def private_nbytes(self) -> int:
        """One packed panel, the table of rows, two numbers, sums, rows that are packed."""
        return -(-(self.packed_left + self.packed_left_nbytes) // 64) * 64

    @property
    def packed_left(self) -> int:
        """Where packed rows begin in it."""
        return self.panel_nbytes + self.table_nbytes + CHECK_NBYTES + self.sums_nbytes

    @property
    def packed_left_nbytes(self) -> int:
        """The rows of a block in one part of the depth, where they are packed."""
        if not self.packs_left:
            return 0
        return packed_left_nbytes(self.table_nbytes // 8, self.depth, self.total.host_nbytes)


def dot_plan(i: HloInstruction, tactic: Tactic = DEFAULT) -> DotPlan | None:
    """How a dot is computed in blocks; None if it is not."""
    panels = panels_of(i) if i.operands[0].opcode == "parameter" else None
    found = matrices_by_shape(i) if panels is not None else matrices_of(i)
    plan = None if found is None else _plan(i, found, panels)
    return None if plan is None else replace(plan, tactic=tactic)


def dot_kind(plan: DotPlan, i: HloInstruction, target: TargetTraits) -> ProductKind:
    """The functions that a dot's blocks need."""
    left, right = (o.shape.element_type for o in i.operands[:2])
    kind = ProductKind.of(target, left, right, plan.total)
    return _grouped(plan, kind.by(plan.tactic), target)


def is_fast_as_it_is(i: HloInstruction) -> bool:
    """True if blocks read the operands of a dot, row-major ones, without going to and fro."""
    found = matrices_by_shape(i)
    if found is None or not all(is_row_major(value.shape) for value in (i, *i.operands)):
        return False
    plan = _plan(i, found)
    if plan is None or plan.order is Order.APART:
        return False
    return 1 in (plan.left.step, plan.left.free)


def _plan(i: HloInstruction, found: Matrices, panels: Panels | None = None) -> DotPlan | None:
    total, left, right, result = found
    rows, columns = left.extent, right.extent
    least = LEAST_ROWS if panels is None else 1
    if result.column != 1 or rows < least or columns < LEAST_COLUMNS:
        return None
    if rows * columns * left.depth < LEAST_PRODUCTS:
        return None
    batch = i.shape.dims[: len(i["lhs_batch_dims"])]
    kept = i.shape.element_type
    strides = result.batch, result.row
    return DotPlan(total, kept, batch, rows, columns, left.depth, left, right, strides, panels)


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


def block_sizes(plan: DotPlan, is_streamed: bool, is_shared: bool) -> tuple[int, int]:
    """Rows and columns of a block; enough blocks to share, if that takes no narrow ones.

    Columns are cut before rows: those of a block are packed by the thread that takes it, and each
    further block of rows packs them once more.
    """
    run = PAGE_COLUMNS if is_shared else STREAMED_COLUMNS
    widest = run if is_streamed else plan.block_columns
    least = -(-LEAST_BLOCKS // prod(plan.batch)) if is_shared else 1
    rows = cut(plan.rows, 1, ROWS_STEP, plan.block_rows, plan.block_rows)
    narrow = LEAST_BLOCK_COLUMNS
    if is_streamed and plan.rows <= STREAMED_ROWS:
        nbytes = plan.depth * plan.columns * plan.total.host_nbytes
        narrow = CACHED_COLUMNS if is_shared and nbytes <= CACHED_NBYTES else widest
    wanted = -(-least // -(-plan.rows // rows))
    columns = cut(plan.columns, wanted, COLUMNS_STEP, narrow, widest)
    wanted = -(-least // -(-plan.columns // columns))
    if is_shared and wanted > -(-plan.rows // rows):
        rows = cut(plan.rows, wanted, ROWS_STEP, LEAST_BLOCK_ROWS, plan.block_rows)
    return rows, columns


def emit_dot_blocks(k: KernelBuild, plan: DotPlan) -> None:
    """Writes the kernel: blocks of rows and columns for each batch index, all of them apart."""
    _Blocks(k, plan).emit()


def _grouped(plan: DotPlan, kind: ProductKind, target: TargetTraits) -> ProductKind:
    """The kind that multiplies neighbours of a row at once, where they are for that."""
    if plan.left.step != 1:
        return kind
    pairs, quads = kind.in_pairs(target), kind.in_quads(target)
    if quads is not None and plan.depth % quads.step.elements == 0:
        return quads
    is_aligned = plan.order in (Order.ROWS, Order.PANELS) or (
        plan.order is Order.COLUMNS
        and all(n % 2 == 0 for n in (plan.right.free, *plan.right.batch))
    )
    if pairs is not None and is_aligned and plan.depth % pairs.step.elements == 0:
        return pairs if plan.rows >= LEAST_PAIR_ROWS else kind
    return kind


def fits_target(plan: DotPlan, i: HloInstruction, target: TargetTraits) -> bool:
    """False if the right operand is in panels that are not the target's."""
    if plan.panels is None:
        return True
    kind, form = dot_kind(plan, i, target), plan.panels.form
    return (form.width, form.unit) == (kind.width, kind.step.elements) and kind.keeps_columns


class _Steps(NamedTuple):
    """Some steps of the depth: the first one, how many, and where their sums go."""

    first: Value
    length: Value
    result: Value


class _Right(NamedTuple):
    """Where the columns of a block begin; bytes from step to step, and from column to column."""

    first: Value
    step: int
    column: int


class _Blocks:
    def __init__(self, k: KernelBuild, plan: DotPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        self.kind = dot_kind(plan, k.root, k.b.module.target)
        self.is_streamed = plan.is_streamed(self.kind)
        self.rows, self.columns = block_sizes(plan, self.is_streamed, k.is_shared)

    def emit(self) -> None:
        """One loop over all blocks or parts of the depth, for threads to share."""
        if self.plan.cuts_depth(self.kind):
            self._depth_parts()
        else:
            self._blocks()

    def _depth_parts(self) -> None:
        """All rows and columns; each thread reads whole rows of the right operand."""
        p, b, at = self.plan, self.b, self.k.e.at
        self.columns = p.columns
        size = part_depth(p.depth, p.depth_parts)
        sums = b.byte_address(self.k.scratch, p.private_nbytes)
        nbytes = p.rows * p.columns * p.total.host_nbytes
        zero, batch = b.const(I64, 0), (0,) * len(p.batch)

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                first, last = part_steps(self.k, number, size, p.depth)
                steps = _Steps(
                    first, b.sub(last, first), b.byte_address(sums, b.mul(number, nbytes))
                )
                self._block(batch, zero, zero, steps)

        self.k.split(p.depth_parts, part, captures=[sums], private_nbytes=p.private_nbytes)
        add_parts(self.k, p.parts_shape, p.private_nbytes)

    def _blocks(self) -> None:
        p, b, at = self.plan, self.b, self.k.e.at
        extents = (*p.batch, -(-p.rows // self.rows), -(-p.columns // self.columns))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                *batch, row, column = at.delinear(number, extents)
                first = at.value(at.mul(row, self.rows)), at.value(at.mul(column, self.columns))
                self._block(tuple(batch), *first)

        self.k.split(prod(extents), part, private_nbytes=p.private_nbytes)

    def _block(self, batch: Index, row: Value, column: Value, some: _Steps | None = None) -> None:
        p, b, kind = self.plan, self.b, self.kind
        rows = b.intrinsic("smin", b.sub(b.const(I64, p.rows), row), self.rows)
        columns = b.intrinsic("smin", b.sub(b.const(I64, p.columns), column), self.columns)
        unit = kind.step.elements
        size = self.k.root.operands[0].shape.element_type.host_nbytes
        left = self.k.e.arrays[self.k.root.operands[0]][0]
        table = b.byte_address(self.k.scratch, p.panel_nbytes)
        base = self._address(left.base, size, batch, (p.left.batch, p.left.free), row)
        if some is not None:
            base = b.byte_address(base, b.mul(some.first, p.left.step * size))
        if not p.packs_left:
            self._fill_table(table, base, rows, p.left.free * size)
        kept_nbytes = p.kept.host_nbytes
        kept = self._address(self.k.results[0].base, kept_nbytes, batch, p.result, row)
        kept = b.byte_address(kept, b.mul(column, kept_nbytes))
        kept_row = b.const(I64, p.result[1] * kept_nbytes)
        numbers = b.byte_address(table, p.table_nbytes)
        sums, sums_row = kept, kept_row
        if some is not None:
            sums = some.result
        if p.is_narrowed:
            sums = b.byte_address(numbers, CHECK_NBYTES)
            sums_row = b.const(I64, min(self.columns, p.columns) * kind.size)
        right = self._right(batch, column)
        if some is not None:
            right = right._replace(first=b.byte_address(right.first, b.mul(some.first, right.step)))
        arguments = BlockArguments(
            table=table,
            rows=rows,
            positions=b.const(I64, 1),
            left_step=b.const(I64, unit * p.left.step * size),
            steps=b.const(I64, p.depth // unit) if some is None else some.length,
            right=right.first,
            right_position=b.const(I64, 0),
            right_step=b.const(I64, right.step),
            right_column=b.const(I64, right.column),
            result=sums,
            result_row=sums_row,
            columns=columns,
            goes_on=b.const(I64, 0),
            runs=Value("null", PTR),
            panel=self.k.scratch if p.panels is None else Value("null", PTR),
            most_lines=b.const(I64, p.lines(kind)),
        )
        if p.packs_left:
            self._packed(arguments, base, size)
        elif kind.has_pairs:
            self._call_pairs(arguments, base, numbers)
        else:
            self._call(arguments)
        if p.is_narrowed:
            narrowing = NarrowingArguments(sums, sums_row, kept, kept_row, rows, columns)
            call_narrowing(b, kind, p.kept, narrowing)

    def _call(self, a: BlockArguments) -> None:
        if self.is_streamed:
            self._stream(a)
        else:
            call_block(self.b, self.kind, self.plan.order, a)

    def _packed(self, a: BlockArguments, base: Value, size: int) -> None:
        """Parts of the depth, whose rows are packed first."""
        p, b, tile = self.plan, self.b, self.kind.rows
        packed = b.byte_address(self.k.scratch, p.packed_left)
        parts = -(-p.depth // PACKED_STEPS)
        most = -(-p.depth // parts)
        apart = b.const(I64, most * tile * size + BETWEEN_NBYTES)
        with b.loop(0, parts) as part:
            first = b.mul(part, most)
            steps = b.intrinsic("smin", b.sub(b.const(I64, p.depth), first), most)
            source = b.byte_address(base, b.mul(first, a.left_step))
            left = LeftArguments(a.table, packed, apart, source, a.left_step, a.rows, steps)
            call_pack_left(b, tile, size, left)
            self._call(
                a._replace(
                    left_step=b.const(I64, tile * size),
                    steps=steps,
                    right=b.byte_address(a.right, b.mul(first, a.right_step)),
                    goes_on=first,
                )
            )

    def _stream(self, a: BlockArguments) -> None:
        """Whole tiles of columns as they are in memory; columns left of a block are packed."""
        b, kind = self.b, self.kind
        if self.plan.columns % kind.width == 0 == self.columns % kind.width:
            call_stream(b, kind, a)
            return
        rest = b.srem(a.columns, kind.width)
        whole = b.sub(a.columns, rest)
        nbytes = b.mul(whole, kind.size)
        right, result = b.byte_address(a.right, nbytes), b.byte_address(a.result, nbytes)
        call_stream(b, kind, a._replace(columns=whole))
        with b.when(b.icmp("ne", rest, 0)):
            edge = a._replace(right=right, result=result, columns=rest)
            call_block(b, kind, self.plan.order, edge)

    def _right(self, batch: Index, column: Value) -> _Right:
        """Where the columns of a block are."""
        p, kind, at = self.plan, self.kind, self.k.e.at
        if p.panels is not None:
            form = p.panels.form
            base = self.k.e.arrays[p.panels.parameter][0].base
            first = at.mul(at.linear(batch, p.batch), form.count * kind.width)
            panel = form.lines * kind.size
            place = at.value(at.mul(at.add(first, column), panel))
            return _Right(self.b.byte_address(base, place), kind.width * kind.size, panel)
        operand = self.k.root.operands[1]
        base, size = self.k.e.arrays[operand][0].base, operand.shape.element_type.host_nbytes
        place = self._address(base, size, batch, (p.right.batch, p.right.free), column)
        step = kind.step.elements * p.right.step
        return _Right(place, step * size, p.right.free * size)

    def _call_pairs(self, a: BlockArguments, left: Value, numbers: Value) -> None:
        """The fast functions where no denormal can come up."""
        p, b, kind = self.plan, self.b, self.kind
        depth, row = b.const(I64, p.depth), b.const(I64, p.left.free * BF16.host_nbytes)
        second = b.byte_address(numbers, 8)
        call_least_exponent(b, kind, LeastArguments(left, row, a.rows, depth, numbers))
        step = b.const(I64, p.right.step * BF16.host_nbytes)
        if p.panels is not None:
            form = p.panels.form
            panels = b.udiv(b.add(a.columns, form.width - 1), form.width)
            length = b.const(I64, form.width * form.unit)
            number = b.mul(panels, form.lines)
            lines = LeastArguments(a.right, a.right_step, number, length, second)
        elif p.order is Order.ROWS:
            lines = LeastArguments(a.right, step, depth, a.columns, second)
        else:
            lines = LeastArguments(a.right, a.right_column, a.columns, depth, second)
        call_least_exponent(b, kind, lines)
        call_block_of_pairs(b, kind, p.order, a, numbers)

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
