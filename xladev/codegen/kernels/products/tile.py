"""The register tile: some rows of the result times a few vectors of its columns.

The rows of the left operand are given by a table: for each position (one in a product of matrices,
the elements of a window in a convolution) an address for each row of the tile. From there on the
tile goes a number of steps, while it goes through the packed columns without a break. Sums are
made in the order of positions and steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xladev.codegen.kernels.products.kinds import CACHE_LINE_NBYTES, ProductKind
from xladev.codegen.llvm import I64, PTR, FunctionBuilder, Value

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
        fetched: memory that will be needed next.
        fetched_step: from one step to the next there.
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
    fetched: Value
    fetched_step: Value


def call_tile(
    b: FunctionBuilder, kind: ProductKind, rows: int, vectors: int, arguments: TileArguments
) -> None:
    """Calls the function of a tile, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Tile(inner, kind, rows, vectors, TileArguments(*values)).emit()

    b.call_procedure(kind.name(f"tile.{rows}x{vectors}"), arguments, emit)


class _Tile:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, rows: int, vectors: int, a: TileArguments
    ) -> None:
        self.b, self.kind, self.rows, self.vectors, self.a = b, kind, rows, vectors, a

    def emit(self) -> None:
        """Sums in registers, over positions and steps."""
        b, a = self.b, self.a
        places = self._places()
        count = len(places)
        whole = b.icmp("ne", a.goes_on, 0)
        zero = b.const(self.kind.vector, 0)
        sums = b.branch(
            whole, lambda: [b.load(self.kind.vector, p) for p in places], lambda: [zero] * count
        )
        right = a.right
        if self.kind.has_quads:
            sums = tuple(self._corrected(sums))
            right = b.byte_address(right, self.vectors * self.kind.nbytes)
        initial = [*sums, right, a.fetched]
        with b.carried_loop(0, a.positions, initial=initial) as position:
            rows = self._addresses(position.index)
            begin = [*position.values, b.const(I64, 0)]
            with b.carried_loop(0, a.steps, initial=begin) as step:
                step.carry(*self._step(rows, step.values))
            position.carry(*step.values[:-1])
        for place, value in zip(places, position.values[:count], strict=True):
            b.store(value, place)

    def _corrected(self, sums: Sequence[Value]) -> list[Value]:
        """The sums with what the first line of the panel says."""
        b, kind = self.b, self.kind
        line = [
            b.load(kind.vector, b.byte_address(self.a.right, v * kind.nbytes))
            for v in range(self.vectors)
        ]
        return [b.add(total, line[n % self.vectors]) for n, total in enumerate(sums)]

    def _places(self) -> list[Value]:
        """Addresses of the tile's vectors; rows after the last one are that one once more."""
        b, a, found = self.b, self.a, list[Value]()
        for r in range(self.rows):
            number = b.intrinsic("smin", a.last, r) if r else b.const(I64, 0)
            row = b.byte_address(a.result, b.mul(number, a.result_row))
            found += [b.byte_address(row, v * self.kind.nbytes) for v in range(self.vectors)]
        return found

    def _addresses(self, position: Value) -> list[Value]:
        b = self.b
        first = b.mul(position, self.kind.rows)
        entries = (b.element_address(self.a.table, b.add(first, r), I64) for r in range(self.rows))
        return [b.byte_address(b.load(PTR, entry), self.a.start) for entry in entries]

    def _step(self, rows: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        b, kind = self.b, self.kind
        *sums, right, fetched, offset = values
        for line in range(FETCHED_LINES):
            b.prefetch(b.byte_address(fetched, line * CACHE_LINE_NBYTES))
        columns = [
            b.load(kind.vector, b.byte_address(right, v * kind.nbytes)) for v in range(self.vectors)
        ]
        made: list[Value] = []
        for r, row in enumerate(rows):
            left = kind.spread(b, b.byte_address(row, offset))
            held = sums[r * self.vectors : (r + 1) * self.vectors]
            made += [kind.multiply_add(b, left, x, t) for x, t in zip(columns, held, strict=True)]
        return [
            *made,
            b.byte_address(right, self.a.right_step),
            b.byte_address(fetched, self.a.fetched_step),
            b.add(offset, self.a.left_step),
        ]
