"""Patches of a convolution's base, lane by lane: the matrix that its filters are multiplied by.

An element of that matrix is where two things meet: a lane (a pixel of the result, or a place in the
window) and a line (a channel and a place in the window, or an image and a pixel). Both have a place
in memory and coordinates, which add up. Where the lanes of a vector are neighbours in memory, a
line is one load; padding is a mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from xladev.codegen.llvm import I32, I64, FunctionBuilder, Value, vector
from xladev.platforms.cpu.codegen.products.kinds import ProductKind

OUTSIDE = -(1 << 30)
"""A coordinate that no other one makes one of the base: that of lanes after the last."""


class LaneDimension(NamedTuple):
    """A dimension that lanes go through.

    Attributes:
        size: number of lanes along it.
        elements: of the base, from one lane to the next.
        first, step: coordinate of the first lane, and from one lane to the next.
    """

    size: int
    elements: int
    first: int
    step: int


class PatchAxis(NamedTuple):
    """A spatial dimension.

    Attributes:
        dimension: which of the lanes' dimensions it is.
        inside: coordinates of the base are from 0 on and below this.
        shift, mask: logarithm of the base's dilation; the dilation less 1.
        stride: elements from one place of a dilated base to the next.
    """

    dimension: int
    inside: int
    shift: int
    mask: int
    stride: int


class _Axis(NamedTuple):
    """`PatchAxis` in registers."""

    dimension: Value
    inside: Value
    shift: Value
    mask: Value
    stride: Value


class LanesArguments(NamedTuple):
    """Lanes of a block.

    Attributes:
        table: what is filled: a line of places, then one of coordinates for each dimension, of
            32-bit numbers.
        line: bytes of such a line.
        first: number of the first lane.
        size: how many there are.
        room: how many are written: a multiple of what a vector holds; those after the last one are
            outside.
        facts: see `lane_facts`.
    """

    table: Value
    line: Value
    first: Value
    size: Value
    room: Value
    facts: Value


class PatchesArguments(NamedTuple):
    """One vector of lanes, over all lines; strides in bytes.

    Attributes:
        target: where its first line goes.
        line: from one line to the next there.
        lanes: this vector's part of a table of lanes.
        lanes_line: from one line to the next there.
        base: the convolution's base, at the first plane.
        planes: number of planes: channels, or images. All positions of one are lines in a row.
        plane: from one plane to the next in the base.
        positions: number of positions in a plane.
        windows: of each position: its place in elements, and its coordinates.
        facts: `PatchAxis` of each spatial dimension.
    """

    target: Value
    line: Value
    lanes: Value
    lanes_line: Value
    base: Value
    planes: Value
    plane: Value
    positions: Value
    windows: Value
    facts: Value


@dataclass(frozen=True, slots=True)
class PatchKind:
    """Which microkernel writes patches.

    Attributes:
        axes: number of spatial dimensions.
        is_dilated: whether the base is, along any of them.
    """

    axes: int
    is_dilated: bool

    def name(self, function: str) -> str:
        """What a function of these patches is called in names of microkernels."""
        return f"{function}.{self.axes}{'.dilated' if self.is_dilated else ''}"


def lane_facts(dims: Sequence[LaneDimension], origin: int) -> tuple[int, ...]:
    """Dimensions as the microkernel reads them, outermost first.

    Args:
        dims: the dimensions.
        origin: place of the first lane, in elements.
    """
    return (origin, *(n for d in dims for n in d))


def call_lanes(b: FunctionBuilder, dimensions: int, arguments: LanesArguments) -> None:
    """Fills a table with the places and coordinates of lanes."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Lanes(inner, dimensions, LanesArguments(*values)).emit()

    b.call_microkernel(f"lanes.{dimensions}", arguments, emit, is_long=False)


