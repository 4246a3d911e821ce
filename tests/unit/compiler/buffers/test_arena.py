"""Arena placement: no two live buffers overlap, whatever the lifetimes."""

from __future__ import annotations

import random

import pytest

from tests.tools.growth import growth
from xladev.compiler.buffers.arena import (
    ALIGNMENT,
    Lifetime,
    Placement,
    place,
    place_by_size,
    place_by_time,
)


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


@pytest.mark.parametrize("placement", [place, place_by_size, place_by_time])
@pytest.mark.parametrize("case", range(20))
@pytest.mark.parametrize("alignment", [ALIGNMENT, 128, 256])
def test_live_buffers_never_overlap(case: int, alignment: int, placement: Placement) -> None:
    draw = random.Random(case)
    lifetimes = [
        Lifetime(draw.randrange(1, 5000), first, first + draw.randrange(0, 30))
        for first in (draw.randrange(100) for _ in range(80))
    ]
    offsets, size = placement(lifetimes, alignment)
    assert size % alignment == 0
    for n, (a, x) in enumerate(zip(lifetimes, offsets, strict=True)):
        assert x % alignment == 0
        assert x + a.nbytes <= size
        for b, y in zip(lifetimes[:n], offsets[:n], strict=True):
            if a.first <= b.last and b.first <= a.last:
                assert not _overlap((x, x + a.nbytes), (y, y + b.nbytes))


def test_a_chain_needs_two_places() -> None:
    chain = [Lifetime(64, n, n + 1) for n in range(100)]
    _, size = place(chain)
    assert size == 2 * 64


def test_neighbouring_holes_are_merged() -> None:
    lifetimes = [Lifetime(64, 0, 1), Lifetime(64, 0, 1), Lifetime(64, 0, 9), Lifetime(128, 2, 3)]
    offsets, size = place(lifetimes)
    assert offsets[3] == 0 or size == 4 * 64
    assert size <= 4 * 64


def test_placement_of_many_buffers_is_near_linear() -> None:
    def lifetimes(count: int) -> list[Lifetime]:
        return [Lifetime(64 * (n % 7 + 1), n, n + 5) for n in range(count)]

    assert growth(place, lifetimes, 5_000, 50_000) < 1.5


def test_holes_on_both_sides_are_merged() -> None:
    small = [Lifetime(64, 0, last) for last in (1, 3, 2)]
    kept = Lifetime(64, 0, 9)
    whole = Lifetime(3 * 64, 5, 9)
    offsets, nbytes = place([*small, kept, whole])
    assert offsets[-1] == 0
    assert nbytes == 4 * 64


def test_small_buffers_leave_room_for_large_ones() -> None:
    """In order of time, the small ones are where a large one was and is wanted again."""
    large = [Lifetime(64 * 64, 0, 1), Lifetime(64 * 64, 0, 9), Lifetime(64 * 64, 3, 9)]
    small = Lifetime(64, 2, 9)
    assert place_by_time([*large, small])[1] > 129 * 64
    assert place([*large, small])[1] == 129 * 64
