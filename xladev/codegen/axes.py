"""Axes that the dimensions of several arrays go through, whatever reshapes and transposes between.

A dimension goes through some axes, the first slowest; one of size 1 goes through none. Where a
reshape cuts a dimension within an axis, that axis is split in two for every array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xladev.codegen.arrays import element_strides
from xladev.hlo.shape import Shape

Dims = tuple[tuple[int, ...], ...]
"""For each dimension of an array, the axes it goes through."""


class Axes:
    """Axes by number, with their sizes."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._parts: dict[int, tuple[int, int]] = {}
        self._loose: set[int] = set()

    def size(self, axis: int) -> int:
        """Elements along an axis."""
        return self._sizes[axis]

    def added(self, size: int, *, loose: bool = False) -> tuple[int, ...]:
        """A new axis, as a dimension of that size has it.

        Args:
            size: elements along it; there is no axis for 1.
            loose: whether values are the same all along it, so that any other will do for it.
        """
        if size == 1:
            return ()
        self._sizes.append(size)
        axis = len(self._sizes) - 1
        if loose:
            self._loose.add(axis)
        return (axis,)

    def expanded(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The same, with axes that have been split since as their parts."""
        found: list[int] = []
        for axis in axes:
            parts = self._parts.get(axis)
            found += (axis,) if parts is None else self.expanded(parts)
        return tuple(found)

    def reshaped(self, dims: Dims, sizes: Sequence[int]) -> Dims | None:
        """What a reshape makes of dimensions; None if it cuts across axes."""
        pending = [axis for each in reversed(dims) for axis in reversed(self.expanded(each))]
        made: list[tuple[int, ...]] = []
        for size in sizes:
            own: list[int] = []
            while size > 1:
                axis = pending.pop()
                if self._sizes[axis] > size:
                    if self._sizes[axis] % size:
                        return None
                    axis, rest = self._split(axis, size)
                    pending.append(rest)
                if size % self._sizes[axis]:
                    return None
                own.append(axis)
                size //= self._sizes[axis]
            made.append(tuple(own))
        return tuple(made)

    def _split(self, axis: int, outer: int) -> tuple[int, int]:
        loose = axis in self._loose
        (first,) = self.added(outer, loose=loose)
        (second,) = self.added(self._sizes[axis] // outer, loose=loose)
        self._parts[axis] = first, second
        return first, second

    def united(self, one: Dims, other: Dims) -> Dims | None:
        """Dimensions of an elementwise instruction of two arrays; None if these do not agree."""
        made: list[tuple[int, ...]] = []
        for left, right in zip(one, other, strict=True):
            x, y = self.expanded(left), self.expanded(right)
            if x == y or self._loose.issuperset(y):
                made.append(x)
            elif self._loose.issuperset(x):
                made.append(y)
            else:
                return None
        return tuple(made)

    def strides(self, dims: Dims, shape: Shape) -> Mapping[int, int]:
        """Elements of an array in memory from one index along an axis to the next."""
        found: dict[int, int] = {}
        for axes, stride in zip(dims, element_strides(shape), strict=True):
            for axis in reversed(self.expanded(axes)):
                found[axis] = stride
                stride *= self._sizes[axis]
        return found