def call_patches(
    b: FunctionBuilder, kind: ProductKind, patch: PatchKind, arguments: PatchesArguments
) -> None:
    """Writes one vector of lanes at all lines."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _Patches(inner, kind, patch, PatchesArguments(*values)).emit()

    b.call_microkernel(kind.packed_name(patch.name("patches")), arguments, emit, is_long=False)


class _Lanes:
    def __init__(self, b: FunctionBuilder, dimensions: int, a: LanesArguments) -> None:
        self.b, self.a = b, a
        self.origin = self._fact(0)
        count = len(LaneDimension._fields)
        self.dims = [
            [self._fact(1 + count * d + n) for n in range(count)] for d in range(dimensions)
        ]

    def _fact(self, number: int) -> Value:
        return self.b.load(I64, self.b.element_address(self.a.facts, number, I64))

    def emit(self) -> None:
        """Line by line of the innermost dimension, then what is outside."""
        b, a = self.b, self.a
        inner = self.dims[-1]

        def fill(values: Sequence[Value]) -> tuple[Value]:
            (lane,) = values
            *outer, x = self._index(b.add(a.first, lane))
            count = b.intrinsic("smin", b.sub(inner[0], x), b.sub(a.size, lane))
            self._fill_line(lane, [*outer, x], count)
            return (b.add(lane, count),)

        b.while_loop((b.const(I64, 0),), lambda values: b.icmp("slt", values[0], a.size), fill)
        latest = b.load(I32, self._place(0, b.sub(a.size, 1)))
        with b.loop(a.size, a.room) as lane:
            after = b.resize(b.add(b.sub(lane, a.size), 1), I32, signed=True)
            b.store(b.add(latest, after), self._place(0, lane))
            for line in range(len(self.dims)):
                b.store(b.const(I32, OUTSIDE), self._place(1 + line, lane))

    def _index(self, number: Value) -> list[Value]:
        """Of a lane, outermost first."""
        b, found = self.b, list[Value]()
        for size, *_ in reversed(self.dims[1:]):
            found.append(b.urem(number, size))
            number = b.udiv(number, size)
        return [number, *reversed(found)]

    def _fill_line(self, lane: Value, at: Sequence[Value], count: Value) -> None:
        """Lanes whose indices differ along the innermost dimension alone."""
        b, place = self.b, self.origin
        coordinates = list[Value]()
        for (_, elements, first, step), x in zip(self.dims, at, strict=True):
            place = b.add(place, b.mul(x, elements))
            coordinates.append(b.add(first, b.mul(x, step)))
        _, elements, _, step = self.dims[-1]
        steps = [elements, *(b.const(I64, 0) for _ in self.dims[1:]), step]
        for line, (begin, along) in enumerate(zip([place, *coordinates], steps, strict=True)):
            target = self._place(line, lane)
            with b.loop(0, count) as n:
                number = b.resize(b.add(begin, b.mul(n, along)), I32, signed=True)
                b.store(number, b.element_address(target, n, I32))

    def _place(self, line: int, lane: Value) -> Value:
        start = self.b.byte_address(self.a.table, self.b.mul(self.a.line, line))
        return self.b.element_address(start, lane, I32)


Reader = Callable[[Value], Callable[[Value], Value]]
"""From the numbers of a position to what reads a vector of lanes there, given a plane."""


class PatchReader(ABC):
    """What reads a vector of lanes at positions and planes.

    Args:
        b: where to emit.
        kind: says how many lanes there are, of what type.
        patch: see `PatchKind`.
        lanes: this vector's part of a table of lanes, and bytes from one line to the next there.
        facts: `PatchAxis` of each spatial dimension.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        kind: ProductKind,
        patch: PatchKind,
        lanes: tuple[Value, Value],
        facts: Value,
    ) -> None:
        self.b, self.kind, self.patch, self.lanes, self.facts = b, kind, patch, lanes, facts
        self.numbers = vector(I32, kind.lanes)
        count = len(PatchAxis._fields)
        self.axes = [
            _Axis(*(self._fact(count * n + f) for f in range(count))) for n in range(patch.axes)
        ]

    def _fact(self, number: int) -> Value:
        return self.b.load(I64, self.b.element_address(self.facts, number, I64))

    def emit(self) -> None:
        """The visit, with what reads fastest."""
        b = self.b
        places = self._lanes(b.const(I64, 0))
        coordinates = [self._lanes(b.add(axis.dimension, 1)) for axis in self.axes]
        if self.patch.is_dilated:
            self.visit(lambda w: self._apart(places, coordinates, w))
            return
        first = b.extract(places, 0)
        lanes = b.add(b.splat(first, self.kind.lanes), b.lane_numbers(self.kind.lanes))
        is_broken = b.any(b.icmp("ne", places, lanes))
        with b.when(is_broken):
            self.visit(lambda w: self._scattered(places, coordinates, w))
        with b.when(b.not_(is_broken)):
            start = b.resize(first, I64, signed=True)
            self.visit(lambda w: self._unbroken(start, coordinates, w))

    def _lanes(self, line: Value) -> Value:
        first, nbytes = self.lanes
        place = self.b.byte_address(first, self.b.mul(line, nbytes))
        return self.b.load(self.numbers, place)

    @abstractmethod
    def visit(self, reader: Reader) -> None:
        """Emits what reads at all positions and planes; may be called for several readers."""

    def _number(self, window: Value, number: int) -> Value:
        return self.b.load(I64, self.b.element_address(window, number, I64))

    def _spread(self, number: Value) -> Value:
        return self.b.splat(self.b.resize(number, I32, signed=True), self.kind.lanes)

    def _at(self, coordinates: Sequence[Value], window: Value) -> list[Value]:
        """Coordinates of what the lanes see at a position."""
        return [
            self.b.add(x, self._spread(self._number(window, 1 + n)))
            for n, x in enumerate(coordinates)
        ]

    def _inside(self, at: Sequence[Value]) -> Value:
        b = self.b
        pairs = zip(at, self.axes, strict=True)
        return reduce(b.and_, (b.icmp("ult", x, self._spread(axis.inside)) for x, axis in pairs))

    def _unbroken(
        self, start: Value, coordinates: Sequence[Value], window: Value
    ) -> Callable[[Value], Value]:
        b, kind = self.b, self.kind
        mask = self._inside(self._at(coordinates, window))
        first = b.add(start, self._number(window, 0))

        def read(plane: Value) -> Value:
            place = b.element_address(plane, first, kind.element, inbounds=False)
            return b.masked_load(kind.vector, place, mask)

        return read

    def _scattered(
        self, places: Value, coordinates: Sequence[Value], window: Value
    ) -> Callable[[Value], Value]:
        b, kind = self.b, self.kind
        mask = self._inside(self._at(coordinates, window))
        numbers = b.add(places, self._spread(self._number(window, 0)))
        return lambda plane: b.masked_gather(kind.vector, plane, numbers, mask)

    def _apart(
        self, places: Value, coordinates: Sequence[Value], window: Value
    ) -> Callable[[Value], Value]:
        """What is between the elements of a dilated base is not there."""
        b, kind = self.b, self.kind
        at = self._at(coordinates, window)
        mask, numbers = self._inside(at), places
        for x, axis in zip(at, self.axes, strict=True):
            rest = b.and_(x, self._spread(axis.mask))
            mask = b.and_(mask, b.icmp("eq", rest, 0))
            place = b.ashr(x, self._spread(axis.shift))
            numbers = b.add(numbers, b.mul(place, self._spread(axis.stride)))
        return lambda plane: b.masked_gather(kind.vector, plane, numbers, mask)


class _Patches(PatchReader):
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, patch: PatchKind, a: PatchesArguments
    ) -> None:
        super().__init__(b, kind, patch, (a.lanes, a.lanes_line), a.facts)
        self.a = a

    def visit(self, reader: Reader) -> None:
        """Stores what a reader, made for a position, reads from each plane."""
        b, a = self.b, self.a
        step = b.mul(a.positions, a.line)
        with b.loop(0, a.positions) as position:
            number = b.mul(position, 1 + len(self.axes))
            read = reader(b.element_address(a.windows, number, I64))
            target = b.byte_address(a.target, b.mul(position, a.line))
            with b.loop(0, a.planes) as plane:
                value = read(b.byte_address(a.base, b.mul(plane, a.plane)))
                b.store(value, b.byte_address(target, b.mul(plane, step)))
