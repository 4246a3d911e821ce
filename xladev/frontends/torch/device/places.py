"""Places of slices and selects: numbers beside a call, so that one call serves all of them.

In a program a place is a constant, or a parameter once a program has come again with another one
(`program.py`): sizes do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xladev.frontends.torch.device.node import Layout, contiguous
from xladev.frontends.torch.graph import SeededBuilder
from xladev.frontends.torch.lower.every import LOWERINGS
from xladev.frontends.torch.lower.value import Value
from xladev.frontends.torch.lower.views import bounds
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

NO_PLACE = -1
"""Of calls that have none."""

_contiguous = lru_cache(1024)(contiguous)

Place = Value | int
"""A parameter s64, or a constant."""


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """How an operator's place is told from its other arguments.

    Attributes:
        apart: arguments at place 0, and the place; None where the sizes of the result tell it, or
            torch refuses the arguments.
        dim: which argument is the dimension, of the array with the place.
        is_view: whether the result lies within the memory of the operand.
        lower: makes HLO of a builder, the shape of the result, arguments at place 0 and the place.
    """

    apart: Callable[[Sequence[Any]], tuple[tuple[Any, ...], int] | None]
    dim: int
    is_view: bool
    lower: Callable[[SeededBuilder, Shape, Sequence[Any], Place], Value]

    def layout(
        self, first: Layout | None, sizes: tuple[int, ...], args: Sequence[Any], place: int
    ) -> Layout | None:
        """The layout of a result of some sizes, from that at place 0."""
        if not self.is_view or not place:
            return first
        further = place * args[0].stride(args[self.dim])
        if not further:
            return first
        if first is None:
            return Layout(_contiguous(sizes), further)
        return Layout(first.strides, first.offset + further)


def _dim_and_size(sizes: Sequence[int], dim: Any) -> tuple[int, int]:
    """A dimension from the beginning and its size; size 0 where there is no such dimension."""
    rank = len(sizes)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        return 0, 0
    return dim % rank, sizes[dim]


def _part(
    sizes: Sequence[int], dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> tuple[int, int, int] | None:  # fmt: skip
    """Dimension, place and length of a part that is not empty and not the whole."""
    d, size = _dim_and_size(sizes, dim)
    if step != 1 or not size:
        return None
    if start is not None and end is not None and 0 <= start < end <= size:
        first, limit = start, end
    else:
        first, limit = bounds(size, start, end)
    return (d, first, limit - first) if 0 < limit - first < size else None


def _index(sizes: Sequence[int], dim: int, index: int) -> tuple[int, int] | None:
    """Dimension and place of one index."""
    d, size = _dim_and_size(sizes, dim)
    return (d, index % size) if size > 1 and -size <= index < size else None


def _slice(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    found = _part(args[0].shape, *args[1:])
    return None if found is None else ((args[0], found[0], 0, found[2]), found[1])


def _narrow(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    x, dim, start, length = args
    d, size = _dim_and_size(x.shape, dim)
    first = start + size if start < 0 else start
    if not 0 < length < size or not 0 <= first <= size - length:
        return None
    return (x, d, 0, length), first


def _select(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    x, dim, index = args
    found = _index(x.shape, dim, index)
    return None if found is None else ((x, found[0], 0), found[1])


def _slice_scatter(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    x, source, *rest = args
    found = _part(x.shape, *rest)
    return None if found is None else ((x, source, found[0], 0, found[2]), found[1])


def _select_scatter(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    x, source, dim, index = args
    found = _index(x.shape, dim, index)
    return None if found is None else ((x, source, found[0], 0), found[1])


def _slice_backward(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    grad, sizes, *rest = args
    found = _part(sizes, *rest)
    return None if found is None else ((grad, sizes, found[0], 0, found[2], 1), found[1])


def _select_backward(args: Sequence[Any]) -> tuple[tuple[Any, ...], int] | None:
    grad, sizes, dim, index = args
    found = _index(sizes, dim, index)
    return None if found is None else ((grad, sizes, found[0], 0), found[1])


def _starts(b: SeededBuilder, rank: int, dim: int, place: Value) -> list[Value]:
    zero = b.scalar(0, dt.S64)
    return [place if d == dim else zero for d in range(rank)]


def _taken(b: SeededBuilder, out: Shape, args: Sequence[Any], place: Place) -> Value:
    """Part of a dimension of an array, without the dimension if the result has none."""
    x, dim = args[:2]
    length = out.dims[dim] if len(out.dims) == x.rank else 1
    if not isinstance(place, Value):
        return x.slice(dim, place, place + length).reshape(out.dims)
    sizes = (*x.dims[:dim], length, *x.dims[dim + 1 :])
    starts = _starts(b, x.rank, dim, place)
    return x.op("dynamic-slice", *starts, dynamic_slice_sizes=sizes).reshape(out.dims)


def _put(b: SeededBuilder, out: Shape, args: Sequence[Any], place: Place) -> Value:
    """An array with another one in part of a dimension."""
    x, source, dim, *rest = args
    is_slice = source.rank == x.rank
    if not isinstance(place, Value):
        name = "aten.slice_scatter.default" if is_slice else "aten.select_scatter.default"
        where = (place, place + rest[1]) if is_slice else (place,)
        made: Value = LOWERINGS[name](b, out, (x, source, dim, *where), {})
        return made
    length = rest[1] if is_slice else 1
    taken = source.cast(x.dtype).reshape((*x.dims[:dim], length, *x.dims[dim + 1 :]))
    return x.op("dynamic-update-slice", taken, *_starts(b, x.rank, dim, place))


def _put_in_zeros(b: SeededBuilder, out: Shape, args: Sequence[Any], place: Place) -> Value:
    """A gradient in part of a dimension, zeros elsewhere."""
    grad, _, *rest = args
    return _put(b, out, (b.full(0, out.element_type, out.dims), grad, *rest), place)


PLACES: Mapping[str, PlaceRule] = {
    "aten.slice.Tensor": PlaceRule(_slice, 1, True, _taken),
    "aten.narrow_copy.default": PlaceRule(_narrow, 1, False, _taken),
    "aten.select.int": PlaceRule(_select, 1, True, _taken),
    "aten.slice_scatter.default": PlaceRule(_slice_scatter, 2, False, _put),
    "aten.select_scatter.default": PlaceRule(_select_scatter, 2, False, _put),
    "aten.slice_backward.default": PlaceRule(_slice_backward, 2, False, _put_in_zeros),
    "aten.select_backward.default": PlaceRule(_select_backward, 2, False, _put_in_zeros),
}
"""By overload."""
