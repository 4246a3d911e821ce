"""Boxes that are sent: who gets what from whom, in how many rounds, and at the right place."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import mesh_grid
from xladev.hlo.text import parse_module
from xladev.passes.spmd import reshard, transfer
from xladev.passes.spmd.transfer import Box, Round, rounds

PARTS = [Box((n,), (min(n + 2, 7),)) for n in (0, 2, 4, 6)]


def test_boxes() -> None:
    box = Box((1, 0), (3, 4))
    assert box.sizes == (2, 4) and not box.is_empty
    assert box.common(Box((2, 3), (9, 9))) == Box((2, 3), (3, 4))
    assert box.common(Box((5, 0), (6, 1))).is_empty
    assert box.offset((1, -1)) == (0, 1)


def test_what_a_holder_has_is_not_sent() -> None:
    made = rounds(PARTS, PARTS, [box.starts for box in PARTS])
    assert [each.pairs for each in made] == [[]] * len(made)


def test_what_is_lacking_is_sent_once() -> None:
    needs = [Box((n + 1,), (min(n + 3, 7),)) for n in (0, 2, 4, 6)]
    made = rounds(PARTS, needs, [box.starts for box in needs])
    assert sum(each.moved for each in made) == 3
    assert sorted(pair for each in made for pair in each.pairs) == [(1, 0), (2, 1), (3, 2)]


def test_holders_of_the_same_take_turns() -> None:
    has = [Box((0,), (4,))] * 2 + [Box((4,), (8,))] * 2
    needs = [Box((4,), (8,))] * 2 + [Box((0,), (4,))] * 2
    (made,) = rounds(has, needs, [box.starts for box in needs])
    assert {source for source, _ in made.pairs} == {0, 1, 2, 3}


def test_uneven_parts_are_exchanged() -> None:
    """Each of four devices gets what it lacks of the 7 x 6 elements, not all of them."""
    grid = mesh_grid((("d", 4),))
    rows, columns = (AxisSharding(grid, dims) for dims in (((0, 1), ()), ((), (0, 1))))
    shape = array(dt.F32, (7, 6))
    (step,) = reshard.plan(shape.dims, rows, columns)
    assert step.kind == "transfer"
    assert step.moved(shape) == -(-4 * (42 - sum([2 * 2, 2 * 2, 2 * 2, 0])) // 4)


PROGRAM = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[7,6] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT r = f32[7,6] negate(x), sharding={devices=[1,4]<=[4]}
}"""


def values() -> np.ndarray:
    return np.arange(1, 43, dtype=np.float32).reshape(7, 6)


def test_program() -> None:
    made = check(parse_module(PROGRAM), [values()], 4).module.entry
    found = {i.opcode for i in made.instructions}
    assert "collective-permute" in found and "all-gather" not in found


def _at_the_beginning(right: object) -> object:
    del right
    return lambda b, x, dimensions, at, holder_of: [0] * x.shape.rank


def _to_all(right: object) -> object:
    del right
    return property(lambda self: [])


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [(transfer, "_starts", _at_the_beginning), (Round, "pairs", _to_all)],
)
def test_mistakes_are_seen(
    owner: object, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))  # type: ignore[operator]
    with pytest.raises(AssertionError):
        check(parse_module(PROGRAM), [values()], 4)
