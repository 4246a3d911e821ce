"""Depthwise convolutions: sums of products element by element, of rows given by a table.

As in a tile, each position of the window has an address for each row (a pixel of the result); but
what is there are all channels, each of which has its own sum.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I64, PTR, FunctionBuilder, Value
from xladev.hlo.dtype import PrimitiveType
from xladev.platforms.cpu.codegen.products.kinds import CACHE_LINE_NBYTES, VECTORS, ProductKind
from xladev.platforms.cpu.codegen.products.non_temporal import store_non_temporal_or_cached


class ChannelsArguments(NamedTuple):
    """What a block of rows is called with; strides in bytes.

    Attributes:
        table: addresses of rows: tile by tile, position by position.
        rows: number of rows.
        positions: number of positions.
        right: factors of the first position.
        right_position: from one position to the next there.
        result: first row of the result.
        result_row: from one row to the next.
        columns: number of channels, at least those of one vector.
        is_non_temporal: not zero to write the result past the caches; its vectors then are aligned.
        fetched: positions, 8 bytes each, that see what no row before has seen.
        fetched_count: how many are fetched ahead.
        ahead: by how many rows, a multiple of a tile's.
    """

    table: Value
    rows: Value
    positions: Value
    right: Value
    right_position: Value
    result: Value
    result_row: Value
    columns: Value
    is_non_temporal: Value
    fetched: Value
    fetched_count: Value
    ahead: Value


def call_channels(b: FunctionBuilder, kind: ProductKind, arguments: ChannelsArguments) -> None:
    """Calls the function of a block of rows, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Channels(inner, kind, ChannelsArguments(*values)).emit()

    b.call_microkernel(kind.name("channels"), arguments, emit)


class _Channels:
    def __init__(self, b: FunctionBuilder, kind: ProductKind, a: ChannelsArguments) -> None:
        self.b, self.kind, self.a = b, kind, a

    def emit(self) -> None:
        """Wide tiles, then narrow ones; the last of these may compute some channels again."""
        b, a, kind = self.b, self.a, self.kind
        whole = b.mul(b.udiv(a.columns, kind.width), kind.width)
        with b.loop(0, a.rows, kind.rows) as row:
            with b.loop(0, whole, kind.width) as column:
                self._tile(row, column, VECTORS)
            with b.loop(whole, a.columns, kind.lanes) as column:
                latest = b.sub(a.columns, kind.lanes)
                self._tile(row, b.intrinsic("smin", column, latest), 1)

    def _tile(self, row: Value, column: Value, vectors: int) -> None:
        b, a, kind = self.b, self.a, self.kind
        table = b.byte_address(a.table, b.mul(b.mul(row, a.positions), 8))
        offsets = [self._bytes(column, size) for size in (kind.left, kind.right)]
        right = b.byte_address(a.right, offsets[1])
        self._fetch_ahead(row, offsets[0], vectors)
        zeros = [b.const(kind.vector, 0)] * (kind.rows * vectors)
        with b.carried_loop(0, a.positions, initial=zeros) as position:
            factor = b.byte_address(right, b.mul(position.index, a.right_position))
            factors = self._read(factor, kind.right, vectors)
            made: list[Value] = []
            for r in range(kind.rows):
                number = b.add(b.mul(position.index, kind.rows), r)
                place = b.load(PTR, b.element_address(table, number, I64))
                values = self._read(b.byte_address(place, offsets[0]), kind.left, vectors)
                held = position.values[r * vectors : (r + 1) * vectors]
                made += [
                    kind.multiply_add(b, x, y, t)
                    for x, y, t in zip(values, factors, held, strict=True)
                ]
            position.carry(*made)
        self._store(row, column, position.values, vectors)

    def _fetch_ahead(self, row: Value, offset: Value, vectors: int) -> None:
        """What a later tile of the block is the first to read, for the second cache.

        Rows of the base that windows go to are many runs in memory, of a few lines at once, which
        the processor does not foresee.
        """
        b, a, kind = self.b, self.a, self.kind
        last = b.mul(b.udiv(b.sub(a.rows, 1), kind.rows), kind.rows)
        later = b.intrinsic("smin", b.add(row, a.ahead), last)
        table = b.byte_address(a.table, b.mul(b.mul(later, a.positions), 8))
        nbytes = vectors * kind.lanes * kind.left.host_nbytes
        with b.loop(0, a.fetched_count) as n:
            position = b.load(I64, b.element_address(a.fetched, n, I64))
            first = b.element_address(table, b.mul(position, kind.rows), I64)
            for r in range(kind.rows):
                place = b.byte_address(
                    b.load(PTR, b.element_address(first, b.const(I64, r), I64)), offset
                )
                for at in range(0, nbytes, CACHE_LINE_NBYTES):
                    b.prefetch(b.byte_address(place, at), is_near=False)

    def _bytes(self, column: Value, dtype: PrimitiveType) -> Value:
        return self.b.mul(column, dtype.host_nbytes)

    def _read(self, place: Value, dtype: PrimitiveType, vectors: int) -> list[Value]:
        b, kind = self.b, self.kind
        nbytes = kind.lanes * dtype.host_nbytes
        return [
            kind.read(b, b.byte_address(place, v * nbytes), dtype, kind.lanes)
            for v in range(vectors)
        ]

    def _store(self, row: Value, column: Value, sums: tuple[Value, ...], vectors: int) -> None:
        """Rows after the last one are that one once more."""
        b, a, kind, places = self.b, self.a, self.kind, list[Value]()
        last = b.sub(a.rows, 1)
        for r in range(kind.rows):
            number = b.intrinsic("smin", b.add(row, r), last)
            place = b.byte_address(a.result, b.mul(number, a.result_row))
            place = b.byte_address(place, b.mul(column, kind.size))
            places += [b.byte_address(place, v * kind.nbytes) for v in range(vectors)]
        store_non_temporal_or_cached(b, a.is_non_temporal, sums, places)
