"""Packing of bf16, two to a step, for the instruction that multiplies them."""

from __future__ import annotations

from xladev.codegen.kernels.products.kinds import ProductKind
from xladev.codegen.kernels.products.orders import Order, PanelArguments
from xladev.codegen.llvm import I16, I32, FunctionBuilder, Value, vector

ELEMENTS, NBYTES = 2, 2


def emit_pack_pairs(
    b: FunctionBuilder, kind: ProductKind, vectors: int, order: Order, a: PanelArguments
) -> None:
    """Writes the function that packs; see `call_pack`."""
    _Pairs(b, kind, vectors, a).emit(order)


class _Pairs:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, vectors: int, a: PanelArguments
    ) -> None:
        self.b, self.kind, self.vectors, self.a = b, kind, vectors, a
        self.width = vectors * kind.lanes
        self.line = vectors * kind.nbytes
        self.row = b.ashr(a.step, 1)

    def emit(self, order: Order) -> None:
        """All positions; rows that are whole in vectors."""
        b, a = self.b, self.a
        is_whole = b.icmp("eq", a.columns, self.width)
        with b.loop(0, a.positions) as position:
            source = b.byte_address(a.source, b.mul(position, a.position))
            panel = b.byte_address(a.panel, b.mul(b.mul(position, a.steps), self.line))
            if order is Order.ROWS:
                with b.when(is_whole):
                    self._rows(panel, source)
                with b.when(b.not_(is_whole)):
                    self._elements(panel, source)
            else:
                self._elements(panel, source)

    def _rows(self, panel: Value, source: Value) -> None:
        b, lanes = self.b, self.kind.lanes
        order = tuple(n * lanes + lane for lane in range(lanes) for n in range(ELEMENTS))
        with b.loop(0, self.a.steps) as step:
            read = b.byte_address(source, b.mul(step, self.a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            for v in range(self.vectors):
                place = b.byte_address(read, v * lanes * NBYTES)
                first, second = (
                    b.load(vector(I16, lanes), b.byte_address(place, b.mul(self.row, n)))
                    for n in range(ELEMENTS)
                )
                pairs = b.shuffle(first, second, order)
                b.store(pairs, b.byte_address(written, v * self.kind.nbytes))

    def _elements(self, panel: Value, source: Value) -> None:
        """One after the other, and zeros."""
        b, a = self.b, self.a
        with b.loop(0, a.steps) as step:
            read = b.byte_address(source, b.mul(step, a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            with b.loop(0, a.columns) as c:
                place = b.byte_address(read, b.mul(c, a.column))
                target = b.byte_address(written, b.mul(c, ELEMENTS * NBYTES))
                for n in range(ELEMENTS):
                    value = b.load(I16, b.byte_address(place, b.mul(self.row, n)))
                    b.store(value, b.byte_address(target, n * NBYTES))
            with b.loop(a.columns, self.width) as c:
                b.store(b.const(I32, 0), b.byte_address(written, b.mul(c, ELEMENTS * NBYTES)))
