"""Tridiagonal systems with row exchanges, against hlo/custom_calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import TYPES, assert_close, draw, run, wide
from xladev.hlo.custom_calls import reduce_matrix
from xladev.passes.expansions.linalg.tridiagonal_solve import solve_tridiagonal


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", TYPES)
def test_random(dtype: Any, n: int, seed: int) -> None:
    diagonals = [draw(seed + i, dtype, 2, n) for i in range(3)]
    if n > 1:
        diagonals[1][0, 0] = 0
    b = draw(seed + 3, dtype, 2, n, 2)
    x, info = run(solve_tridiagonal, *diagonals, b)
    want, zeros = reduce_matrix.solve_tridiagonal(*(wide(d) for d in diagonals), wide(b))
    assert_close(x, want, 2e4)
    np.testing.assert_array_equal(info, zeros)


def test_unread_ends_may_be_anything() -> None:
    below, above = np.array([[np.nan, 1, 1]]), np.array([[1, 1, np.inf]])
    x, info = run(solve_tridiagonal, below, np.full((1, 3), 4.0), above, np.ones((1, 3, 1)))
    assert np.isfinite(x).all() and not info.any()


def test_names_the_first_zero_pivot() -> None:
    zero, one = np.zeros((4, 3)), np.ones((4, 3, 1))
    diagonal = np.array([[1.0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    assert run(solve_tridiagonal, zero, diagonal, zero, one)[1].tolist() == [2, 3, 1, 0]
