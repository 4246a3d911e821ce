"""Which program a call of given sizes takes."""

import random

import pytest

pytest.importorskip("torch")

from xladev.frontends.torch.bounds.sizes import EXACT_SIZES, SizedCalls
from xladev.frontends.torch.lower.table import NotLowered


def calls(made: list[object], *, limit: int = 8, can_bound: bool = True) -> SizedCalls:
    def exact(sizes: dict[str, int]) -> object:
        made.append(("exact", *sizes.values()))
        return lambda args: ("exact", *sizes.values())

    def bounded(bounds: dict[str, int]) -> object:
        if not can_bound:
            raise NotLowered("sort along an open dimension")
        made.append(("bound", *bounds.values()))
        return lambda args: ("bound", *bounds.values())

    def by_torch(reason: str) -> object:
        made.append(("torch", reason))
        return lambda args: "torch"

    return SizedCalls({"s": (0, None)}, limit, exact, bounded, by_torch)


def test_fifty_sizes_take_a_handful_of_programs() -> None:
    made: list[object] = []
    run = calls(made)
    for n in random.Random(0).sample(range(2, 52), 50):
        kind, size = run([n])
        assert size == n if kind == "exact" else n <= size <= max(8, 4 * n)
    assert [kind for kind, _ in made].count("exact") == EXACT_SIZES
    assert len(made) <= 6


def test_without_bounds_sizes_have_programs_up_to_a_limit_and_then_torch() -> None:
    made: list[object] = []
    run = calls(made, limit=3, can_bound=False)
    assert [run([n]) for n in range(2, 9)][-1] == "torch"
    assert made[:3] == [("exact", 2), ("exact", 3), ("exact", 4)]
    ((kind, reason),) = made[3:]
    assert kind == "torch"
    assert "sort along an open dimension" in reason


def test_nothing_is_filled_up_to_a_bound() -> None:
    made: list[object] = []
    run = calls(made)
    for n in (2, 3, 4, 0):
        run([n])
    assert made == [("exact", 2), ("exact", 3), ("bound", 8), ("exact", 0)]
