"""Packing: columns of the right operand where tiles read them, one vector after the other.

Columns that a panel has too few of are filled with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I16, I64, FunctionBuilder, Value
from xladev.hlo import dtype as dt
from xladev.platforms.cpu.codegen.products.groups import GroupPacking
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments
from xladev.platforms.cpu.codegen.products.quads import emit_pack_quads


def call_pack(
    b: FunctionBuilder, kind: ProductKind, vectors: int, order: Order, arguments: PanelArguments
) -> None:
    """Calls the function that packs, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        a = PanelArguments(*values)
        if kind.has_quads:
            emit_pack_quads(inner, kind, vectors, order, a)
        elif kind.has_pairs and order is Order.COLUMNS:
            words = ProductKind(dt.S32, dt.S32, dt.S32, kind.nbytes)
            _Packing(inner, words, vectors, a).emit(order)
        elif kind.has_pairs:
            GroupPacking(inner, kind, vectors, a, I16).emit(order, a.panel)
        else:
            _Packing(inner, kind, vectors, a).emit(order)

    b.call_microkernel(kind.packed_name(f"pack.{order.value}.{vectors}"), arguments, emit)


class _Packing:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, vectors: int, a: PanelArguments
    ) -> None:
        self.b, self.kind, self.vectors, self.a = b, kind, vectors, a
        self.width = vectors * kind.lanes
        self.line = self.width * kind.size

    def emit(self, order: Order) -> None:
        """Whole panels fast, others element by element."""
        b, a = self.b, self.a
        with b.loop(0, a.positions) as position:
            source = b.byte_address(a.source, b.mul(position, a.position))
            length = b.mul(a.steps, self.line)
            panel = b.byte_address(a.panel, b.mul(position, length))
            self._position(order, panel, source)

    def _position(self, order: Order, panel: Value, source: Value) -> None:
        b = self.b
        zero = b.const(I64, 0)
        if order is Order.APART:
            self._elements(panel, source, zero)
            return
        is_whole = b.icmp("eq", self.a.columns, self.width)
        with b.when(is_whole):
            (self._rows if order is Order.ROWS else self._blocks)(panel, source)
        with b.when(b.not_(is_whole)):
            self._elements(panel, source, zero)

    def _rows(self, panel: Value, source: Value) -> None:
        b, kind = self.b, self.kind
        nbytes = kind.lanes * kind.right.host_nbytes
        with b.loop(0, self.a.steps) as step:
            read = b.byte_address(source, b.mul(step, self.a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            for v in range(self.vectors):
                value = kind.read(b, b.byte_address(read, v * nbytes), kind.right, kind.lanes)
                b.store(value, b.byte_address(written, v * kind.nbytes))

    def _blocks(self, panel: Value, source: Value) -> None:
        """Squares turned in registers, then what is left of the steps."""
        b, kind, lanes = self.b, self.kind, self.kind.lanes
        squares = b.udiv(self.a.steps, lanes)
        with b.loop(0, squares) as square:
            for v in range(self.vectors):
                step = b.mul(square, lanes)
                first = b.mul(self.a.column, v * lanes)
                read = b.byte_address(source, b.add(first, b.mul(step, kind.right.host_nbytes)))
                lines = [
                    kind.read(
                        b, b.byte_address(read, b.mul(self.a.column, n)), kind.right, lanes
                    )
                    for n in range(lanes)
                ]  # fmt: skip
                written = b.byte_address(panel, b.add(b.mul(step, self.line), v * kind.nbytes))
                for n, value in enumerate(turned(b, lines)):
                    b.store(value, b.byte_address(written, n * self.line))
        self._elements(panel, source, b.mul(squares, lanes))

    def _elements(self, panel: Value, source: Value, first: Value) -> None:
        """Steps from the first on, one element after the other, and zeros."""
        b, kind, a = self.b, self.kind, self.a
        with b.loop(first, a.steps) as step:
            read = b.byte_address(source, b.mul(step, a.step))
            written = b.byte_address(panel, b.mul(step, self.line))
            with b.loop(0, a.columns) as c:
                value = kind.read(b, b.byte_address(read, b.mul(c, a.column)), kind.right, 1)
                b.store(value, b.element_address(written, c, kind.element))
            with b.loop(a.columns, self.width) as c:
                b.store(b.const(kind.element, 0), b.element_address(written, c, kind.element))


def turned(b: FunctionBuilder, lines: Sequence[Value]) -> list[Value]:
    """A square of elements, one vector a line, with lines and columns exchanged."""
    held, count, step = list(lines), len(lines), 1
    while step < count:
        low = tuple(n if n // step % 2 == 0 else count + n - step for n in range(count))
        high = tuple(n + step if n // step % 2 == 0 else count + n for n in range(count))
        for n in range(count):
            if n // step % 2 == 0:
                pair = held[n], held[n + step]
                held[n], held[n + step] = b.shuffle(*pair, low), b.shuffle(*pair, high)
        step *= 2
    return held
