"""Waits: enough, and not one too many; a planted missing one is found."""

import random
from dataclasses import replace

import pytest

from tests.unit.compiler.streams.test_stream_hazards import random_access, reads, writes
from xladev.compiler.streams.stream_hazards import MemoryRange, needs_of
from xladev.compiler.streams.stream_waits import START, Waits, check_order, fewest_waits
from xladev.errors import CompileError

X, Y = MemoryRange("x", 0, 8), MemoryRange("y", 0, 8)


def test_one_stream_waits_for_nothing():
    assert fewest_waits([(), (0,), (0, 1)], [0, 0, 0]) == Waits(((), (), ()), ())


def test_a_stream_begins_after_the_launch_and_ends_in_it():
    assert fewest_waits([(), ()], [0, 1]) == Waits(((), (START,)), (1,))


def test_waiting_for_a_step_of_the_main_stream_is_beginning():
    assert fewest_waits([(), (0,)], [0, 1]) == Waits(((), (0,)), (1,))


def test_what_others_waited_for_is_implied():
    needs = [(), (0,), (0, 1)]
    assert fewest_waits(needs, [0, 1, 2]).before == ((), (0,), (1,))


def test_a_stream_waits_for_the_last_step_of_another_alone():
    needs = [(), (), (0, 1), (0,)]
    waits = fewest_waits(needs, [0, 0, 1, 1])
    assert waits == Waits(((), (), (1,), ()), (3,))


def test_the_main_stream_joins_nothing_twice():
    needs = [(), (), (1,)]
    assert fewest_waits(needs, [0, 1, 0]) == Waits(((), (START,), (1,)), ())


def random_program(seed):
    rng = random.Random(seed)
    steps = [random_access(rng) for _ in range(16)]
    streams = [rng.randrange(4) for _ in steps]
    return steps, streams, fewest_waits(needs_of(steps), streams)


def without_one(waits):
    """The waits, each left out in turn."""
    for number, row in enumerate(waits.before):
        for left_out in row:
            kept = tuple(n for n in row if n != left_out)
            before = (*waits.before[:number], kept, *waits.before[number + 1 :])
            yield replace(waits, before=before)
    for left_out in waits.joined:
        yield replace(waits, joined=tuple(n for n in waits.joined if n != left_out))


@pytest.mark.parametrize("seed", range(40))
def test_waits_are_enough_and_none_can_be_left_out(seed):
    steps, streams, waits = random_program(seed)
    check_order(steps, streams, waits)
    for fewer in without_one(waits):
        with pytest.raises(CompileError, match="does not wait|is not waited for"):
            check_order(steps, streams, fewer)


def test_memory_used_again_by_another_stream_is_found():
    steps = [writes(X), reads(X), writes(X)]
    with pytest.raises(CompileError, match="step 2 .* does not wait for step 1, whose memory"):
        check_order(steps, [0, 0, 1], Waits(((), (), (0,)), (2,)))
    check_order(steps, [0, 0, 1], Waits(((), (), (1,)), (2,)))
