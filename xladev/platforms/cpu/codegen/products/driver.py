"""A block of a product: panels of columns are packed one by one, and tiles run over each.

Panels that are packed in memory are used there. The depth goes in parts that fit a panel. Sums go
on from part to part in the result, in the same order as without parts, so results do not depend on
how blocks are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from xladev.codegen.llvm import I1, I64, PTR, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.denormals import has_no_denormals
from xladev.platforms.cpu.codegen.products.kinds import (
    CACHE_LINE_NBYTES,
    ProductKind,
    ReductionStep,
)
from xladev.platforms.cpu.codegen.products.non_temporal import CACHED
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments
from xladev.platforms.cpu.codegen.products.panel import call_pack
from xladev.platforms.cpu.codegen.products.tile import (
    FETCHED_LINES,
    TileArguments,
    call_packing_tile,
    call_tile,
)

STREAMED_STEPS = 64
"""Steps that a stream goes at once: their lines are in as many pages of memory, and sums go to the
second cache and back between. Measured best of 8 to 64 where what is fetched ahead comes to the
second cache, which waits for more lines at once than the nearest one."""
STREAMED_AHEAD = 256
"""Bytes by which a stream fetches ahead; measured best of 256 to 1024."""
PANELS_AHEAD = 8192
"""The same for panels that are packed and are used only once: one long run. Measured best of 512 to
32768, with little to choose above this."""
HIGH = 8
"""Rows of a block, as many times those of a panel's columns, from which on the block waits for rows
rather than for panels."""
NEAR_NBYTES = 128 << 10
"""Right operands of so few bytes stay near: a stream goes through all of their steps at once."""

_ENDLESS = 1 << 40
"""More lines than any panel has."""


class BlockArguments(NamedTuple):
    """What a block is called with; strides in bytes.

    Attributes:
        table: addresses of the rows: tile by tile, position by position.
        rows: number of rows of the block.
        positions: number of positions.
        left_step: from one step to the next in a row.
        steps: number of steps at each position.
        right: first element of the right operand.
        right_position: from one position to the next there.
        right_step: from one step to the next.
        right_column: from one column to the next; of panels that are packed, from one panel to the
            next, divided by their width.
        result: first element of the block.
        result_row: from one row to the next.
        columns: number of columns.
        goes_on: not zero to add to what the result holds.
        runs: for each tile, how many positions its rows go through without a break: of so many,
            the table has the first one's addresses alone. Null for tables that have all.
        panel: memory for one packed panel. Of panels that are packed, null; or what is fetched
            meanwhile in place of the next panel, as long as one.
        most_lines: of a panel in one part of the depth: as many as that memory holds.
        is_non_temporal: not zero to write the result past the caches if all of the depth is one
            part; its vectors then are aligned.
    """

    table: Value
    rows: Value
    positions: Value
    left_step: Value
    steps: Value
    right: Value
    right_position: Value
    right_step: Value
    right_column: Value
    result: Value
    result_row: Value
    columns: Value
    goes_on: Value
    runs: Value
    panel: Value
    most_lines: Value
    is_non_temporal: Value = CACHED


def call_block(
    b: FunctionBuilder, kind: ProductKind, order: Order, arguments: BlockArguments
) -> None:
    """Calls the function of a block, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Block(inner, kind, order, BlockArguments(*values)).emit()

    b.call_microkernel(kind.name(f"block.{order.value}"), arguments, emit)


def call_block_of_pairs(
    b: FunctionBuilder, kind: ProductKind, order: Order, a: BlockArguments, numbers: Value
) -> None:
    """As `call_block`, by the fast functions of pairs where no denormal can come up.

    Args:
        b: where to call.
        kind: of pairs.
        order: of the right operand.
        a: the block.
        numbers: where the least exponents of both operands are, 8 bytes each.
    """
    is_safe = has_no_denormals(b, numbers, b.byte_address(numbers, 8))
    with b.when(is_safe):
        call_block(b, kind, order, a)
    with b.when(b.not_(is_safe)):
        call_block(b, kind.exact, order, a)


