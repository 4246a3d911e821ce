"""Packing of elements, several to a step, for instructions that multiply neighbours of a row."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I32, FunctionBuilder, IrType, Value, vector
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments

WORD_NBYTES = 4
"""Bytes of a step in a column: as many as a sum has."""


class GroupPacking:
    """Packs columns such that the elements of a step are neighbours.

    Args:
        b: where to emit.
        kind: says how many elements a step has.
        vectors: vectors of columns in a line of the panel.
        a: what the function is called with.
        element: one element, in memory.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        kind: ProductKind,
        vectors: int,
        a: PanelArguments,
        element: IrType,
    ) -> None:
        self.b, self.kind, self.vectors, self.a, self.element = b, kind, vectors, a, element
        self.count = kind.step.elements
        self.nbytes = WORD_NBYTES // self.count
        self.width = vectors * kind.lanes
        self.line = vectors * kind.nbytes
        self.row = b.ashr(a.step, self.count.bit_length() - 1)

    def emit(self, order: Order, first: Value) -> None:
        """All positions, from a line of the panel on; rows that are whole in vectors."""
        b, a = self.b, self.a
        is_whole = b.icmp("eq", a.columns, self.width)
        with b.loop(0, a.positions) as position:
            source = b.byte_address(a.source, b.mul(position, a.position))
            panel = b.byte_address(first, b.mul(b.mul(position, a.steps), self.line))
            if order is Order.ROWS:
                with b.when(is_whole):
                    self._rows(panel, source)
                with b.when(b.not_(is_whole)):
                    self._elements(panel, source)
            else:
                self._elements(panel, source)

    def _rows(self, panel: Value, source: Value) -> None:
        b, lanes = self.b, self.kind.lanes
        with b.loop(0, self.a.steps) as step:
            read = b.byte_address(source, b.mul(step, self.a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            for v in range(self.vectors):
                place = b.byte_address(read, v * lanes * self.nbytes)
                rows = [
                    b.load(vector(self.element, lanes), b.byte_address(place, b.mul(self.row, n)))
                    for n in range(self.count)
                ]
                b.store(_interleaved(b, rows), b.byte_address(written, v * self.kind.nbytes))

    def _elements(self, panel: Value, source: Value) -> None:
        """One after the other, and zeros."""
        b, a = self.b, self.a
        with b.loop(0, a.steps) as step:
            read = b.byte_address(source, b.mul(step, a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            with b.loop(0, a.columns) as c:
                place = b.byte_address(read, b.mul(c, a.column))
                target = b.byte_address(written, b.mul(c, WORD_NBYTES))
                for n in range(self.count):
                    value = b.load(self.element, b.byte_address(place, b.mul(self.row, n)))
                    b.store(value, b.byte_address(target, n * self.nbytes))
            with b.loop(a.columns, self.width) as c:
                b.store(b.const(I32, 0), b.byte_address(written, b.mul(c, WORD_NBYTES)))


def _interleaved(b: FunctionBuilder, rows: Sequence[Value]) -> Value:
    """Vectors of a power of two as one: the first elements of all, then the second ones..."""
    count, lanes, joined = len(rows), rows[0].lanes, list(rows)
    while len(joined) > 2:
        joined = [
            b.shuffle(x, y, tuple(range(2 * x.lanes)))
            for x, y in zip(joined[::2], joined[1::2], strict=True)
        ]
    order = tuple(n * lanes + lane for lane in range(lanes) for n in range(count))
    first, second = joined
    return b.shuffle(first, second, order)
