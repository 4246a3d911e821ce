"""The register tile: some rows of the result times a few vectors of its columns.

The rows of the left operand are given by a table: for each position (one in a product of matrices,
the elements of a window in a convolution) an address for each row of the tile. From there on the
tile goes a number of steps, while it goes through the packed columns without a break. Sums are
made in the order of positions and steps.

A tile that packs reads the columns where the right operand has them, and leaves them packed for the
tiles below it: what it waits for memory, and stores, goes on beside its products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xladev.codegen.llvm import I64, PTR, FunctionBuilder, IrType, Value
from xladev.platforms.cpu.codegen.products.kinds import CACHE_LINE_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.non_temporal import CACHED, store_non_temporal_or_cached

FETCHED_LINES = 2
"""Cache lines fetched at each step: as many as a step uses up with the longest vectors."""


class TileArguments(NamedTuple):
    """What a tile is called with; strides and offsets in bytes.

    Attributes:
        table: addresses of rows, as many for each position as a whole tile has rows.
        positions: number of positions.
        start: offset added to each address.
        left_step: from one step to the next in a row.
        steps: number of steps at each position.
        right: vectors of columns.
        right_step: from one step to the next there.
        result: first element of the tile.
        result_row: from one of its rows to the next.
        last: number of its last row; rows of the table after it are computed, but not kept.
        goes_on: not zero to add to what the result holds.
        following: first element of the next tile.
        fetched: memory that will be needed next.
        fetched_step: from one step to the next there.
        is_non_temporal: not zero to write the result past the caches; its vectors then are aligned.
    """

    table: Value
    positions: Value
    start: Value
    left_step: Value
    steps: Value
    right: Value
    right_step: Value
    result: Value
    result_row: Value
    last: Value
    goes_on: Value
    following: Value
    fetched: Value
    fetched_step: Value
    is_non_temporal: Value = CACHED


def call_tile(
    b: FunctionBuilder,
    kind: ProductKind,
    rows: int,
    vectors: int,
    arguments: TileArguments,
    *,
    is_half: bool = False,
) -> None:
    """Calls the function of a tile, which the module has once.

    Args:
        b: where to call.
        kind: the tile's.
        rows, vectors: its size.
        arguments: see there.
        is_half: whether the last vector is half as long; the columns are packed as ever.
    """

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        tile = _HalfTile if is_half else _Tile
        tile(inner, kind, rows, vectors, TileArguments(*values)).emit()

    name = f"tile.{rows}x{vectors}{'.half' if is_half else ''}"
    b.call_microkernel(kind.name(name), arguments, emit)


def call_packing_tile(
    b: FunctionBuilder, kind: ProductKind, panel: Value, arguments: TileArguments
) -> None:
    """As `call_tile` for a whole tile, whose columns are not packed yet; it packs them."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        packed, *rest = values
        _PackingTile(inner, kind, packed, TileArguments(*rest)).emit()

    b.call_microkernel(kind.name(f"packing.{kind.rows}x{kind.vectors}"), (panel, *arguments), emit)


