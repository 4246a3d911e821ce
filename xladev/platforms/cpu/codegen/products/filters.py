"""Packing of filters that have the window innermost (`oi01`): panels without a transposed copy.

A feature's filter is one run of memory there, channel by channel, each with all positions. Squares
of these runs are turned in registers, and each line goes to its place: panels have the channels of
a position one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.panel import turned

AHEAD = 512
"""Bytes that each feature's filter is fetched ahead of what is packed."""


class FiltersArguments(NamedTuple):
    """What the function is called with.

    Attributes:
        panel: where to pack.
        source: filter of the first feature.
        positions: number of positions of the window, neighbours in memory.
        channels: number of channels, one after the other.
        column: bytes from one feature to the next.
        columns: number of features; at least 1. Further ones in their last vector are the last
            feature once more, further vectors are left as they are.
    """

    panel: Value
    source: Value
    positions: Value
    channels: Value
    column: Value
    columns: Value


def call_pack_filters(b: FunctionBuilder, kind: ProductKind, arguments: FiltersArguments) -> None:
    """Calls the function that packs a panel of all the depth, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Filters(inner, kind, FiltersArguments(*values)).emit()

    b.call_microkernel(kind.packed_name(f"pack.filters.{kind.vectors}"), arguments, emit)


class _Filters:
    def __init__(self, b: FunctionBuilder, kind: ProductKind, a: FiltersArguments) -> None:
        self.b, self.kind, self.a = b, kind, a
        self.line = kind.width * kind.size
        self.depth = b.mul(a.positions, a.channels)
        self.position = b.mul(a.channels, self.line)
        self.wrapped = b.sub(self.line, b.mul(b.sub(a.positions, 1), self.position))

    def emit(self) -> None:
        """Vector by vector of features: squares, or elements where there are fewer."""
        b, lanes = self.b, self.kind.lanes
        has_squares = b.icmp("sge", self.depth, lanes)
        for v in range(self.kind.vectors):
            first = v * lanes
            with b.when(b.icmp("sgt", self.a.columns, first)):
                last = b.sub(b.sub(self.a.columns, first), 1)
                source = b.byte_address(self.a.source, b.mul(self.a.column, first))
                panel = b.byte_address(self.a.panel, v * self.kind.nbytes)
                with b.when(has_squares):
                    self._squares(panel, source, last)
                with b.when(b.not_(has_squares)):
                    self._elements(panel, source, last)

    def _squares(self, panel: Value, source: Value, last: Value) -> None:
        """The last one begins where it has all its lines, some of them once more."""
        b, kind, lanes = self.b, self.kind, self.kind.lanes
        steps = [
            b.select(b.icmp("sle", b.const(I64, n), last), self.a.column, b.const(I64, 0))
            for n in range(1, lanes)
        ]
        latest = b.sub(self.depth, lanes)
        with b.loop(0, self.depth, lanes) as begin:
            number = b.intrinsic("smin", begin, latest)
            read, lines = b.byte_address(source, b.mul(number, kind.right.host_nbytes)), []
            for n in range(lanes):
                if n:
                    read = b.byte_address(read, steps[n - 1])
                b.prefetch(b.byte_address(read, AHEAD), is_near=False)
                lines.append(kind.read(b, read, kind.right, lanes))
            self._store(panel, number, turned(b, lines))

    def _store(self, panel: Value, number: Value, lines: Sequence[Value]) -> None:
        """Lines to the places of the elements from a number on."""
        b = self.b
        position, place = self._place(panel, number)
        for n, line in enumerate(lines):
            if n:
                position, place = self._next(position, place)
            b.store(line, place)

    def _place(self, panel: Value, number: Value) -> tuple[Value, Value]:
        """Position and address of an element of a filter."""
        b = self.b
        position = b.urem(number, self.a.positions)
        channel = b.mul(b.udiv(number, self.a.positions), self.line)
        offset = b.add(channel, b.mul(position, self.position))
        return position, b.byte_address(panel, offset)

    def _next(self, position: Value, place: Value) -> tuple[Value, Value]:
        """Of the element after it: at the next position, or of the next channel."""
        b = self.b
        after = b.add(position, 1)
        is_over = b.icmp("eq", after, self.a.positions)
        step = b.select(is_over, self.wrapped, self.position)
        return b.select(is_over, b.const(I64, 0), after), b.byte_address(place, step)

    def _elements(self, panel: Value, source: Value, last: Value) -> None:
        b, kind = self.b, self.kind
        with b.loop(0, self.depth) as number:
            _, place = self._place(panel, number)
            read = b.byte_address(source, b.mul(number, kind.right.host_nbytes))
            with b.loop(0, kind.lanes) as n:
                column = b.mul(b.intrinsic("smin", n, last), self.a.column)
                value = kind.read(b, b.byte_address(read, column), kind.right, 1)
                b.store(value, b.element_address(place, n, kind.element))
