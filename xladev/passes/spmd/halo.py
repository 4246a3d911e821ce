"""Halos: what a device needs of its neighbours' parts, so that elements can move along a dimension.

A device that computes some range of a result needs a range of the operand, which may begin before
its part and end behind it. It is given what this range meets of other parts, by one
collective-permute for each distance, and takes the range out of it. Where ranges meet parts in
unlike ways, that has some devices receive what they do not need; then boxes are sent instead
(`transfer.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Grid
from xladev.passes.spmd.local_builder import LocalBuilder
from xladev.passes.spmd.transfer import Box, Pairs, Round, emit, rounds


@dataclass(frozen=True, slots=True)
class Ranges:
    """The range of a dimension that each place along its cut needs.

    Attributes:
        starts: first element, by place; negative or behind the end where there is none.
        length: number of elements.
        part: number of elements in a part, padding included.
        size: of the whole dimension.
        used: how many elements of its range each place needs; all if empty.
    """

    starts: tuple[int, ...]
    length: int
    part: int
    size: int
    used: tuple[int, ...] = ()

    @property
    def distances(self) -> range:
        """How far away, in parts, what some place needs is."""
        ends = [start + self.length - 1 for start in self.starts]
        return range(
            min(start // self.part - place for place, start in enumerate(self.starts)),
            max(end // self.part - place for place, end in enumerate(ends)) + 1,
        )

    def sources(self, distance: int) -> list[tuple[int, int]]:
        """Places that need the part at a distance, each behind the place that has it."""
        return [
            (place + distance, place)
            for place, start in enumerate(self.starts)
            if 0 <= place + distance < len(self.starts)
            and start // self.part <= place + distance <= (start + self.length - 1) // self.part
        ]

    def window(self, distance: int) -> tuple[int, int]:
        """From and to where, within the part at a distance, some place needs elements."""
        begins, ends = [], []
        for source, place in self.sources(distance):
            first = self.starts[place] - source * self.part
            begins.append(max(first, 0))
            ends.append(min(first + self.length, self.part))
        return min(begins), max(ends)

    @property
    def joined(self) -> int:
        """How many elements all places receive when parts are joined."""
        count = len(self.starts)
        return count * (count - 1) * self.part

    @property
    def sent(self) -> int:
        """How many elements of the dimension all places receive."""
        return min(self._along_distances, self._in_boxes)

    @property
    def pieces(self) -> int:
        """How many collective-permutes it takes, at most."""
        return len(self.as_boxes or self.distances)

    @property
    def as_boxes(self) -> tuple[Round, ...]:
        """The boxes to send, if that is less; else none."""
        return _boxes(self) if self._in_boxes < self._along_distances else ()

    @property
    def _along_distances(self) -> int:
        total = 0
        for distance in self.distances:
            sources = self.sources(distance) if distance else []
            if sources:
                begin, end = self.window(distance)
                total += (end - begin) * len(sources)
        return total

    @property
    def _in_boxes(self) -> int:
        if len(self.starts) > _MOST_PLACES:
            return self._along_distances
        return sum(each.moved for each in _boxes(self))

    @property
    def are_inside(self) -> bool:
        """True if no range leaves the array."""
        return all(s >= 0 and s + self.length <= self.size for s in self.starts)


_MOST_PLACES = 64


@lru_cache(1024)
def _boxes(ranges: Ranges) -> tuple[Round, ...]:
    part, size = ranges.part, ranges.size
    used = ranges.used or (ranges.length,) * len(ranges.starts)
    begins = range(0, len(ranges.starts) * part, part)
    has = [Box((begin,), (min(begin + part, size),)) for begin in begins]
    needs = [
        Box((max(start, 0),), (min(start + count, size),))
        for start, count in zip(ranges.starts, used, strict=True)
    ]
    return tuple(rounds(has, needs, [(start,) for start in ranges.starts]))


def fetch(
    b: LocalBuilder,
    x: HloInstruction,
    cut: AxisSharding,
    dimension: int,
    ranges: Ranges,
    fill: HloInstruction | None = None,
) -> HloInstruction:
    """Each device's range of a dimension.

    Args:
        b: takes the code.
        x: the part that this device has.
        cut: how the array is cut.
        dimension: along which the ranges are.
        ranges: by place along the cut of the dimension.
        fill: scalar that stands for what is outside of the array; None where it does not matter.
    """
    grid, atoms = cut.grid, cut.dims[dimension]
    if boxes := ranges.as_boxes:
        taken = _in_boxes(b, x, cut, dimension, ranges, boxes)
        return taken if fill is None else _filled(b, taken, cut, dimension, ranges, fill)
    parts = [_at_distance(b, x, cut, dimension, ranges, n) for n in ranges.distances]
    row = b.concatenate(parts, dimension)
    first = ranges.distances.start
    begins = [s - (place + first) * ranges.part for place, s in enumerate(ranges.starts)]
    places = grid.index(atoms)
    starts: list[HloInstruction | int] = [0] * x.shape.rank
    starts[dimension] = b.chosen([begins[place] for place in places])
    sizes = list(x.shape.dims)
    sizes[dimension] = ranges.length
    taken = b.dynamic_slice(row, starts, sizes)
    return taken if fill is None else _filled(b, taken, cut, dimension, ranges, fill)


def _in_boxes(
    b: LocalBuilder,
    x: HloInstruction,
    cut: AxisSharding,
    dimension: int,
    ranges: Ranges,
    boxes: Sequence[Round],
) -> HloInstruction:
    sizes = list(x.shape.dims)
    sizes[dimension] = ranges.length
    into = b.unspecified(x.shape.element_type, sizes)

    def pairs_of(places: Pairs) -> Pairs:
        return permutation(cut.grid, cut, dimension, places)

    return emit(b, x, into, boxes, cut.grid.index(cut.dims[dimension]), pairs_of, (dimension,))


def _filled(
    b: LocalBuilder,
    taken: HloInstruction,
    cut: AxisSharding,
    dimension: int,
    ranges: Ranges,
    fill: HloInstruction,
) -> HloInstruction:
    """A range with a scalar for what is outside of the array."""
    if ranges.are_inside:
        return taken
    sizes, places = taken.shape.dims, cut.grid.index(cut.dims[dimension])
    at = b.add(b.iota(dt.S32, sizes, dimension), b.chosen([ranges.starts[p] for p in places]))
    inside = b.op("and", b.compare("GE", at, 0), b.compare("LT", at, ranges.size))
    return b.op("select", inside, taken, b.broadcast(fill, sizes, ()))


def _at_distance(
    b: LocalBuilder,
    x: HloInstruction,
    cut: AxisSharding,
    dimension: int,
    ranges: Ranges,
    distance: int,
) -> HloInstruction:
    if distance == 0:
        return x
    needed = ranges.sources(distance)
    if not needed:
        return b.full_like(x, 0)
    begin, end = ranges.window(distance)
    piece = b.slice_in(x, dimension, begin, end)
    moved = b.permute(piece, permutation(cut.grid, cut, dimension, needed))
    edges = [(0, 0, 0)] * x.shape.rank
    edges[dimension] = (begin, ranges.part - end, 0)
    return b.pad(moved, edges)


def permutation(
    grid: Grid, cut: AxisSharding, dimension: int, places: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Source and target devices of moves between places along the cut of a dimension."""
    rows = grid.groups(cut.dims[dimension])
    return [(row[source], row[target]) for row in rows for source, target in places]
