"""Ratios, their intervals, and means."""

import math

import numpy as np
import pytest

from benchmarks.cpu.statistics import CAP, capped_geometric_mean, ratio


def test_ratio_of_medians() -> None:
    r = ratio([1.0, 2.0, 30.0], [4.0, 6.0, 8.0])
    assert r.value == 3.0
    assert r.low <= r.value <= r.high


def test_constant_series_have_no_width() -> None:
    r = ratio([2.0] * 5, [1.0] * 5)
    assert (r.value, r.low, r.high) == (0.5, 0.5, 0.5)
    assert r.is_behind
    assert not r.is_ahead


def test_rounds_are_resampled_together() -> None:
    """A disturbance that both saw cancels; one that only the peer saw does not."""
    noise = np.random.default_rng(1).uniform(1, 10, 31)
    together = ratio(list(noise), list(2 * noise))
    apart = ratio([1.0] * 31, list(2 * noise))
    assert together.high - together.low < 1e-9
    assert apart.high - apart.low > 1


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        ours = generator.lognormal(0, 0.3, 15)
        r = ratio(list(ours), list(1.5 * generator.lognormal(0, 0.3, 15)))
        covered += r.low <= 1.5 <= r.high
    assert 180 <= covered <= 200


def test_overlapping_series_are_neither_ahead_nor_behind() -> None:
    r = ratio([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 4.0, 3.0])
    assert not r.is_behind
    assert not r.is_ahead


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1.0], [1.0, 2.0])])
def test_series_of_other_rounds_are_refused(ours: list[float], theirs: list[float]) -> None:
    with pytest.raises(ValueError, match="rounds"):
        ratio(ours, theirs)


def test_means_cap_what_is_far_ahead_and_not_what_is_far_behind() -> None:
    assert capped_geometric_mean([1000.0]) == CAP
    assert capped_geometric_mean([1.0, CAP]) == pytest.approx(2.0)
    assert capped_geometric_mean([0.01, 1.0]) == pytest.approx(0.1)
    assert math.isnan(capped_geometric_mean([]))
