"""Access maps: which element of an array an iteration of a loop nest uses, as affine functions.

Movement opcodes (broadcast, transpose, slice, reverse, reshape) compute nothing: they change the
map under which their operand is read, and end up in the strides of a DMA descriptor.

What a vendor replaces: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

Row = tuple[int, tuple[int, ...]]
"""One coordinate: an offset, and a coefficient per iteration variable."""


class NotAffineError(Exception):
    """A map that strides cannot express; the array must be put in memory first."""


@lru_cache(maxsize=4096)
def element_strides(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one to the next along each dimension, in row-major order."""
    strides = [1] * len(dims)
    for d in range(len(dims) - 2, -1, -1):
        strides[d] = strides[d + 1] * dims[d + 1]
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class AccessMap:
    """Coordinates in an array as functions of iteration variables.

    Attributes:
        extents: how far each iteration variable runs.
        rows: one per dimension of the array; or, if ``linear``, one row that gives the position
            in row-major order.
        linear: which of the two.
    """

    extents: tuple[int, ...]
    rows: tuple[Row, ...]
    linear: bool = False

    def position(self, dims: tuple[int, ...]) -> Row:
        """The position in row-major order."""
        if self.linear:
            return self.rows[0]
        offset, total = 0, [0] * len(self.extents)
        for (start, coefficients), stride in zip(self.rows, element_strides(dims), strict=True):
            offset += start * stride
            for j, c in enumerate(coefficients):
                total[j] += c * stride
        return offset, tuple(total)

    def by_dimension(self, dims: tuple[int, ...]) -> AccessMap:
        """The same map with a row per dimension.

        Raises:
            NotAffineError: an iteration variable runs over more than one dimension.
        """
        if not self.linear:
            return self
        return AccessMap(self.extents, _split(*self.rows[0], self.extents, dims))

    def reshaped(self, dims: tuple[int, ...]) -> AccessMap:
        """The map of the operand of a reshape to ``dims``; known by position only."""
        return AccessMap(self.extents, (self.position(dims),), linear=True)

    def chosen(self, dimensions: Sequence[int], dims: tuple[int, ...]) -> AccessMap:
        """The map of the operand of a broadcast or transpose.

        Args:
            dimensions: for each dimension of the operand, one of this array, whose ``dims`` they
                are.
            dims: of this array.
        """
        rows = self.by_dimension(dims).rows
        return AccessMap(self.extents, tuple(rows[d] for d in dimensions))

    def scaled(
        self, starts: Sequence[int], steps: Sequence[int], dims: tuple[int, ...]
    ) -> AccessMap:
        """The map with each coordinate x as ``start + x * step``."""
        rows = self.by_dimension(dims).rows
        made = tuple(
            (start + offset * step, tuple(c * step for c in coefficients))
            for (offset, coefficients), start, step in zip(rows, starts, steps, strict=True)
        )
        return AccessMap(self.extents, made)


def _split(
    offset: int, coefficients: tuple[int, ...], extents: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[Row, ...]:
    """Rows of a position; see `AccessMap.by_dimension`."""
    strides = element_strides(dims)
    starts = [offset // s % n if n else 0 for s, n in zip(strides, dims, strict=True)]
    table = [[0] * len(extents) for _ in dims]
    for j, (c, extent) in enumerate(zip(coefficients, extents, strict=True)):
        if c == 0 or extent <= 1:
            continue
        d = next((d for d, s in enumerate(strides) if dims[d] > 1 and s <= c), None)
        if c < 0 or d is None or c % strides[d]:
            raise NotAffineError
        table[d][j] = c // strides[d]
    for start, row, size in zip(starts, table, dims, strict=True):
        if start + sum(c * (n - 1) for c, n in zip(row, extents, strict=True)) >= max(size, 1):
            raise NotAffineError
    return tuple((s, tuple(row)) for s, row in zip(starts, table, strict=True))


def identity(dims: tuple[int, ...]) -> AccessMap:
    """Every element of an array, one iteration variable per dimension."""
    rank = len(dims)
    rows = tuple((0, tuple(int(j == d) for j in range(rank))) for d in range(rank))
    return AccessMap(dims, rows)


@lru_cache(maxsize=16384)
def merged(
    counts: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """A loop nest without loops of one, neighbours joined where every operand allows it.

    Args:
        counts: of the loops, outermost first.
        strides: for each operand, one per loop.
    """
    made_counts: list[int] = []
    made: list[list[int]] = []
    for j, count in enumerate(counts):
        if count == 1:
            continue
        here = [s[j] for s in strides]
        if made_counts and all(b == h * count for b, h in zip(made[-1], here, strict=True)):
            made_counts[-1] *= count
            made[-1] = here
        else:
            made_counts.append(count)
            made.append(here)
    columns = tuple(tuple(row[n] for row in made) for n in range(len(strides)))
    return tuple(made_counts), columns
