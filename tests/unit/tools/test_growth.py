"""Growth of counted work."""

import pytest

from tests.tools.growth import growth


def _pairs(count: int) -> None:
    for n in range(count):
        for m in range(count):
            abs(n - m)


def test_linear_work_gives_one() -> None:
    assert growth(lambda n: [abs(m) for m in range(n)], int, 100, 1000) == pytest.approx(1, rel=0.1)


def test_quadratic_work_gives_the_ratio_of_sizes() -> None:
    assert growth(_pairs, int, 10, 100) == pytest.approx(10, rel=0.2)
