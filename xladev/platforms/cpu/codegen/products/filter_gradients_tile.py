"""The register tile of filters' gradients: some channels times a panel of features, over pixels.

Channels are neighbours in memory, and so are the features of a panel's line. The tile goes through
images, their rows and the pixels of those, in both operands at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.lines import transposed_lines
from xladev.platforms.cpu.codegen.products.kinds import ProductKind


class PixelTileArguments(NamedTuple):
    """What a tile is called with; strides in bytes.

    Attributes:
        left: the first pixel's channels.
        left_image, left_row, left_pixel: from one to the next there.
        right: the first pixel's line of the panel.
        right_image, right_row: from one to the next there; pixels follow one another.
        images, rows, pixels: how many there are.
        result: the first channel's sums.
        result_row: from one channel to the next there.
        goes_on: not zero to add to what the sums are.
    """

    left: Value
    left_image: Value
    left_row: Value
    left_pixel: Value
    right: Value
    right_image: Value
    right_row: Value
    images: Value
    rows: Value
    pixels: Value
    result: Value
    result_row: Value
    goes_on: Value


class TurnArguments(NamedTuple):
    """Sums that are put where a feature's follow one another; strides in bytes.

    Attributes:
        source: lines of the sums of a panel's features.
        lines: how many.
        features: how many of the panel's there are.
        target: the first feature's place.
        target_feature: from one feature to the next there.
    """

    source: Value
    lines: Value
    features: Value
    target: Value
    target_feature: Value


def call_pixel_tile(
    b: FunctionBuilder, kind: ProductKind, rows: int, arguments: PixelTileArguments
) -> None:
    """Calls the function of a tile of so many channels, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _PixelTile(inner, kind, rows, PixelTileArguments(*values)).emit()

    b.call_microkernel(kind.name(f"pixels.{rows}x{kind.vectors}"), arguments, emit)


def call_turn(b: FunctionBuilder, kind: ProductKind, arguments: TurnArguments) -> None:
    """Calls the function that transposes sums."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _turn(inner, kind, TurnArguments(*values))

    b.call_microkernel(kind.packed_name(f"turn.{kind.vectors}"), arguments, emit, is_long=False)


class _PixelTile:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, rows: int, a: PixelTileArguments
    ) -> None:
        self.b, self.kind, self.rows, self.a = b, kind, rows, a

    def emit(self) -> None:
        """Sums in registers."""
        b, a, kind = self.b, self.a, self.kind
        places = [
            b.byte_address(b.byte_address(a.result, b.mul(a.result_row, r)), v * kind.nbytes)
            for r in range(self.rows)
            for v in range(kind.vectors)
        ]
        sums = b.branch(
            b.icmp("ne", a.goes_on, 0),
            lambda: [b.load(kind.vector, p) for p in places],
            lambda: [b.const(kind.vector, 0)] * len(places),
        )
        for place, total in zip(places, self._images([*sums]), strict=True):
            b.store(total, place)

    def _images(self, sums: list[Value]) -> list[Value]:
        b, a = self.b, self.a
        with b.carried_loop(0, a.images, initial=[*sums, a.left, a.right]) as image:
            *held, left, right = image.values
            held = self._rows(held, left, right)
            left, right = b.byte_address(left, a.left_image), b.byte_address(right, a.right_image)
            image.carry(*held, left, right)
        return list(image.values[:-2])

    def _rows(self, sums: list[Value], left: Value, right: Value) -> list[Value]:
        b, a = self.b, self.a
        with b.carried_loop(0, a.rows, initial=[*sums, left, right]) as row:
            *held, left, right = row.values
            held = self._pixels(held, left, right)
            left, right = b.byte_address(left, a.left_row), b.byte_address(right, a.right_row)
            row.carry(*held, left, right)
        return list(row.values[:-2])

    def _pixels(self, sums: list[Value], left: Value, right: Value) -> list[Value]:
        b, a, kind = self.b, self.a, self.kind
        line = b.const(I64, kind.vectors * kind.nbytes)
        with b.carried_loop(0, a.pixels, initial=[*sums, left, right]) as pixel:
            *held, left, right = pixel.values
            held = self._step(held, left, right)
            left, right = b.byte_address(left, a.left_pixel), b.byte_address(right, line)
            pixel.carry(*held, left, right)
        return list(pixel.values[:-2])

    def _step(self, sums: Sequence[Value], left: Value, right: Value) -> list[Value]:
        b, kind, made = self.b, self.kind, list[Value]()
        columns = [
            b.load(kind.vector, b.byte_address(right, v * kind.nbytes)) for v in range(kind.vectors)
        ]
        for r in range(self.rows):
            factor = kind.spread(b, b.byte_address(left, r * kind.size))
            held = sums[r * kind.vectors : (r + 1) * kind.vectors]
            made += (kind.multiply_add(b, factor, x, t) for x, t in zip(columns, held, strict=True))
        return made


def _turn(b: FunctionBuilder, kind: ProductKind, a: TurnArguments) -> None:
    """Squares turned in registers; the last one of lines is cut off as it is stored."""
    lanes, line = kind.lanes, kind.vectors * kind.nbytes
    numbers = b.lane_numbers(lanes, I64)
    with b.loop(0, a.lines, lanes) as first:
        inside = b.icmp("slt", numbers, b.splat(b.sub(a.lines, first), lanes))
        source = b.byte_address(a.source, b.mul(first, line))
        for v in range(kind.vectors):
            read = b.byte_address(source, v * kind.nbytes)
            lines = [b.load(kind.vector, b.byte_address(read, n * line)) for n in range(lanes)]
            for n, value in enumerate(transposed_lines(b, lines)):
                feature = v * lanes + n
                with b.when(b.icmp("sgt", a.features, feature)):
                    target = b.byte_address(a.target, b.mul(a.target_feature, feature))
                    b.masked_store(value, b.element_address(target, first, kind.element), inside)