class _Tile:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, rows: int, vectors: int, a: TileArguments
    ) -> None:
        self.b, self.kind, self.rows, self.vectors, self.a = b, kind, rows, vectors, a

    def _type(self, number: int) -> IrType:
        """Of a vector, counted row by row."""
        return self.kind.vector

    def _spread(self, address: Value) -> Value:
        """An element of a row in all lanes."""
        return self.kind.spread(self.b, address)

    def _fitted(self, left: Value, number: int) -> Value:
        """An element of a row, in as many lanes as a vector has."""
        return left

    def emit(self) -> None:
        """Sums in registers, over positions and steps."""
        b, a = self.b, self.a
        places = self._places()
        count = len(places)
        self._fetch_following()
        whole = b.icmp("ne", a.goes_on, 0)
        sums = b.branch(
            whole,
            lambda: [b.load(self._type(n), p) for n, p in enumerate(places)],
            lambda: self._zeros(places),
        )
        if self.kind.has_quads:
            sums = tuple(self._corrected(sums))
        initial = [*sums, *self._begin()]
        with b.carried_loop(0, a.positions, initial=initial) as position:
            at = self._at_edges if self.kind.has_edges else self._at_all
            position.carry(*at(self._entries(position.index), position.values))
        store_non_temporal_or_cached(b, a.is_non_temporal, position.values[:count], places)

    def _fetch_following(self) -> None:
        """The next tile's lines of the result, which this one gives time to come."""
        b, a, nbytes = self.b, self.a, self.kind.nbytes
        if self.kind.has_edges:
            return
        with b.when(b.icmp("eq", a.is_non_temporal, 0)):
            for r in range(self.rows):
                row = b.byte_address(a.following, b.mul(a.result_row, r))
                for n in (*range(0, self.vectors * nbytes, nbytes), self.vectors * nbytes - 1):
                    b.prefetch(b.byte_address(row, n), is_written=True)

    def _begin(self) -> list[Value]:
        """Addresses that move from step to step."""
        right = self.a.right
        if self.kind.has_quads:
            right = self.b.byte_address(right, self.vectors * self.kind.nbytes)
        return [right, self.a.fetched]

    def _columns(self, addresses: list[Value]) -> tuple[list[Value], list[Value]]:
        """The columns of a step, and the addresses of the next one."""
        b, kind = self.b, self.kind
        right, fetched = addresses
        columns = [
            b.load(self._type(v), b.byte_address(right, v * kind.nbytes))
            for v in range(self.vectors)
        ]
        following = (right, self.a.right_step), (fetched, self.a.fetched_step)
        return columns, [b.byte_address(place, step) for place, step in following]

    def _corrected(self, sums: Sequence[Value]) -> list[Value]:
        """The sums with what the first line of the panel says."""
        b, kind = self.b, self.kind
        line = [
            b.load(kind.vector, b.byte_address(self.a.right, v * kind.nbytes))
            for v in range(self.vectors)
        ]
        return [b.add(total, line[n % self.vectors]) for n, total in enumerate(sums)]

    def _zeros(self, places: Sequence[Value]) -> list[Value]:
        """Sums that begin. Meanwhile the lines are fetched that a convolution stores them to."""
        b = self.b
        if self.kind.has_edges:
            with b.when(b.icmp("eq", self.a.is_non_temporal, 0)):
                for place in places:
                    b.prefetch(place, is_written=True)
        return [b.const(self._type(n), 0) for n in range(len(places))]

    def _places(self) -> list[Value]:
        """Addresses of the tile's vectors; rows after the last one are that one once more."""
        b, a, found = self.b, self.a, list[Value]()
        for r in range(self.rows):
            number = b.intrinsic("smin", a.last, r) if r else b.const(I64, 0)
            row = b.byte_address(a.result, b.mul(number, a.result_row))
            found += [b.byte_address(row, v * self.kind.nbytes) for v in range(self.vectors)]
        return found

    def _entries(self, position: Value) -> list[Value]:
        """Of all rows that the table has for a position."""
        b = self.b
        first = b.mul(position, self.kind.rows)
        places = (
            b.element_address(self.a.table, b.add(first, r), I64) for r in range(self.kind.rows)
        )
        return [b.load(PTR, place) for place in places]

    def _at_edges(self, entries: list[Value], values: Sequence[Value]) -> list[Value]:
        """A position whose first or last row may see padding, or all of them."""
        b, null = self.b, Value("null", PTR)
        no_first, no_last = (b.icmp("eq", entry, null) for entry in (entries[0], entries[-1]))

        def without(*rows: int) -> tuple[Value, ...]:
            return tuple(self._at_all(entries, values, rows))

        def rest() -> tuple[Value, ...]:
            if self.rows < self.kind.rows:
                return without()
            return b.branch(no_last, lambda: without(self.rows - 1), without)

        def begun() -> tuple[Value, ...]:
            return b.branch(no_last, lambda: self._passed(values), lambda: without(0))

        return list(b.branch(no_first, begun, rest))

    def _passed(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Without the products of a position."""
        b, a = self.b, self.a
        *sums, right, fetched = values
        steps = ((right, a.right_step), (fetched, a.fetched_step))
        return (*sums, *(b.byte_address(x, b.mul(a.steps, step)) for x, step in steps))

    def _at_all(
        self, entries: list[Value], values: Sequence[Value], left_out: Sequence[int] = ()
    ) -> list[Value]:
        """The steps of a position, but for rows that are left out."""
        b = self.b
        numbers = [r for r in range(self.rows) if r not in left_out]
        rows = {r: b.byte_address(entries[r], self.a.start) for r in numbers}
        begin = [*values, b.const(I64, 0)]
        with b.carried_loop(0, self.a.steps, initial=begin) as step:
            step.carry(*self._step(rows, step.values))
        return list(step.values[:-1])

    def _step(self, rows: Mapping[int, Value], values: Sequence[Value]) -> list[Value]:
        b, kind = self.b, self.kind
        count = self.rows * self.vectors
        sums, addresses, offset = values[:count], list(values[count:-1]), values[-1]
        for line in range(FETCHED_LINES):
            b.prefetch(b.byte_address(addresses[1], line * CACHE_LINE_NBYTES), is_near=False)
        columns, addresses = self._columns(addresses)
        made: list[Value] = []
        for r in range(self.rows):
            held = sums[r * self.vectors : (r + 1) * self.vectors]
            if r in rows:
                left = self._spread(b.byte_address(rows[r], offset))
                held = [
                    kind.multiply_add(b, self._fitted(left, v), x, t)
                    for v, (x, t) in enumerate(zip(columns, held, strict=True))
                ]
            made += held
        return [*made, *addresses, b.add(offset, self.a.left_step)]


class _HalfTile(_Tile):
    """A tile whose last vector is half as long."""

    def _type(self, number: int) -> IrType:
        is_last = number % self.vectors == self.vectors - 1
        return self.kind.half if is_last else self.kind.vector

    def _spread(self, address: Value) -> Value:
        """Kept from LLVM, which would spread it once more for the short vector."""
        left = super()._spread(address)
        return self.b.intrinsic("arithmetic.fence", left) if self.kind.total.is_float else left

    def _fitted(self, left: Value, number: int) -> Value:
        lanes = self._type(number).lanes
        return left if lanes == left.lanes else self.b.shuffle(left, left, tuple(range(lanes)))


class _PackingTile(_Tile):
    """A whole tile that converts and stores the columns it reads."""

    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, packed: Value, a: TileArguments
    ) -> None:
        super().__init__(b, kind, kind.rows, kind.vectors, a)
        self.packed = packed

    def _begin(self) -> list[Value]:
        return [self.a.right, self.a.fetched, self.packed]

    def _columns(self, addresses: list[Value]) -> tuple[list[Value], list[Value]]:
        b, kind = self.b, self.kind
        right, fetched, packed = addresses
        nbytes = kind.lanes * kind.right.host_nbytes
        columns = [
            kind.read(b, b.byte_address(right, v * nbytes), kind.right, kind.lanes)
            for v in range(self.vectors)
        ]
        for v, value in enumerate(columns):
            b.store(value, b.byte_address(packed, v * kind.nbytes))
        line = b.const(I64, self.vectors * kind.nbytes)
        following = (
            (right, self.a.right_step),
            (fetched, self.a.fetched_step),
            (packed, line),
        )
        return columns, [b.byte_address(place, step) for place, step in following]
