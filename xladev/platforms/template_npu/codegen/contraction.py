"""Sums of products as data: groups of loops, and the two sides under their access maps.

A dot is a sum over one group of loops of products of two arrays read through access maps, and so
is a convolution. `codegen/blocking.py` chooses blocks, `codegen/contraction_stage.py` runs them.

What a vendor replaces: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xladev.platforms.template_npu.codegen.access_map import Row
from xladev.platforms.template_npu.codegen.expression import F32, S32, Expression
from xladev.platforms.template_npu.codegen.nodes import Node
from xladev.platforms.template_npu.codegen.tiles import Box
from xladev.platforms.template_npu.device import isa

MATRIX_TYPES = frozenset(isa.TYPE_NUMBERS[n] for n in ("s8", "u8", "bf16", "f32"))
"""Types that the matrix unit multiplies; all others are multiplied on the vector unit."""

Extents = tuple[int, ...]
Operand = Callable[[Expression], Node]
"""Builds the nodes of one side, under its map."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """A coordinate of the left side that is ``stride`` x a row's + ``dilation`` x a depth's.

    Attributes:
        row, depth: numbers of the loops in `Contraction.rows` and `Contraction.depth`.
        stride, dilation: their steps.
    """

    row: int
    depth: int
    stride: int
    dilation: int


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products over four groups of loops.

    Attributes:
        batch, rows, columns, depth: extents: in both sides, left only, right only, summed over.
        left: the left side over (batch, rows, depth).
        right: the right side over (batch, depth, columns).
        result: coordinates of the result over (batch, rows, columns).
        type: in which it multiplies; the sum is in f32 or s32.
        windows: pairs of loops that slide over one coordinate of the left side. That is read once
            over what both reach, in place of the loop over rows, and the loop over depth is 1.
    """

    batch: Extents
    rows: Extents
    columns: Extents
    depth: Extents
    left: Operand
    right: Operand
    result: tuple[Row, ...]
    type: int
    windows: tuple[Sliding, ...] = ()

    @property
    def total_type(self) -> int:
        """Number of the type of sums."""
        return F32 if isa.TYPES[self.type].is_float else S32

    def left_box(self, rows: Box, depth: Box) -> Box:
        """What the left side is read over for these rows and depths; see `windows`."""
        origin, sizes = [*rows.origin, *depth.origin], [*rows.sizes, *depth.sizes]
        for w in self.windows:
            at, inner = w.row, len(self.rows) + w.depth
            origin[at] = w.stride * origin[at] + w.dilation * origin[inner]
            sizes[at] = w.stride * (sizes[at] - 1) + w.dilation * (sizes[inner] - 1) + 1
            origin[inner], sizes[inner] = 0, 1
        return Box(tuple(origin), tuple(sizes))

    def left_extents(self, rows: Extents, depth: Extents) -> Extents:
        """Sizes of `left_box` for so many rows and depths."""
        zeros = Box((0,) * len(rows), rows), Box((0,) * len(depth), depth)
        return self.left_box(*zeros).sizes

    def left_strides(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides over rows and depth of a value over `left_box`."""
        found = list(strides)
        for w in self.windows:
            step = strides[w.row]
            found[w.row], found[len(self.rows) + w.depth] = step * w.stride, step * w.dilation
        return tuple(found)


def unit_row(j: int, rank: int, factor: int = 1) -> Row:
    """A coordinate that is iteration variable j, times a factor."""
    return 0, tuple(factor if n == j else 0 for n in range(rank))
