"""LU with partial pivoting, against the definition in hlo/custom_calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    TYPES,
    assert_close,
    draw,
    instructions,
    run,
    wide,
)
from xladev.hlo.custom_calls import factor
from xladev.passes.expansions.linalg.lu import lu_factor

SMALL = [(1, 1, 1), (2, 4, 4), (3, 5, 3), (2, 3, 5)]
SEVERAL_PANELS = [(1, 70, 70), (1, 66, 80), (1, 80, 66)]
CASES = [
    *((dtype, dims) for dtype in TYPES for dims in SMALL),
    *((dtype, dims) for dtype in (np.float32, np.complex128) for dims in SEVERAL_PANELS),
]


@pytest.mark.parametrize(("dtype", "dims"), CASES, ids=str)
def test_factors_pivots_and_order(dtype: Any, dims: tuple[int, ...], seed: int) -> None:
    a = draw(seed, dtype, *dims)
    packed, pivots, order, info = run(lu_factor, a)
    want, swaps, zeros = factor.lu_factor(wide(a))
    np.testing.assert_array_equal(pivots, swaps)
    np.testing.assert_array_equal(order, factor.permutation_of(swaps, dims[1]))
    np.testing.assert_array_equal(info, zeros)
    k = min(dims[1:])
    lower = np.tril(wide(packed)[:, :, :k], -1) + np.eye(dims[1], k)
    product = (lower @ np.triu(wide(packed)[:, :k])).astype(dtype)
    assert_close(product, np.take_along_axis(a, order[:, :, None], 1), 8 * k)
    assert_close(packed, want, 5000)


def test_singular_matrices_name_the_first_zero_pivot() -> None:
    zero = np.zeros((3, 3))
    ones = np.ones((3, 3))
    last = np.array([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]])
    a = np.stack([zero, ones, last, np.eye(3)])
    packed, pivots, _, info = run(lu_factor, a)
    assert info.tolist() == [1, 2, 3, 0]
    want, swaps, _ = factor.lu_factor(a)
    np.testing.assert_array_equal(packed, want)
    np.testing.assert_array_equal(pivots, swaps)


def test_of_equals_the_first_is_the_pivot() -> None:
    a = np.array([[[1.0, 2], [-1, 5], [1, 3]]])
    assert run(lu_factor, a)[1].tolist() == factor.lu_factor(a)[1].tolist()


def test_complex_pivots_are_compared_by_the_sum_of_parts() -> None:
    a = np.array([[[3 + 3j, 1], [5 + 0j, 2]]])
    assert run(lu_factor, a)[1][0, 0] == 0


def test_nan_stays_in_its_matrix(seed: int) -> None:
    a = draw(seed, np.float64, 2, 70, 70)
    a[1, 3, 3] = np.nan
    packed = run(lu_factor, a)[0]
    assert np.isfinite(packed[0]).all() and np.isnan(packed[1]).any()
    np.testing.assert_array_equal(packed[1, :3, :3], run(lu_factor, a[1:])[0][0, :3, :3])


def test_nan_is_the_largest_pivot() -> None:
    a = np.array([[[1.0, 2], [np.nan, 5], [9, 3]]])
    assert run(lu_factor, a)[1].tolist() == factor.lu_factor(a)[1].tolist() == [[1, 1]]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_padding_is_never_exchanged(seed: int) -> None:
    a = draw(seed, np.float64, 1, 80, 65)
    a[0, [70, 75]] = 0
    a[0, [70, 75], -1] = np.inf
    _, pivots, order, _ = run(lu_factor, a)
    want = factor.lu_factor(a)[1]
    np.testing.assert_array_equal(pivots, want)
    np.testing.assert_array_equal(order, factor.permutation_of(want, 80))


def test_the_program_does_not_grow_with_the_matrix() -> None:
    assert instructions(lu_factor, 1, 1000, 1000) == instructions(lu_factor, 1, 130, 130)
    assert instructions(lu_factor, 1, 130, 130) < 300
