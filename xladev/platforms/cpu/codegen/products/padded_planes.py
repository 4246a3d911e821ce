"""Depthwise convolutions by planes with their padding, in parts that the first cache holds.

A part of a plane is copied once, with zeros where padding is, and pixels sorted by their remainder
of the strides. Then what the lanes of a vector read lies together at every place in the window, and
nothing is masked: lanes go on over the ends of rows, and what they give there nobody copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xladev.codegen.llvm import I32, I64, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.planar import PlanarPlan

Values = Sequence[Value]

PART_NBYTES = 24 << 10
"""Bytes of a part and of its results, about: most of the first cache."""
STRIDES = (1, 2)
"""Strides along rows for which pixels are sorted by shuffles."""
LEAST_PIXELS = {1: 256, 2: 36}
"""Pixels of the result's planes from which on a copy pays, by the stride along rows: without one a
vector's lanes are neighbours, or gathered one by one."""
SUMS = (8, 4, 1)
"""Vectors at once: so many sums hide how long a product takes, while there are so many."""


@dataclass(frozen=True, slots=True)
class PaddedPlan:
    """How planes are cut and copied; in elements.

    Attributes:
        planar: the convolution.
    """

    planar: PlanarPlan

    @property
    def has_rows(self) -> bool:
        """False for one spatial dimension: planes of one row."""
        return len(self.planar.axes) > 1

    @property
    def height(self) -> int:
        """Rows of a plane of the result."""
        return self.planar.pixels[0] if self.has_rows else 1

    @property
    def width(self) -> int:
        """Pixels of such a row."""
        return self.planar.pixels[-1]

    @property
    def strides(self) -> tuple[int, int]:
        """Pixels of the base from one of the result to the next, along columns and along rows."""
        along = self.planar.axes[-1].window.stride
        return (self.planar.axes[0].window.stride if self.has_rows else 1), along

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Row and column of each place in the window, in pixels of the base."""
        numbers = self.planar.window_numbers
        step = 1 + len(self.planar.axes)
        found = [numbers[n + 1 : n + step] for n in range(0, len(numbers), step)]
        return tuple((at[0] if self.has_rows else 0, at[-1]) for at in found)

    @property
    def pitch(self) -> int:
        """From one copied row to the next."""
        return self.width + max(x for _, x in self.places) // self.strides[1]

    @property
    def part_rows(self) -> int:
        """Rows of the result in a part."""
        down, along = self.strides
        nbytes = self.planar.total.host_nbytes * self.pitch
        more = (max(y for y, _ in self.places) // down) * down * along * nbytes
        most = (PART_NBYTES - more) // (nbytes * (1 + down * along))
        parts = -(-self.height // max(most, 1))
        return -(-self.height // parts)

    @property
    def parts(self) -> int:
        """Of a plane."""
        return -(-self.height // self.part_rows)

    @property
    def copied_rows(self) -> int:
        """Rows of one remainder in a part."""
        return self.part_rows + max(y for y, _ in self.places) // self.strides[0]

    @property
    def remainder_step(self) -> int:
        """From the rows of one remainder to those of the next: room for a vector after the last."""
        return self.copied_rows * self.pitch + self.room

    @property
    def room(self) -> int:
        """Elements of the longest vector."""
        return WIDEST_NBYTES // self.planar.total.host_nbytes

    @property
    def copied(self) -> int:
        """Elements of a copied part."""
        return prod(self.strides) * self.remainder_step

    @property
    def workspace_nbytes(self) -> int:
        """A copied part, and its results; vectors are written whole, and read whole after them."""
        results = self.part_rows * self.pitch + self.room
        return (self.copied + self.room + results) * self.planar.total.host_nbytes

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where the first pixel's vector is at each place in the window, in bytes."""
        size, (down, along) = self.planar.total.host_nbytes, self.strides
        found = list[int]()
        for y, x in self.places:
            remainder = y % down * along + x % along
            place = y // down * self.pitch + x // along
            found.append(size * (remainder * self.remainder_step + place))
        return tuple(found)


def padded_plan(plan: PlanarPlan) -> PaddedPlan | None:
    """How a depthwise convolution is computed so; None if it is not."""
    *_, x = plan.axes
    if not plan.is_depthwise or plan.is_dilated or len(plan.axes) > 2:
        return None
    stride = x.window.stride
    if x.stride != 1 or stride not in STRIDES or prod(plan.pixels) < LEAST_PIXELS[stride]:
        return None
    padded = PaddedPlan(plan)
    return padded if padded.workspace_nbytes <= 2 * PART_NBYTES else None


class CopyArguments(NamedTuple):
    """A part of a plane to be copied; strides in bytes.

    Attributes:
        target: first element of the copy.
        remainder: from the rows of one remainder to those of the next there.
        pitch: from one row to the next there.
        source: first element of the plane.
        source_row: elements from one row to the next there.
        rows: of one remainder.
        down: the stride of the convolution along columns: number of remainders of rows.
        first_row, first_pixel: coordinates of the first element copied; padding is below 0.
        height, width: of the plane.
        length: elements of a row that are copied, of each remainder.
    """

    target: Value
    remainder: Value
    pitch: Value
    source: Value
    source_row: Value
    rows: Value
    down: Value
    first_row: Value
    first_pixel: Value
    height: Value
    width: Value
    length: Value