def call_stream(b: FunctionBuilder, kind: ProductKind, arguments: BlockArguments) -> None:
    """As `call_block`, for a right operand that is used as it is in memory.

    It pays for few rows, or if that operand is small. Columns must fill tiles. The depth goes in
    short parts along all columns: memory is read in long runs, and only once.
    """

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Block(inner, kind, Order.ROWS, BlockArguments(*values)).emit_stream()

    b.call_microkernel(kind.name("stream"), arguments, emit)


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of the depth: positions, and steps at each of them, with their addresses.

    Columns begin at an offset from those of the block.
    """

    table: Value
    start: Value
    positions: Value
    steps: Value
    right: Value
    offset: Value
    goes_on: Value
    is_non_temporal: Value


class _Block:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, order: Order, a: BlockArguments
    ) -> None:
        self.b, self.kind, self.order, self.a = b, kind, order, a
        self.edge = b.alloca(kind.element, kind.rows * kind.width, align=64)

    def emit(self) -> None:
        """All parts of the depth, of about the same size."""
        b, a, most = self.b, self.a, self._most_lines()
        parts = self._quotient(a.steps, most)
        most_steps = self._quotient(a.steps, parts)
        group = b.intrinsic("smax", b.udiv(most, a.steps), 1)
        groups = self._quotient(a.positions, group)
        is_non_temporal = b.select(b.icmp("eq", b.mul(groups, parts), 1), a.is_non_temporal, CACHED)
        with b.loop(0, groups) as n, b.loop(0, parts) as part:
            position, step = b.mul(n, group), b.mul(part, most_steps)
            offset = b.add(b.mul(position, a.right_position), b.mul(step, a.right_step))
            self._panels(
                _Part(
                    table=b.byte_address(a.table, b.mul(position, 8 * self.kind.rows)),
                    start=b.mul(step, a.left_step),
                    positions=b.intrinsic("smin", group, b.sub(a.positions, position)),
                    steps=b.intrinsic("smin", most_steps, b.sub(a.steps, step)),
                    right=b.byte_address(a.right, offset),
                    offset=offset,
                    goes_on=b.or_(a.goes_on, b.or_(position, step)),
                    is_non_temporal=is_non_temporal,
                )
            )

    def _most_lines(self) -> Value:
        """Lines of a panel in one part: all of one that is packed, if it is used only once."""
        b, most = self.b, self.a.most_lines
        if self.order is not Order.PANELS:
            return most
        return b.select(b.icmp("sle", self.a.rows, self.kind.rows), b.const(I64, _ENDLESS), most)

    def emit_stream(self) -> None:
        """Short parts of the depth; all of it if the right operand is near."""
        b, a, kind = self.b, self.a, self.kind
        is_near = b.icmp("sle", b.mul(a.steps, a.right_step), NEAR_NBYTES)
        most = b.select(is_near, a.steps, b.const(I64, STREAMED_STEPS))
        parts = self._quotient(a.steps, most)
        with b.loop(0, parts) as part, b.loop(0, a.columns, kind.width) as column:
            step = b.mul(part, most)
            place = b.mul(column, kind.size)
            source = b.byte_address(b.byte_address(a.right, b.mul(step, a.right_step)), place)
            result = b.byte_address(a.result, place)
            with b.loop(0, a.rows, kind.rows) as row:
                tile = TileArguments(
                    table=b.byte_address(a.table, b.mul(row, 8)),
                    positions=b.const(I64, 1),
                    start=b.mul(step, a.left_step),
                    left_step=a.left_step,
                    steps=b.intrinsic("smin", b.sub(a.steps, step), most),
                    right=source,
                    right_step=a.right_step,
                    result=b.byte_address(result, b.mul(row, a.result_row)),
                    result_row=a.result_row,
                    last=b.sub(b.intrinsic("smin", b.sub(a.rows, row), kind.rows), 1),
                    goes_on=b.or_(a.goes_on, step),
                    following=b.byte_address(result, kind.width * kind.size),
                    fetched=b.byte_address(source, STREAMED_AHEAD),
                    fetched_step=a.right_step,
                )
                self._smallest(tile, self.kind.vectors)

    def _quotient(self, x: Value, y: Value) -> Value:
        """Rounded up."""
        return self.b.udiv(self.b.sub(self.b.add(x, y), 1), y)

    def _panels(self, part: _Part) -> None:
        b, width = self.b, self.kind.width
        with b.loop(0, self.a.columns, width) as column:
            left = b.sub(self.a.columns, column)
            self._widest(part, column, left, self.kind.vectors)

    def _widest(self, part: _Part, column: Value, left: Value, vectors: int) -> None:
        """The panel of so many vectors, or of as few as what is left of the columns needs."""
        b, lanes = self.b, self.kind.lanes
        if vectors == 1:
            self._panel(part, column, left, 1)
            return
        is_wide = b.icmp("sgt", left, (vectors - 1) * lanes)
        with b.when(is_wide):
            most = b.intrinsic("smin", left, vectors * lanes)
            self._panel(part, column, most, vectors)
        with b.when(b.not_(is_wide)):
            self._widest(part, column, left, vectors - 1)

    def _panel(self, part: _Part, column: Value, columns: Value, vectors: int) -> None:
        """Packs it unless it is packed, then runs the tiles."""
        b, a, kind = self.b, self.a, self.kind
        is_whole = b.icmp("eq", columns, vectors * kind.lanes)
        packs_first = self._packs_first(part, vectors, is_whole)
        source = b.byte_address(part.right, b.mul(column, a.right_column))
        following = b.byte_address(source, b.mul(a.right_column, kind.width))
        if self.order is Order.PANELS:
            panel, line = source, a.right_step
            is_once = b.icmp("sle", a.rows, kind.rows)
            is_next = b.icmp("eq", a.panel, Value("null", PTR))
            following = b.select(is_next, following, b.byte_address(a.panel, part.offset))
            following = b.select(is_once, b.byte_address(source, PANELS_AHEAD), following)
        else:
            panel, line = a.panel, b.const(I64, vectors * kind.nbytes)
            self._pack(part, source, columns, vectors, packs_first)
        is_first, fetched_step = self._is_first(column), self._fetched_step(part)
        with b.loop(0, a.rows, kind.rows) as row:
            place = b.byte_address(a.result, b.mul(row, a.result_row))
            place = b.byte_address(place, b.mul(column, kind.size))
            last = b.sub(b.intrinsic("smin", b.sub(a.rows, row), kind.rows), 1)
            run = self._run(row)
            fetched = self._fetched(part, following, row)
            tile = TileArguments(
                table=b.byte_address(part.table, b.mul(b.mul(row, a.positions), 8)),
                positions=b.udiv(part.positions, run),
                start=part.start,
                left_step=a.left_step,
                steps=b.mul(part.steps, run),
                right=panel,
                right_step=line,
                result=place,
                result_row=a.result_row,
                last=last,
                goes_on=part.goes_on,
                following=b.byte_address(place, b.mul(a.result_row, kind.rows)),
                fetched=b.select(is_first, self._rows_after(part, row), fetched),
                fetched_step=b.select(is_first, b.mul(a.left_step, kind.rows), fetched_step),
                is_non_temporal=b.select(is_whole, part.is_non_temporal, CACHED),
            )
            packs = packs_first and b.and_(packs_first, b.icmp("eq", row, 0))
            if packs is not None:
                with b.when(packs):
                    unpacked = tile._replace(right=source, right_step=a.right_step)
                    call_packing_tile(b, kind, panel, unpacked)
            with b.when(_not(b, packs)):
                self._tile(tile, vectors, is_whole, columns)

    def _is_first(self, column: Value) -> Value:
        """Whether a panel's tiles are the first to read the rows, and fetch those of the next one.

        Else they fetch the next panel, if there is one and rows are not many more than columns.
        """
        b, a, width = self.b, self.a, self.kind.width
        is_high = b.icmp("sge", a.rows, HIGH * width)
        is_first = b.and_(is_high, b.icmp("eq", column, 0))
        is_first = b.or_(is_first, b.icmp("sle", a.columns, width))
        is_first = b.and_(is_first, b.icmp("eq", a.positions, 1))
        if self.order is not Order.PANELS:
            return is_first
        return b.and_(is_first, b.icmp("eq", a.panel, Value("null", PTR)))

    def _rows_after(self, part: _Part, row: Value) -> Value:
        """What the next tile reads if rows follow one another in memory, which it is fetched as."""
        b, kind = self.b, self.kind
        place = b.byte_address(part.table, b.mul(row, 8))
        first, second = (
            b.load(I64, b.element_address(place, b.const(I64, n), I64)) for n in range(2)
        )
        after = b.add(first, b.mul(b.sub(second, first), kind.rows))
        return b.byte_address(b.cast("inttoptr", after, PTR), part.start)

    def _fetched(self, part: _Part, following: Value, row: Value) -> Value:
        """What a tile fetches of the next panel.

        Lines of it; of columns along memory all, if they are few enough, or else a column for each
        tile.
        """
        b, a, kind = self.b, self.a, self.kind
        near = b.byte_address(following, b.and_(b.mul(row, 64 // kind.rows), 64))
        if self.order is not Order.COLUMNS:
            return near
        number = b.urem(b.udiv(row, kind.rows), kind.width)
        apart = b.byte_address(following, b.mul(number, a.right_column))
        return b.select(self._is_whole_column(part), following, apart)

    def _fetched_step(self, part: _Part) -> Value:
        """Columns along memory are fetched one after the other, if a part has all of them."""
        if self.order is not Order.COLUMNS:
            return self.a.right_step
        lines = self.b.const(I64, FETCHED_LINES * CACHE_LINE_NBYTES)
        return self.b.select(self._is_whole_column(part), lines, self.a.right_step)

    def _is_whole_column(self, part: _Part) -> Value:
        b, a = self.b, self.a
        return b.icmp("eq", a.right_column, b.mul(part.steps, a.right_step))

    def _packs_first(self, part: _Part, vectors: int, is_whole: Value) -> Value | None:
        """Whether the first tile packs, if it ever does: it needs whole vectors in equal steps."""
        b, a, kind = self.b, self.a, self.kind
        is_plain = kind.step is ReductionStep.ELEMENT and not kind.has_edges
        if self.order is not Order.ROWS or not is_plain or vectors < kind.vectors:
            return None
        is_even = b.icmp("eq", a.right_position, b.mul(part.steps, a.right_step))
        return b.and_(is_whole, b.or_(is_even, b.icmp("eq", part.positions, 1)))

    def _pack(
        self, part: _Part, source: Value, columns: Value, vectors: int, packs_first: Value | None
    ) -> None:
        """A panel, unless its first tile does that."""
        b, a = self.b, self.a
        arguments = PanelArguments(
            a.panel, source, part.positions, a.right_position, part.steps, a.right_step,
            a.right_column, columns,
        )  # fmt: skip
        with b.when(_not(b, packs_first)):
            call_pack(b, self.kind, vectors, self.order, arguments)

    def _run(self, row: Value) -> Value:
        """Positions without a break of the tile that begins with a row."""
        b, one = self.b, self.b.const(I64, 1)
        number = b.udiv(row, self.kind.rows)
        has_runs = b.icmp("ne", self.a.runs, Value("null", PTR))
        (run,) = b.branch(
            has_runs,
            lambda: (b.load(I64, b.element_address(self.a.runs, number, I64)),),
            lambda: (one,),
        )
        return run

    def _tile(self, tile: TileArguments, vectors: int, is_whole: Value, columns: Value) -> None:
        """A tile; with fewer columns, by way of one that has them all, or half of the last ones."""
        b, kind = self.b, self.kind
        if not kind.has_halves:
            self._whole_or_edge(tile, vectors, is_whole, columns)
            return
        is_half = b.icmp("eq", columns, vectors * kind.lanes - kind.lanes // 2)
        with b.when(is_half):
            self._smallest(tile, vectors, is_half=True)
        with b.when(b.not_(is_half)):
            self._whole_or_edge(tile, vectors, is_whole, columns)

    def _whole_or_edge(
        self, tile: TileArguments, vectors: int, is_whole: Value, columns: Value
    ) -> None:
        b, kind = self.b, self.kind
        line = b.const(I64, vectors * kind.nbytes)
        is_edge = b.not_(is_whole)
        with b.when(b.and_(is_edge, b.icmp("ne", tile.goes_on, 0))):
            self._copy(tile, columns, line, is_load=True)
        place = b.select(is_whole, tile.result, self.edge)
        row = b.select(is_whole, tile.result_row, line)
        self._smallest(tile._replace(result=place, result_row=row), vectors)
        with b.when(is_edge):
            self._copy(tile, columns, line, is_load=False)

    def _smallest(self, tile: TileArguments, vectors: int, *, is_half: bool = False) -> None:
        """Calls the smallest tile with enough rows."""
        b, sizes = self.b, (1, self.kind.rows // 2, self.kind.rows)
        number = b.add(
            b.resize(b.icmp("sge", tile.last, sizes[0]), I64, signed=False),
            b.resize(b.icmp("sge", tile.last, sizes[1]), I64, signed=False),
        )
        call = partial(call_tile, b, self.kind, is_half=is_half)
        b.switch(number, [partial(call, n, vectors, tile) for n in sizes])

    def _copy(self, tile: TileArguments, columns: Value, line: Value, is_load: bool) -> None:
        """Between the result and the memory of tiles with fewer columns."""
        b, element = self.b, self.kind.element
        with b.loop(0, b.add(tile.last, 1)) as r, b.loop(0, columns) as c:
            kept = b.element_address(
                b.byte_address(tile.result, b.mul(r, tile.result_row)), c, element
            )
            held = b.element_address(b.byte_address(self.edge, b.mul(r, line)), c, element)
            source, target = (kept, held) if is_load else (held, kept)
            b.store(b.load(element, source), target)


def _not(b: FunctionBuilder, condition: Value | None) -> Value:
    """The opposite of a condition; None never holds."""
    return b.const(I1, 1) if condition is None else b.not_(condition)
