"""The two sides of a border of a manual region."""

from __future__ import annotations

import pytest

from xladev.hlo.sharding.grid import Atoms
from xladev.passes.sharding.tensors import Border, Tensor

Dims = list[Atoms]


def border(outer: Dims, inner: Dims, manual: Dims, is_open: bool = True) -> Border:
    sizes = (8,) * len(outer)
    open_dims = [is_open] * len(outer)
    return Border(
        Tensor(sizes, list(outer), list(open_dims)),
        Tensor(sizes, list(inner), list(open_dims)),
        tuple(manual),
    )


@pytest.mark.parametrize(
    ("outer", "inner", "grown_outer", "grown_inner"),
    [
        ([(0, 1), ()], [(), ()], [(0, 1), ()], [(1,), ()]),
        ([(0,), ()], [(), (2,)], [(0,), (2,)], [(), (2,)]),
        ([(0, 1), ()], [(1, 2), ()], [(0, 1, 2), ()], [(1, 2), ()]),
        # Atom 1 cuts dimension 1 outside and dimension 0 inside: neither side takes it twice.
        ([(0,), (1,)], [(1,), ()], [(0,), (1,)], [(1,), ()]),
        ([(0,), (2, 1)], [(1,), ()], [(0,), (2, 1)], [(1,), (2,)]),
    ],
)
def test_each_side_grows_by_what_is_free(
    outer: Dims, inner: Dims, grown_outer: Dims, grown_inner: Dims
) -> None:
    found = border(outer, inner, [(0,), ()])
    while found.agree():
        pass
    assert (found.outer.dims, found.inner.dims) == (grown_outer, grown_inner)


def test_closed_dimensions_stay() -> None:
    assert not border([(0, 1)], [()], [(0,)], is_open=False).agree()
