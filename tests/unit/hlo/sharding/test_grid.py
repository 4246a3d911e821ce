"""Grids: atoms, places of devices along them, groups."""

import numpy as np
import pytest

from xladev.hlo.attributes import AxisRef
from xladev.hlo.devices import MeshAxes
from xladev.hlo.sharding.grid import Grid, grid_of, mesh_grid, prime_factors


def test_atoms_are_primes() -> None:
    grid = mesh_grid((("x", 12), ("one", 1), ("y", 2)))
    assert grid.atoms == (
        AxisRef("x", 1, 2), AxisRef("x", 2, 2), AxisRef("x", 4, 3), AxisRef("y", 1, 2),
    )  # fmt: skip
    assert grid.size == 24 and grid.count((0, 2)) == 6
    assert mesh_grid((("x", 6),), (), [AxisRef("x", 3, 2)]).atoms == (
        AxisRef("x", 1, 3), AxisRef("x", 3, 2),
    )  # fmt: skip
    # two cuts that exclude each other: the first stays
    both = mesh_grid((("x", 6),), (), [AxisRef("x", 3, 2), AxisRef("x", 2, 3)])
    assert both == mesh_grid((("x", 6),), (), [AxisRef("x", 3, 2)])
    assert mesh_grid(()).size == 1
    assert prime_factors(1) == () and prime_factors(360) == (2, 2, 2, 3, 3, 5)


@pytest.mark.parametrize("ids", [(), (5, 4, 3, 2, 1, 0), (2, 0, 1, 4, 5, 3)])
def test_places_are_those_of_the_mesh(ids: tuple[int, ...]) -> None:
    mesh = MeshAxes((("a", 3), ("b", 2)), ids)
    grid = grid_of(mesh)
    for device in range(6):
        at = mesh.coordinates(device)
        assert grid.index((0,))[device] == at["a"]
        assert grid.index((1,))[device] == at["b"]
        assert grid.index((1, 0))[device] == at["b"] * 3 + at["a"]


def test_groups_differ_along_their_atoms_only() -> None:
    grid = mesh_grid((("x", 2), ("y", 4)))
    assert grid.groups((0,)) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert grid.groups((1, 2)) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert grid.groups((2, 0)) == ((0, 4, 1, 5), (2, 6, 3, 7))
    assert grid.groups(()) == tuple((d,) for d in range(8))
    turned = Grid(grid.atoms, tuple(reversed(range(8))))
    for group in turned.groups((2, 0)):
        assert [turned.index((2, 0))[d] for d in group] == [0, 1, 2, 3]
        assert len({turned.index((1,))[d] for d in group}) == 1
    assert np.prod([len(turned.groups((0,))), 2]) == 8
