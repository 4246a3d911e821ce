"""Temporaries in the memory of results: none overlap while both are needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from xladev.compiler.buffers.arena import ALIGNMENT
from xladev.compiler.buffers.virtual_buffers import BufferPool, VirtualBuffer, lodge
from xladev.compiler.plan.kernel_plan import Slice, Space


def buffer(space: Space, index: int, nbytes: int, first: int, last: int) -> VirtualBuffer:
    return VirtualBuffer(space, index, nbytes, first, last)


def guests(*sizes_and_times: tuple[int, int, int]) -> list[VirtualBuffer]:
    return [buffer(Space.SCRATCH, n, *each) for n, each in enumerate(sizes_and_times)]


def hosts(*sizes_and_times: tuple[int, int]) -> list[VirtualBuffer]:
    return [
        buffer(Space.RESULT, n, nbytes, first, 99)
        for n, (nbytes, first) in enumerate(sizes_and_times)
    ]


def test_several_lie_side_by_side() -> None:
    a, b, c = guests((100, 0, 3), (60, 1, 4), (64, 2, 5))
    found = lodge((a, b, c), hosts((320, 6)))
    assert found == {
        a: Slice(Space.RESULT, 0, 0, 100),
        c: Slice(Space.RESULT, 0, 128, 64),
        b: Slice(Space.RESULT, 0, 192, 60),
    }


def test_a_gap_between_two_is_used() -> None:
    long, short, late = guests((192, 0, 1), (128, 0, 5), (64, 2, 5))
    found = lodge((long, short, late), hosts((320, 6)))
    assert [found[g].offset for g in (long, short, late)] == [0, 192, 0]


def test_what_comes_too_late_or_is_too_large_stays_in_the_arena() -> None:
    late, large, beside = guests((64, 0, 6), (384, 0, 1), (256, 0, 1))
    assert lodge((late, large, beside), hosts((320, 6))).keys() == {beside}


@pytest.mark.parametrize("alignment", [ALIGNMENT, 128, 256])
@pytest.mark.parametrize("seed", range(20))
def test_none_overlap(seed: int, alignment: int) -> None:
    draw = random.Random(seed)
    pool = BufferPool(alignment)
    made: list[VirtualBuffer] = []
    for time in range(40):
        made += [pool.temporary(draw.randint(1, 500)) for _ in range(draw.randint(0, 3))]
        pool.touch(*draw.sample(made, min(len(made), 2)))
        assert pool.time == time
        pool.advance()
    results = hosts(*((draw.randint(1, 3000), draw.randint(0, 40)) for _ in range(4)))
    nbytes = pool.place_temporaries(results)
    assert_apart(pool, made, results, nbytes, alignment)


def assert_apart(
    pool: BufferPool,
    made: Sequence[VirtualBuffer],
    results: Sequence[VirtualBuffer],
    nbytes: int,
    alignment: int,
) -> None:
    """Every temporary is aligned, within its place and alone there while it is needed."""
    for each in made:
        at = pool.slice(each)
        room = nbytes if at.space is Space.SCRATCH else results[at.index].nbytes
        assert at.offset % alignment == 0
        assert at.offset + each.nbytes <= room
        assert at.space is Space.SCRATCH or each.last < results[at.index].first
    for a, b in combinations(made, 2):
        here, there = pool.slice(a), pool.slice(b)
        if a.first <= b.last and b.first <= a.last and here.space is there.space:
            apart = here.offset + a.nbytes <= there.offset or there.offset + b.nbytes <= here.offset
            assert apart or here.index != there.index
