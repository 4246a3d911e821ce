"""Dimensions made of factors, some of them filled up to a bound."""

import pytest

pytest.importorskip("torch")

from xladev.frontends.torch.bounds.extents import Factor, broadcast, merged, plain, seen_as
from xladev.frontends.torch.lower.table import NotLowered

OPEN = Factor(8, "s")


def test_a_view_joins_and_parts_factors() -> None:
    tensor = (plain(4), (OPEN,), plain(6))
    joined = seen_as(tensor, [32, 6])
    assert joined == ((Factor(4), OPEN), plain(6))
    assert seen_as(joined, [4, 8, 2, 3]) == (plain(4), (OPEN,), plain(2), plain(3))
    assert seen_as(tensor, [1, 4, 8, 6]) == ((), *tensor)


def test_a_view_that_cuts_an_open_factor_is_refused() -> None:
    with pytest.raises(NotLowered):
        seen_as(((OPEN,), plain(3)), [2, 12])


def test_neighbours_of_known_size_are_one() -> None:
    assert merged([Factor(2), Factor(1), Factor(3), OPEN, Factor(5)]) == (
        Factor(6), OPEN, Factor(5)
    )  # fmt: skip


def test_broadcast() -> None:
    assert broadcast([((OPEN,), ()), (plain(3),)]) == ((OPEN,), plain(3))
    with pytest.raises(NotLowered):
        broadcast([((OPEN,),), (plain(8),)])
