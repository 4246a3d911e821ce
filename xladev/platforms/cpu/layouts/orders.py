"""An array with neighbouring dimensions moved behind all others: where dimensions go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Span(NamedTuple):
    """Dimensions that are moved behind all others.

    Attributes:
        first: the first of them.
        end: behind the last one.
    """

    first: int
    end: int

    @property
    def width(self) -> int:
        """How many."""
        return self.end - self.first

    def moves(self, rank: int) -> bool:
        """False if they are the last ones of an array of that rank anyway."""
        return self.width > 0 and self.end < rank

    def holds(self, dim: int) -> bool:
        """True if a dimension is one of them."""
        return self.first <= dim < self.end


def one(dim: int) -> Span:
    """A single dimension."""
    return Span(dim, dim + 1)


def order_with_last(rank: int, span: Span) -> tuple[int, ...]:
    """Dimensions of an array of that rank, some of them behind all others."""
    return (*(d for d in range(rank) if not span.holds(d)), *range(*span))


def place_of(dim: int, span: Span, rank: int) -> int:
    """Where a dimension is once those of the span are the last ones."""
    if dim < span.first:
        return dim
    return dim - span.width if dim >= span.end else rank - span.end + dim


def with_last(values: Sequence[T], span: Span) -> tuple[T, ...]:
    """What there is one of for each dimension, in the new order."""
    return tuple(values[d] for d in order_with_last(len(values), span))


def is_free(dims: Sequence[int], span: Span) -> bool:
    """True if moving the dimensions moves no element: the moved or what they pass are ones."""
    moved, passed = dims[span.first : span.end], dims[span.end :]
    return all(n == 1 for n in moved) or all(n == 1 for n in passed)
