"""Tables of the rows of products: addresses, tile by tile; filled by microkernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from xladev.codegen.llvm import I1, I64, PTR, FunctionBuilder, Value, vector


class LinesArguments(NamedTuple):
    """Rows that are at equal distances.

    Attributes:
        table: what is filled.
        base: address of the first row.
        stride: bytes from one row to the next.
        rows: how many; the last one is repeated to the end of its tile.
    """

    table: Value
    base: Value
    stride: Value
    rows: Value


class WindowsArguments(NamedTuple):
    """Rows that are windows of a convolution.

    Attributes:
        table: what is filled: tile by tile, position by position.
        starts: memory for a line of addresses and one of coordinates per dimension of the result.
        line: bytes of such a line.
        zeros: address of the row that stands for padding.
        base: address of the convolution's base, of a group.
        first: number of the first row.
        rows: how many; the last one is repeated to the end of its tile.
        facts: see `window_facts`.
        windows: `window_positions` of the first position.
        positions: how many.
        run: how many of them follow one another in memory where no row of a tile sees padding.
        runs: where to write each tile's run; null if the table has all positions anyway.
    """

    table: Value
    starts: Value
    line: Value
    zeros: Value
    base: Value
    first: Value
    rows: Value
    facts: Value
    windows: Value
    positions: Value
    run: Value
    runs: Value


class PixelFacts(NamedTuple):
    """A dimension of the result: size, and where windows begin along the base, in bytes."""

    size: int
    stride: int
    pad_low: int
    nbytes: int


class AxisFacts(NamedTuple):
    """A spatial dimension.

    Attributes:
        line: of its coordinates.
        inside: coordinates of the base are from 0 on and below this.
        whole: last coordinate from which a window is inside; below 0 if none does.
        shift, mask: logarithm of the base's dilation; the dilation less 1.
        nbytes: stride of a dilated base.
    """

    line: int
    inside: int
    whole: int
    shift: int
    mask: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class WindowKind:
    """Which microkernel fills a table of windows.

    Attributes:
        tile: rows of a tile.
        axes: number of spatial dimensions.
        is_dilated: whether the base is, along any of them.
        has_edges: whether null stands for the first row of a tile where it sees padding, for the
            last one where the first does not, and for both where all rows do.
    """

    tile: int
    axes: int
    is_dilated: bool
    has_edges: bool = False

    @property
    def name(self) -> str:
        """Of the microkernel."""
        dilated = ".dilated" if self.is_dilated else ""
        edges = ".edges" if self.has_edges else ""
        return f"windows.{self.tile}.{self.axes}{dilated}{edges}"


def window_facts(
    pixels: Sequence[PixelFacts], axes: Sequence[AxisFacts], most_unbroken: int
) -> tuple[int, ...]:
    """What does not change from block to block, as the microkernel reads it.

    Args:
        pixels: dimensions of the result as they are in memory, outermost first.
        axes: spatial dimensions.
        most_unbroken: last coordinate along the last axis from which a run sees no padding.
    """
    return (*(n for facts in (*pixels, *axes) for n in facts), most_unbroken)


def call_lines(b: FunctionBuilder, tile: int, arguments: LinesArguments) -> None:
    """Fills a table, of tiles of so many rows, with lines of memory."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        a = LinesArguments(*values)
        last = inner.sub(a.rows, 1)
        with inner.loop(0, _whole(inner, a.rows, tile)) as r:
            number = inner.intrinsic("smin", last, r)
            row = inner.byte_address(a.base, inner.mul(number, a.stride))
            inner.store(row, inner.element_address(a.table, r, I64))

    b.call_microkernel(f"lines.{tile}", arguments, emit, is_long=False)


