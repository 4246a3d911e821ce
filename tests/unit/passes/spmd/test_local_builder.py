"""All-to-alls: one transpose at most, and blocks of one piece of memory where that is enough."""

import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.shape import array
from xladev.hlo.sharding.grid import mesh_grid
from xladev.passes.spmd.local_builder import LocalBuilder


def exchange(source: int, target: int, dims: tuple[int, ...] = (8, 16, 24)) -> list[str]:
    """The opcodes of a move of a cut over four devices, in order."""
    b, grid = LocalBuilder("exchange", 1), mesh_grid((("x", 4),))
    atoms = tuple(range(len(grid.atoms)))
    made = b.all_to_all(b.parameter(array(dt.F32, dims)), grid, atoms, source, target)
    result = list(dims)
    result[source] *= 4
    result[target] //= 4
    assert made.shape.dims == tuple(result)
    found = [i for i in b.module(made).entry.instructions if i.opcode != "parameter"]
    (sent,) = (i for i in found if i.opcode == "all-to-all")
    if 0 in (source, target):
        assert sent["dimensions"] == (0,)
    return [i.opcode for i in found if i.opcode != "reshape"]


@pytest.mark.parametrize("target", [1, 2])
def test_a_cut_of_the_outermost_dimension_is_moved_before_it_is_sent(target: int) -> None:
    assert exchange(0, target) == ["transpose", "all-to-all"]


@pytest.mark.parametrize(("source", "target"), [(1, 0), (2, 0), (1, 2), (2, 1)])
def test_other_cuts_are_moved_when_they_have_arrived(source: int, target: int) -> None:
    assert exchange(source, target) == ["all-to-all", "transpose"]
