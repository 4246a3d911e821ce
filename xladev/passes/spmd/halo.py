"""Halos: what a device needs of its neighbours' parts, so that elements can move along a dimension.

A device that computes some range of a result needs a range of the operand, which may begin before
its part and end behind it. It is given what this range meets of other parts, by one
collective-permute for each distance, and takes the range out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Grid
from xladev.passes.spmd.local_builder import LocalBuilder


@dataclass(frozen=True, slots=True)
class Ranges:
    """The range of a dimension that each place along its cut needs.

    Attributes:
        starts: first element, by place; negative or behind the end where there is none.
        length: number of elements.
        part: number of elements in a part, padding included.
        size: of the whole dimension.
    """

    starts: tuple[int, ...]
    length: int
    part: int
    size: int

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
    def sent(self) -> int:
        """How many elements of the dimension each device receives."""
        windows = [self.window(n) for n in self.distances if n and self.sources(n)]
        return sum(end - begin for begin, end in windows)

    @property
    def are_inside(self) -> bool:
        """True if no range leaves the array."""
        return all(s >= 0 and s + self.length <= self.size for s in self.starts)


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
    if fill is None or ranges.are_inside:
        return taken
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
