"""How a tensor's elements lie in memory, where they lie without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.hlo.shape import Shape, array


def dense_order(strides: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """Dimensions from the outermost in memory to the innermost.

    The order of the dimensions themselves where the elements have gaps or overlap: such a tensor is
    copied first.
    """
    plain = tuple(range(len(dims)))
    if 0 in dims:
        return plain
    order = sorted(plain, key=lambda d: (-strides[d], d) if dims[d] != 1 else (0, d))
    order = _with_ones(order, strides, dims)
    expected = 1
    for d in reversed(order):
        if dims[d] == 1:
            continue
        if strides[d] != expected:
            return plain
        expected *= dims[d]
    return tuple(order)


def _with_ones(order: list[int], strides: Sequence[int], dims: Sequence[int]) -> list[int]:
    """Dimensions of size 1 lie anywhere: each stays beside the one before it."""
    long = [d for d in order if dims[d] != 1]
    if long == sorted(long):
        return list(range(len(dims)))
    made = list(long)
    for d in range(len(dims)):
        if dims[d] == 1:
            made.insert(0 if d == 0 else made.index(d - 1) + 1, d)
    return made


@dataclass(frozen=True, slots=True)
class Place:
    """An array as torch sees it, and the order in which its dimensions lie in memory.

    Attributes:
        shape: as torch sees it.
        order: dimensions from the outermost in memory to the innermost.
    """

    shape: Shape
    order: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it lies row by row."""
        return self.order == tuple(range(len(self.order)))

    @property
    def stored(self) -> Shape:
        """The shape in which it lies row by row."""
        return array(self.shape.element_type, [self.shape.dims[d] for d in self.order])

    @property
    def back(self) -> tuple[int, ...]:
        """The permutation from `stored` to `shape`."""
        return tuple(self.order.index(d) for d in range(len(self.order)))
