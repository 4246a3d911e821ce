"""What steps must follow: found part by part, compared with all pairs."""

import random

import pytest

from xladev.compiler.streams.stream_hazards import MemoryAccess, MemoryRange, needs_of

X, Y = MemoryRange("x", 0, 8), MemoryRange("y", 0, 8)


def reads(*places):
    return MemoryAccess(places, ())


def writes(*places):
    return MemoryAccess((), places)


@pytest.mark.parametrize(
    ("steps", "needs"),
    [
        ([writes(X), reads(X)], [(), (0,)]),
        ([reads(X), writes(X)], [(), (0,)]),
        ([writes(X), writes(X)], [(), (0,)]),
        ([reads(X), reads(X)], [(), ()]),
        ([writes(X), writes(Y)], [(), ()]),
        ([writes(X), MemoryAccess((X,), (X,)), reads(X)], [(), (0,), (1,)]),
        ([writes(MemoryRange("x", 0, 4)), reads(MemoryRange("x", 4, 8))], [(), ()]),
        ([writes(MemoryRange("x", 0, 5)), reads(MemoryRange("x", 4, 8))], [(), (0,)]),
        (
            [writes(MemoryRange("x", 0, 4)), writes(MemoryRange("x", 4, 8)), reads(X)],
            [(), (), (0, 1)],
        ),
        ([writes(X), reads(X), reads(X), writes(X)], [(), (0,), (0,), (0, 1, 2)]),
        ([writes(MemoryRange("x", 3, 3)), reads(X)], [(), ()]),
    ],
)
def test_only_memory_in_common_orders(steps, needs):
    assert list(needs_of(steps)) == needs


def random_access(rng):
    def place():
        start = rng.randrange(12)
        return MemoryRange(rng.choice("ab"), start, start + rng.randrange(5))

    return MemoryAccess(
        tuple(place() for _ in range(rng.randrange(3))),
        tuple(place() for _ in range(rng.randrange(3))),
    )


def all_before(needs):
    """For each step, all that it follows, directly or not."""
    found = []
    for needed in needs:
        found.append(set(needed).union(*(found[n] for n in needed)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_they_imply_every_pair_and_nothing_else(seed):
    rng = random.Random(seed)
    steps = [random_access(rng) for _ in range(20)]
    pairs = [
        tuple(n for n in range(number) if step.must_follow(steps[n]))
        for number, step in enumerate(steps)
    ]
    needs = needs_of(steps)
    assert all(set(mine) <= set(theirs) for mine, theirs in zip(needs, pairs, strict=True))
    assert all_before(needs) == all_before(pairs)
