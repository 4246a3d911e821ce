"""Axes of dimensions through reshapes and transposes, against what NumPy makes of indices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xladev.codegen.axes import Axes, Dims
from xladev.hlo.text import parse_shape


def base(axes: Axes, *sizes: int) -> Dims:
    return tuple(axes.added(n) for n in sizes)


def elements(axes: Axes, dims: Dims, first: Dims) -> list[int]:
    """Positions in the first array, in the order in which the dimensions go through them."""
    inner = [a for each in first for a in axes.expanded(each)]
    outer = [a for each in dims for a in axes.expanded(each)]
    found = []
    for at in product(*(range(axes.size(a)) for a in outer)):
        where, position = dict(zip(outer, at, strict=True)), 0
        for axis in inner:
            position = position * axes.size(axis) + where[axis]
        found.append(position)
    return found


def test_views_go_through_elements_as_numpy_does() -> None:
    axes = Axes()
    first = base(axes, 2, 1, 6, 4)
    array = np.arange(48).reshape(2, 1, 6, 4)
    dims: Dims | None = first
    for step in ((2, 3, 2, 4), (3, 0, 1, 2), (4, 2, 1, 6), (2, 0, 3, 1), (1, 8, 6)):
        assert dims is not None
        if sorted(step) == list(range(len(dims))):
            dims, array = tuple(dims[n] for n in step), array.transpose(step)
        else:
            dims, array = axes.reshaped(dims, step), array.reshape(step)
            if dims is None:
                break
        assert elements(axes, dims, first) == array.ravel().tolist()


@pytest.mark.parametrize("sizes", [(3, 4), (12,), (2, 2, 3), (1, 6, 2, 1)])
def test_a_reshape_splits_axes_for_every_array(sizes: tuple[int, ...]) -> None:
    axes = Axes()
    first = base(axes, 12)
    dims = axes.reshaped(first, sizes)
    assert dims is not None
    assert [len(axes.expanded(d)) <= 1 for d in dims] == [True] * len(sizes)
    assert elements(axes, dims, first) == list(range(12))
    assert axes.reshaped(dims, (12,)) == (tuple(a for d in dims for a in axes.expanded(d)),)


def test_a_reshape_across_axes_is_none() -> None:
    axes = Axes()
    assert axes.reshaped(base(axes, 3, 4), (2, 6)) is None
    assert axes.reshaped(base(axes, 4, 9), (6, 6)) is None


def test_loose_axes_agree_with_any() -> None:
    axes = Axes()
    full = base(axes, 2, 3)
    row = (full[0], axes.added(3, loose=True))
    assert axes.united(full, row) == axes.united(row, full) == full
    assert axes.united(full, (full[0], *base(axes, 3))) is None
    split = axes.reshaped(row, (2, 3, 1))
    assert split is not None
    assert axes.united(split, (*full, ())) == (*full, ())


def test_strides_are_those_of_the_layout() -> None:
    axes = Axes()
    dims = base(axes, 6, 4)
    axes.reshaped(dims, (2, 3, 4))
    shape = parse_shape("f32[6,4]")
    outer, inner = axes.expanded(dims[0])
    (last,) = dims[1]
    assert axes.strides(dims, shape) == {outer: 12, inner: 4, last: 1}