def call_windows(b: FunctionBuilder, kind: WindowKind, arguments: WindowsArguments) -> None:
    """Fills a table with the addresses that windows see, position by position."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Windows(inner, kind, WindowsArguments(*values)).emit()

    b.call_microkernel(kind.name, arguments, emit, is_long=False)


def _whole(b: FunctionBuilder, rows: Value, tile: int) -> Value:
    """Rows of all tiles."""
    return b.mul(b.udiv(b.add(rows, tile - 1), tile), tile)


class _Pixel(NamedTuple):
    """`PixelFacts` in registers."""

    size: Value
    stride: Value
    pad_low: Value
    nbytes: Value


class _Axis(NamedTuple):
    """`AxisFacts` in registers."""

    line: Value
    inside: Value
    whole: Value
    shift: Value
    mask: Value
    nbytes: Value


class _Windows:
    def __init__(self, b: FunctionBuilder, kind: WindowKind, a: WindowsArguments) -> None:
        self.b, self.kind, self.a = b, kind, a
        self.pixels = [_Pixel(*self._facts(4 * d, 4)) for d in range(kind.axes + 1)]
        first = 4 * (kind.axes + 1)
        self.axes = [_Axis(*self._facts(first + 6 * n, 6)) for n in range(kind.axes)]
        (self.most_unbroken,) = self._facts(first + 6 * kind.axes, 1)

    def _facts(self, first: int, count: int) -> list[Value]:
        b = self.b
        return [b.load(I64, b.element_address(self.a.facts, first + n, I64)) for n in range(count)]

    def emit(self) -> None:
        """Where all windows begin, then the tiles."""
        b, a, tile = self.b, self.a, self.kind.tile
        rows = _whole(b, a.rows, tile)
        self._fill_starts(rows)
        zeros = b.splat(b.cast("ptrtoint", a.zeros, I64), tile)
        with b.loop(0, rows, tile) as row:
            self._fill_tile(row, zeros)

    # Where windows begin

    def _fill_starts(self, rows: Value) -> None:
        """Addresses, and a line of coordinates for each dimension of the result."""
        b, a = self.b, self.a

        def fill(values: Sequence[Value]) -> tuple[Value]:
            (row,) = values
            *outer, x = self._coordinates(b.add(a.first, row))
            count = b.intrinsic("smin", b.sub(self.pixels[-1].size, x), b.sub(a.rows, row))
            self._fill_line(row, (*outer, x), count)
            return (b.add(row, count),)

        b.while_loop((b.const(I64, 0),), lambda values: b.icmp("slt", values[0], a.rows), fill)
        last = b.sub(a.rows, 1)
        for line in range(self.kind.axes + 2):
            number = b.const(I64, line)
            held = b.load(I64, self._start(number, last))
            with b.loop(a.rows, rows) as row:
                b.store(held, self._start(number, row))

    def _fill_line(self, row: Value, at: Sequence[Value], count: Value) -> None:
        """Rows whose coordinates differ along the innermost dimension alone."""
        b, inner = self.b, self.pixels[-1]
        begins = [
            b.sub(b.mul(x, pixel.stride), pixel.pad_low)
            for pixel, x in zip(self.pixels, at, strict=True)
        ]
        offset = b.const(I64, 0)
        for pixel, begin in zip(self.pixels, begins, strict=True):
            offset = b.add(offset, b.mul(begin, pixel.nbytes))
        address = b.add(b.cast("ptrtoint", self.a.base, I64), offset)
        steps = [*(b.const(I64, 0) for _ in self.pixels[1:]), inner.stride]
        pairs = [(address, b.mul(inner.stride, inner.nbytes)), *zip(begins, steps, strict=True)]
        for line, (first, step) in enumerate(pairs):
            target = self._start(b.const(I64, line), row)
            with b.loop(0, count) as n:
                b.store(b.add(first, b.mul(n, step)), b.element_address(target, n, I64))

    def _start(self, line: Value, row: Value) -> Value:
        """Place of a row in a line."""
        place = self.b.byte_address(self.a.starts, self.b.mul(line, self.a.line))
        return self.b.element_address(place, row, I64)

    def _coordinates(self, number: Value) -> list[Value]:
        """Of a row, outermost first."""
        b, found = self.b, list[Value]()
        for pixel in reversed(self.pixels[1:]):
            found.append(b.urem(number, pixel.size))
            number = b.udiv(number, pixel.size)
        return [number, *reversed(found)]

    # Tiles

    def _fill_tile(self, row: Value, zeros: Value) -> None:
        """Addresses for all positions, or for the first ones of runs that are not broken."""
        b, a, tile = self.b, self.a, self.kind.tile
        line = vector(I64, tile)
        addresses = b.load(line, self._start(b.const(I64, 0), row))
        begins = [b.load(line, self._start(b.add(x.line, 1), row)) for x in self.axes]
        step = self._step(b.udiv(row, tile), begins)
        target = b.element_address(a.table, b.mul(row, a.positions), I64)
        count, words = b.udiv(a.positions, step), b.mul(step, self.kind.axes + 1)

        def each(address: Callable[[Value], Value]) -> None:
            with b.loop(0, count) as n:
                window = b.element_address(a.windows, b.mul(n, words), I64)
                b.store(address(window), b.element_address(target, b.mul(n, tile), I64))

        is_broken = self._is_broken(begins)
        with b.when(is_broken):
            each(lambda window: self._seen(window, addresses, begins, zeros))
        with b.when(b.not_(is_broken)):
            each(lambda window: b.add(addresses, self._fact(window, 0)))

    def _is_broken(self, begins: Sequence[Value]) -> Value:
        """Whether some row of a tile sees padding at some position."""
        b, tile = self.b, self.kind.tile
        if self.kind.is_dilated:
            return b.const(I1, 1)
        found = b.const(I1, 0)
        for axis, begin in zip(self.axes, begins, strict=True):
            after = b.icmp("sgt", begin, b.splat(axis.whole, tile))
            found = b.or_(found, b.any(b.or_(after, b.icmp("slt", begin, 0))))
        return found

    def _fact(self, window: Value, number: int) -> Value:
        """A number of a position, for all rows of a tile."""
        place = self.b.element_address(window, number, I64)
        return self.b.splat(self.b.load(I64, place), self.kind.tile)

    def _step(self, number: Value, begins: Sequence[Value]) -> Value:
        """Positions from one entry of a tile to the next: a run, unless some row breaks it."""
        b, a, one = self.b, self.a, self.b.const(I64, 1)
        if not begins:
            return one

        def written() -> tuple[Value]:
            most = b.splat(self.most_unbroken, self.kind.tile)
            step = b.select(b.any(b.icmp("ugt", begins[-1], most)), one, a.run)
            b.store(step, b.element_address(a.runs, number, I64))
            return (step,)

        has_runs = b.icmp("ne", a.runs, Value("null", PTR))
        return b.branch(has_runs, written, lambda: (one,))[0]

    def _seen(
        self, window: Value, addresses: Value, begins: Sequence[Value], zeros: Value
    ) -> Value:
        """What the rows of a tile see at a position: an address each."""
        b, tile = self.b, self.kind.tile
        address, inside = b.add(addresses, self._fact(window, 0)), list[Value]()
        for n, (axis, begin) in enumerate(zip(self.axes, begins, strict=True)):
            at = b.add(begin, self._fact(window, n + 1))
            inside.append(b.icmp("ult", at, b.splat(axis.inside, tile)))
            if self.kind.is_dilated:
                rest = b.and_(at, b.splat(axis.mask, tile))
                inside.append(b.icmp("eq", rest, 0))
                quotient = b.ashr(at, b.splat(axis.shift, tile))
                address = b.add(address, b.mul(quotient, b.splat(axis.nbytes, tile)))
        if not inside:
            return address
        seen = reduce(b.and_, inside)
        return b.select(seen, address, self._unseen(seen, zeros) if self.kind.has_edges else zeros)

    def _unseen(self, seen: Value, zeros: Value) -> Value:
        """What stands for padding: null at an edge of the tile, else the row of zeros."""
        b, null = self.b, self.b.const(I64, 0)
        first = b.insert(zeros, null, 0)
        both = b.insert(first, null, self.kind.tile - 1)
        is_last = b.or_(b.extract(seen, 0), b.not_(b.any(seen)))
        return b.select(is_last, both, first)
