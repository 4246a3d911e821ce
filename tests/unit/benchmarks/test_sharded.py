"""Ratios of rows and their mean; each platform is measured as often as the other."""

import pytest

from benchmarks.sharded import Row, _by_turns, geometric_mean


def test_ratios_are_ours_over_theirs() -> None:
    row = Row("dense", (30.0, 60.0), (3.0, 2.0))
    assert row.ratios == (0.5, 1.5)
    assert str(row) == "| dense | 30 | 60 | 0.50 | 3.00 | 2.00 | 1.50 |"


def test_the_mean_is_geometric() -> None:
    assert geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)


def test_turns_change_order_and_medians_count() -> None:
    seen: list[str] = []
    times = {"ours": iter([5.0, 1.0, 3.0]), "theirs": iter([2.0, 9.0, 4.0])}

    def timed(name: str) -> float:
        seen.append(name)
        return next(times[name])

    assert _by_turns([lambda: timed("ours"), lambda: timed("theirs")], 3) == (3.0, 4.0)
    assert seen == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]
