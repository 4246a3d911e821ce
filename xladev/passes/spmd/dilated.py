"""Ranges of an array whose elements lie apart, such as a padded or dilated one, part by part.

A device is given the elements that its range meets, puts them apart again, and takes its range,
which may begin between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.hlo.attributes import PadDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.passes.spmd.halo import Ranges, fetch
from xladev.passes.spmd.local_builder import LocalBuilder


@dataclass(frozen=True, slots=True)
class DilatedRanges:
    """The range that each place along a cut needs of elements that lie apart.

    Attributes:
        ranges: of the elements.
        offsets: by place, how far behind its first element its range begins.
        apart: distance of neighbours, 1 or more.
        length: of each range, gaps included.
    """

    ranges: Ranges
    offsets: tuple[int, ...]
    apart: int
    length: int


def dilated_ranges(
    begins: Sequence[int], lengths: Sequence[int], apart: int, size: int
) -> DilatedRanges:
    """The ranges that begin at given places and have given lengths, gaps included.

    Args:
        begins: by place along the cut; the first element of the array is at 0.
        lengths: by place, how much of its range is of use; the longest is that of all ranges.
        apart: distance of neighbours.
        size: number of elements of the dimension.
    """
    firsts = tuple(begin // apart for begin in begins)
    length = max(lengths)
    ends = [(begin + length - 1) // apart for begin in begins]
    used = tuple(
        (begin + n - 1) // apart - first + 1 if n else 0
        for begin, n, first in zip(begins, lengths, firsts, strict=True)
    )
    most = max(end - first + 1 for first, end in zip(firsts, ends, strict=True))
    ranges = Ranges(firsts, most, -(-size // len(begins)), size, used)
    offsets = tuple(begin - first * apart for begin, first in zip(begins, firsts, strict=True))
    return DilatedRanges(ranges, offsets, apart, length)


def fetch_dilated(
    b: LocalBuilder,
    x: HloInstruction,
    cut: AxisSharding,
    dimension: int,
    dilated: DilatedRanges,
    fill: HloInstruction,
) -> HloInstruction:
    """Each device's range of a dimension, with a scalar in gaps and outside of the array.

    Args:
        b: takes the code.
        x: the part that this device has.
        cut: how the array is cut.
        dimension: along which the ranges are.
        dilated: by place along the cut of the dimension.
        fill: a scalar.
    """
    taken = fetch(b, x, cut, dimension, dilated.ranges, fill)
    apart = dilated.apart
    if apart == 1:
        return taken
    have = (taken.shape.dims[dimension] - 1) * apart + 1
    edges = [PadDim(0, 0)] * x.shape.rank
    behind = max(0, max(dilated.offsets) + dilated.length - have)
    edges[dimension] = PadDim(0, behind, apart - 1)
    spread = b.op("pad", taken, fill, padding=tuple(edges))
    starts: list[HloInstruction | int] = [0] * x.shape.rank
    places = cut.grid.index(cut.dims[dimension])
    starts[dimension] = b.chosen([dilated.offsets[place] for place in places])
    sizes = list(x.shape.dims)
    sizes[dimension] = dilated.length
    return b.dynamic_slice(spread, starts, sizes)
