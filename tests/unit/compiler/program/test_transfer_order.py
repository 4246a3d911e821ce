"""Transfers leave before their device is given more work."""

import random

import pytest

from xladev.compiler.program.program import Slot
from xladev.compiler.program.thunks import RunExecutable, Thunk, Transfer, reads, writes
from xladev.compiler.program.transfer_order import with_early_transfers
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array


def slots(*platforms: int) -> list[Slot]:
    return [Slot(array(dt.F32), p) for p in platforms]


def test_a_parameter_leaves_before_the_first_region() -> None:
    # a parameter on 0; 0 and 1 both work on it
    run_a, move, run_b = RunExecutable(0, (0,), (1,)), Transfer(0, 2), RunExecutable(1, (2,), (3,))
    found = with_early_transfers([run_a, move, run_b], slots(0, 0, 1, 1), (0,))
    assert found == (move, run_a, run_b)


def test_a_value_leaves_after_it_was_made_and_before_what_follows() -> None:
    first, second = RunExecutable(0, (0,), (1,)), RunExecutable(1, (1,), (2,))
    move, other = Transfer(1, 3), RunExecutable(2, (3,), (4,))
    found = with_early_transfers([first, second, move, other], slots(0, 0, 0, 1, 1), (0,))
    assert found == (first, move, second, other)


def test_work_of_another_device_is_not_waited_for() -> None:
    first, host = RunExecutable(0, (0,), (1,)), RunExecutable(1, (5,), (6,))
    move, last = Transfer(1, 3), RunExecutable(2, (3, 6), (4,))
    thunks = [first, host, move, last]
    assert with_early_transfers(thunks, slots(0, 0, 0, 1, 1, 1, 1), (0, 5)) == tuple(thunks)


@pytest.mark.parametrize("seed", range(50))
def test_any_order_is_still_one(seed: int) -> None:
    rng, places, thunks = random.Random(seed), [0, 0], list[Thunk]()
    for _ in range(30):
        source, result = rng.randrange(len(places)), len(places)
        if rng.random() < 0.5:
            places.append((places[source] + 1 + rng.randrange(2)) % 3)
            thunks.append(Transfer(source, result))
        else:
            places.append(places[source])
            thunks.append(RunExecutable(0, (source,), (result,)))
    found = with_early_transfers(thunks, slots(*places), (0, 1))
    assert sorted(map(repr, found)) == sorted(map(repr, thunks))
    assert [t for t in found if isinstance(t, RunExecutable)] == [
        t for t in thunks if isinstance(t, RunExecutable)
    ]
    written = {0, 1}
    for thunk in found:
        assert written >= set(reads(thunk))
        written.update(writes(thunk))
