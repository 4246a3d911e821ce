"""Packing of bytes, four to a step, for the instruction that multiplies them.

It takes bytes without a sign and bytes with one. So 128 is added to the elements of rows, and each
panel begins with what that adds to the sums of its columns, negated.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.kernels.products.byte_products import multiply_add_quads
from xladev.codegen.kernels.products.kinds import ProductKind
from xladev.codegen.kernels.products.orders import Order, PanelArguments
from xladev.codegen.llvm import I8, I32, FunctionBuilder, Value, vector

BYTES = 4
ONES = 0x01010101


def emit_pack_quads(
    b: FunctionBuilder, kind: ProductKind, vectors: int, order: Order, a: PanelArguments
) -> None:
    """Writes the function that packs; see `call_pack`."""
    _Quads(b, kind, vectors, a).emit(order)


class _Quads:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, vectors: int, a: PanelArguments
    ) -> None:
        self.b, self.kind, self.vectors, self.a = b, kind, vectors, a
        self.width = vectors * kind.lanes
        self.line = vectors * kind.nbytes
        self.row = b.ashr(a.step, 2)

    def emit(self, order: Order) -> None:
        """All positions after the first line; then that one."""
        b, a = self.b, self.a
        first = b.byte_address(a.panel, self.line)
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
        self._corrections(first)

    def _rows(self, panel: Value, source: Value) -> None:
        b, lanes = self.b, self.kind.lanes
        with b.loop(0, self.a.steps) as step:
            read = b.byte_address(source, b.mul(step, self.a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            for v in range(self.vectors):
                place = b.byte_address(read, v * lanes)
                rows = [
                    b.load(vector(I8, lanes), b.byte_address(place, b.mul(self.row, n)))
                    for n in range(BYTES)
                ]
                b.store(_interleaved(b, rows), b.byte_address(written, v * self.kind.nbytes))

    def _elements(self, panel: Value, source: Value) -> None:
        """Byte by byte, and zeros."""
        b, a = self.b, self.a
        with b.loop(0, a.steps) as step:
            read = b.byte_address(source, b.mul(step, a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            with b.loop(0, a.columns) as c:
                place = b.byte_address(read, b.mul(c, a.column))
                target = b.byte_address(written, b.mul(c, BYTES))
                for n in range(BYTES):
                    value = b.load(I8, b.byte_address(place, b.mul(self.row, n)))
                    b.store(value, b.byte_address(target, n))
            with b.loop(a.columns, self.width) as c:
                b.store(b.const(I32, 0), b.byte_address(written, b.mul(c, BYTES)))

    def _corrections(self, first: Value) -> None:
        """What rows with 128 added to their elements sum up too much, negated."""
        b, kind = self.b, self.kind
        ones = b.const(kind.vector, ONES)
        zeros = [b.const(kind.vector, 0)] * self.vectors
        with b.carried_loop(0, b.mul(self.a.positions, self.a.steps), initial=zeros) as loop:
            line = b.byte_address(first, b.mul(loop.index, self.line))
            columns = [
                b.load(kind.vector, b.byte_address(line, v * kind.nbytes))
                for v in range(self.vectors)
            ]
            loop.carry(*(
                multiply_add_quads(b, ones, x, total)
                for x, total in zip(columns, loop.values, strict=True)
            ))  # fmt: skip
        for v, total in enumerate(loop.values):
            place = b.byte_address(self.a.panel, v * kind.nbytes)
            b.store(b.mul(total, -128), place)


def _interleaved(b: FunctionBuilder, rows: Sequence[Value]) -> Value:
    """Four vectors of bytes as one: the first bytes of all, then the second ones, and so on."""
    lanes = rows[0].lanes
    low, high = (
        b.shuffle(rows[n], rows[n + 1], tuple(range(2 * lanes))) for n in range(0, BYTES, 2)
    )
    order = tuple(n * lanes + lane for lane in range(lanes) for n in range(BYTES))
    return b.shuffle(low, high, order)
