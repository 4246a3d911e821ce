"""Microkernels of dots whose operands change places: a block of tiles, and turning its sums."""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.panel import turned
from xladev.platforms.cpu.codegen.products.tile import TileArguments, call_tile


class SwappedArguments(NamedTuple):
    """What a block is called with; strides in bytes. Elements of a line follow one another.

    Attributes:
        table: addresses of lines, tile by tile; the last one is repeated to the end of its tile.
        rows: how many lines.
        steps: number of elements of a line.
        most_steps: of them that tiles go through at once.
        panels: what lines are multiplied with: panel after panel of as many columns as a tile has,
            the last one of as many vectors as it needs.
        columns: how many.
        sums: where sums go, a row for each line, which has room for whole tiles. So have the rows.
        sums_row: from one row of them to the next.
        following: what comes after the block's lines in memory, and is fetched meanwhile.
    """

    table: Value
    rows: Value
    steps: Value
    most_steps: Value
    panels: Value
    columns: Value
    sums: Value
    sums_row: Value
    following: Value


class TurningArguments(NamedTuple):
    """What sums are turned with; strides in bytes.

    Attributes:
        sums: first of them; rows have room for whole vectors.
        sums_row: from one row of sums to the next.
        rows: number of rows of sums, which are columns of the result.
        columns: number of columns of sums.
        result: first element of the result.
        result_row: from one row to the next there.
    """

    sums: Value
    sums_row: Value
    rows: Value
    columns: Value
    result: Value
    result_row: Value


def call_swapped(b: FunctionBuilder, kind: ProductKind, arguments: SwappedArguments) -> None:
    """Calls the function that computes a block, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Block(inner, kind, SwappedArguments(*values)).emit()

    b.call_microkernel(kind.name("swapped"), arguments, emit)


def call_turning(b: FunctionBuilder, kind: ProductKind, arguments: TurningArguments) -> None:
    """Calls the function that turns sums, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Turning(inner, kind, TurningArguments(*values)).emit()

    b.call_microkernel(f"turning.{kind.total.name}.{kind.nbytes}", arguments, emit)


class _Block:
    def __init__(self, b: FunctionBuilder, kind: ProductKind, a: SwappedArguments) -> None:
        self.b, self.kind, self.a = b, kind, a

    def emit(self) -> None:
        """Parts of the depth, of about the same size; in each of them panels, and in these tiles.

        Sums go on from part to part, in the same order as without parts.
        """
        b, a, kind = self.b, self.a, self.kind
        parts = self._quotient(a.steps, a.most_steps)
        most = self._quotient(a.steps, parts)
        with b.loop(0, parts) as part, b.loop(0, a.columns, kind.width) as column:
            step = b.mul(part, most)
            steps = b.intrinsic("smin", b.sub(a.steps, step), most)
            self._widest(step, steps, column, kind.vectors)

    def _quotient(self, x: Value, y: Value) -> Value:
        """Rounded up."""
        return self.b.udiv(self.b.sub(self.b.add(x, y), 1), y)

    def _widest(self, step: Value, steps: Value, column: Value, vectors: int) -> None:
        """The panel of so many vectors, or of as few as what is left of the columns needs."""
        b, lanes = self.b, self.kind.lanes
        if vectors == 1:
            self._panel(step, steps, column, 1)
            return
        is_wide = b.icmp("sgt", b.sub(self.a.columns, column), (vectors - 1) * lanes)
        with b.when(is_wide):
            self._panel(step, steps, column, vectors)
        with b.when(b.not_(is_wide)):
            self._widest(step, steps, column, vectors - 1)

    def _panel(self, step: Value, steps: Value, column: Value, vectors: int) -> None:
        b, a, kind = self.b, self.a, self.kind
        line = vectors * kind.nbytes
        panel = b.byte_address(a.panels, b.mul(b.mul(column, a.steps), kind.size))
        panel = b.byte_address(panel, b.mul(step, line))
        tiles = self._quotient(a.rows, b.const(I64, kind.rows))
        is_first = b.icmp("eq", column, 0)
        fetched_step = b.const(I64, kind.rows * kind.size)
        with b.loop(0, a.rows, kind.rows) as row:
            place = b.byte_address(a.sums, b.mul(row, a.sums_row))
            place = b.byte_address(place, b.mul(column, kind.size))
            number = b.udiv(row, kind.rows)
            ahead = b.add(b.mul(step, tiles), b.mul(number, steps))
            fetched = b.byte_address(a.following, b.mul(ahead, fetched_step))
            tile = TileArguments(
                table=b.byte_address(a.table, b.mul(row, 8)),
                positions=b.const(I64, 1),
                start=b.mul(step, kind.size),
                left_step=b.const(I64, kind.size),
                steps=steps,
                right=panel,
                right_step=b.const(I64, line),
                result=place,
                result_row=a.sums_row,
                last=b.const(I64, kind.rows - 1),
                goes_on=step,
                following=place,
                fetched=b.select(is_first, fetched, panel),
                fetched_step=b.select(is_first, fetched_step, b.const(I64, 0)),
            )
            call_tile(b, kind, kind.rows, vectors, tile)


class _Turning:
    def __init__(self, b: FunctionBuilder, kind: ProductKind, a: TurningArguments) -> None:
        self.b, self.kind, self.a = b, kind, a
        self.square = b.alloca(kind.element, kind.lanes * kind.lanes, align=64)

    def emit(self) -> None:
        """Squares in registers; rows after the last whole vector element by element."""
        b, a, lanes = self.b, self.a, self.kind.lanes
        whole = b.sub(a.rows, b.urem(a.rows, lanes))
        with b.loop(0, a.columns, lanes) as column:
            count = b.intrinsic("smin", b.sub(a.columns, column), lanes)
            result = b.byte_address(a.result, b.mul(column, a.result_row))
            with b.loop(0, whole, lanes) as row:
                self._square(row, column, count, result)
            with b.loop(whole, a.rows) as row, b.loop(0, count) as n:
                held = b.load(self.kind.element, self._sum(row, b.add(column, n)))
                b.store(held, self._kept(result, n, row))

    def _square(self, row: Value, column: Value, count: Value, result: Value) -> None:
        b, kind = self.b, self.kind
        lines = [b.load(kind.vector, self._sum(b.add(row, n), column)) for n in range(kind.lanes)]
        for n, line in enumerate(turned(b, lines)):
            b.store(line, b.byte_address(self.square, n * kind.nbytes))
        with b.loop(0, count) as number:
            line = b.load(kind.vector, b.byte_address(self.square, b.mul(number, kind.nbytes)))
            b.store(line, self._kept(result, number, row))

    def _sum(self, row: Value, column: Value) -> Value:
        """Address of a sum."""
        line = self.b.byte_address(self.a.sums, self.b.mul(row, self.a.sums_row))
        return self.b.element_address(line, column, self.kind.element)

    def _kept(self, result: Value, row: Value, column: Value) -> Value:
        """Address of an element of the result."""
        line = self.b.byte_address(result, self.b.mul(row, self.a.result_row))
        return self.b.element_address(line, column, self.kind.element)