class SumsArguments(NamedTuple):
    """Products of a copied part and a filter.

    Attributes:
        target: first result.
        source: the copied part.
        results: how many, those after the ends of rows among them.
        positions: number of places in the window.
        offsets: bytes from the part to its first vector at each of them.
        right: the filter.
        right_position: bytes from one place in the window to the next there.
    """

    target: Value
    source: Value
    results: Value
    positions: Value
    offsets: Value
    right: Value
    right_position: Value


def call_copy(b: FunctionBuilder, kind: ProductKind, stride: int, arguments: CopyArguments) -> None:
    """Calls the function that copies for one of `STRIDES` along rows."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _copy(inner, kind, stride, CopyArguments(*values))

    b.call_microkernel(kind.packed_name(f"copy.planes.{stride}"), arguments, emit, is_long=False)


def call_sums(b: FunctionBuilder, kind: ProductKind, arguments: SumsArguments) -> None:
    """Calls the function that multiplies."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _sums(inner, kind, SumsArguments(*values))

    b.call_microkernel(kind.packed_name("sums.planes"), arguments, emit)


def _copy(b: FunctionBuilder, kind: ProductKind, stride: int, a: CopyArguments) -> None:
    with b.loop(0, a.down) as rest, b.loop(0, a.rows) as row:
        y = b.add(a.first_row, b.add(b.mul(row, a.down), rest))
        limit = b.select(b.icmp("ult", y, a.height), a.width, b.const(I64, 0))
        line = b.mul(y, a.source_row)
        place = b.mul(b.mul(rest, stride), a.remainder)
        target = b.byte_address(a.target, b.add(place, b.mul(row, a.pitch)))
        with b.loop(0, a.length, kind.lanes) as x:
            seen = b.add(a.first_pixel, b.mul(x, stride))
            parts = [
                _inside(b, kind, a.source, (line, b.add(seen, n * kind.lanes)), limit)
                for n in range(stride)
            ]
            for n in range(stride):
                lanes = tuple(range(n, stride * kind.lanes, stride))
                value = parts[0] if stride == 1 else b.shuffle(parts[0], parts[1], lanes)
                kept = b.byte_address(target, b.mul(a.remainder, n))
                b.store(value, b.element_address(kept, x, kind.element))


def _inside(
    b: FunctionBuilder, kind: ProductKind, plane: Value, at: tuple[Value, Value], limit: Value
) -> Value:
    """A vector from a row's place and a coordinate on; zeros where it is outside."""
    line, first = at
    start = b.splat(b.resize(first, I32, signed=True), kind.lanes)
    numbers = b.add(start, b.lane_numbers(kind.lanes, I32))
    mask = b.icmp("ult", numbers, b.splat(b.resize(limit, I32, signed=True), kind.lanes))
    place = b.element_address(plane, b.add(line, first), kind.element, inbounds=False)
    return b.masked_load(kind.vector, place, mask)


def _sums(b: FunctionBuilder, kind: ProductKind, a: SumsArguments) -> None:
    """Several vectors at once, then fewer."""
    at = b.const(I64, 0)
    for vectors in SUMS:
        at = _blocks(b, kind, a, at, vectors)


def _blocks(
    b: FunctionBuilder, kind: ProductKind, a: SumsArguments, first: Value, vectors: int
) -> Value:
    """Blocks of so many vectors while the last of them begins with a result; where they end."""
    end = b.sub(a.results, (vectors - 1) * kind.lanes)

    def block(at: Values) -> Values:
        _block(b, kind, a, at[0], vectors)
        return (b.add(at[0], vectors * kind.lanes),)

    (after,) = b.while_loop((first,), lambda at: b.icmp("slt", at[0], end), block)
    return after


def _block(b: FunctionBuilder, kind: ProductKind, a: SumsArguments, at: Value, count: int) -> None:
    source = b.element_address(a.source, at, kind.element)
    zeros = [b.const(kind.vector, 0)] * count
    with b.carried_loop(0, a.positions, initial=zeros) as position:
        offset = b.load(I64, b.element_address(a.offsets, position.index, I64))
        first = b.byte_address(source, offset)
        factor = kind.spread(b, b.byte_address(a.right, b.mul(position.index, a.right_position)))
        position.carry(*(
            kind.multiply_add(b, factor, b.load(kind.vector, _vector(b, kind, first, n)), total)
            for n, total in enumerate(position.values)
        ))  # fmt: skip
    target = b.element_address(a.target, at, kind.element)
    for n, total in enumerate(position.values):
        b.store(total, _vector(b, kind, target, n))


def _vector(b: FunctionBuilder, kind: ProductKind, first: Value, number: int) -> Value:
    return b.element_address(first, b.const(I64, number * kind.lanes), kind.element)
