"""Depthwise convolutions of planes: a filter and a plane for each channel, pixels in vectors."""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.patches import PatchKind, PatchReader, Reader

CHANNELS = 8
"""Channels at once: so many sums hide how long a product takes, and share what is masked."""


class DepthwiseArguments(NamedTuple):
    """One vector of pixels of several channels; strides in bytes.

    Attributes:
        result: first pixel of the first channel.
        result_plane: from one channel to the next there.
        left: pixels of the vector that are kept; all of them if there are more.
        lanes: this vector's part of a table of lanes.
        lanes_line: from one line to the next there.
        base: the convolution's base, at the first channel.
        planes: number of channels.
        plane: from one channel to the next in the base.
        positions: number of places in the window.
        windows: of each of them: its place in elements, and its coordinates.
        facts: `PatchAxis` of each spatial dimension.
        right: filter of the first channel.
        right_plane: from one channel to the next there.
        right_position: from one place in the window to the next there.
    """

    result: Value
    result_plane: Value
    left: Value
    lanes: Value
    lanes_line: Value
    base: Value
    planes: Value
    plane: Value
    positions: Value
    windows: Value
    facts: Value
    right: Value
    right_plane: Value
    right_position: Value


def call_depthwise(
    b: FunctionBuilder, kind: ProductKind, patch: PatchKind, arguments: DepthwiseArguments
) -> None:
    """Calls the function of one vector of pixels, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Depthwise(inner, kind, patch, DepthwiseArguments(*values)).emit()

    b.call_microkernel(kind.packed_name(patch.name("depthwise")), arguments, emit)


class _Depthwise(PatchReader):
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, patch: PatchKind, a: DepthwiseArguments
    ) -> None:
        super().__init__(b, kind, patch, (a.lanes, a.lanes_line), a.facts)
        self.a = a

    def visit(self, reader: Reader) -> None:
        """Several channels at once; those after the last one are that one once more."""
        b, a, kind = self.b, self.a, self.kind
        last = b.sub(a.planes, 1)
        kept = b.icmp("slt", b.lane_numbers(kind.lanes, I64), b.splat(a.left, kind.lanes))
        with b.loop(0, a.planes, CHANNELS) as first:
            numbers = [b.intrinsic("smin", b.add(first, n), last) for n in range(CHANNELS)]
            sums = self._sums(reader, numbers)
            for number, total in zip(numbers, sums, strict=True):
                place = b.byte_address(a.result, b.mul(number, a.result_plane))
                b.masked_store(total, place, kept)

    def _sums(self, reader: Reader, numbers: list[Value]) -> tuple[Value, ...]:
        b, a, kind = self.b, self.a, self.kind
        planes = [b.byte_address(a.base, b.mul(n, a.plane)) for n in numbers]
        filters = [b.byte_address(a.right, b.mul(n, a.right_plane)) for n in numbers]
        zeros = [b.const(kind.vector, 0)] * len(numbers)
        with b.carried_loop(0, a.positions, initial=zeros) as position:
            number = b.mul(position.index, 1 + len(self.axes))
            read = reader(b.element_address(a.windows, number, I64))
            offset = b.mul(position.index, a.right_position)
            position.carry(*(
                kind.multiply_add(b, kind.spread(b, b.byte_address(f, offset)), read(plane), total)
                for f, plane, total in zip(filters, planes, position.values, strict=True)
            ))  # fmt: skip
        return position.values
