"""Householder QR, products with Q, and column pivoting, against hlo/custom_calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    TYPES,
    assert_close,
    assert_unitary,
    draw,
    instructions,
    run,
    wide,
)
from xladev.hlo.custom_calls import factor
from xladev.passes.expansions.linalg.pivoted_qr import pivoted_qr_factor
from xladev.passes.expansions.linalg.qr import apply_q, householder_product, qr_factor

SMALL = [(1, 1, 1), (2, 4, 4), (3, 5, 3), (2, 3, 5)]
SEVERAL_PANELS = [(1, 70, 70), (1, 66, 80), (1, 80, 66)]
CASES = [
    *((dtype, dims) for dtype in TYPES for dims in SMALL),
    *((dtype, dims) for dtype in (np.float32, np.complex128) for dims in SEVERAL_PANELS),
]


@pytest.mark.parametrize(("dtype", "dims"), CASES, ids=str)
def test_packed_factors_and_q(dtype: Any, dims: tuple[int, ...], seed: int) -> None:
    a = draw(seed, dtype, *dims)
    packed, taus = run(qr_factor, a)
    want, scales = factor.qr_factor(wide(a))
    assert_close(packed, want, 400)
    assert_close(taus, scales, 400)
    k = min(dims[1:])
    (q,) = run(lambda e, a, t: [householder_product(e, a, t)], packed[:, :, :k].copy(), taus)
    assert_unitary(q, 100)
    product = wide(q) @ np.triu(wide(packed)[:, :k])
    assert_close(product.astype(dtype), a, 100)


@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("dims", [(2, 5, 3), (1, 70, 66)], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_products_with_q(dtype: Any, dims: tuple[int, int, int], adjoint: bool, seed: int) -> None:
    packed, taus = factor.qr_factor(draw(seed, np.complex128, *dims))
    if np.dtype(dtype).kind != "c":
        packed, taus = factor.qr_factor(draw(seed, np.float64, *dims))
    c = draw(seed + 1, dtype, dims[0], dims[1], 4)
    (got,) = run(
        lambda e, a, t, c: [apply_q(e, a, t, c, adjoint)],
        packed.astype(dtype), taus.astype(dtype), c,
    )  # fmt: skip
    want = factor.apply_q(packed, taus, wide(c), left=True, transpose=adjoint)
    assert_close(got, want, 200)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_lengths_neither_overflow_nor_vanish(scale: float, seed: int) -> None:
    a = (draw(seed, np.float64, 2, 4, 3) * scale).astype(np.float32)
    packed, _ = run(qr_factor, a)
    assert_close(packed, factor.qr_factor(wide(a))[0], 50)


def test_signs_are_those_of_lapack() -> None:
    a = np.array([[[0.0], [3]], [[-0.0], [3]], [[4], [3]], [[-4], [3]], [[-2], [0]], [[0], [0]]])
    packed, taus = run(qr_factor, a)
    want, scales = factor.qr_factor(a)
    np.testing.assert_allclose(packed, want, rtol=1e-15)
    np.testing.assert_allclose(taus, scales, rtol=1e-15)


def test_the_program_does_not_grow_with_the_matrix() -> None:
    assert instructions(qr_factor, 1, 1000, 1000) == instructions(qr_factor, 1, 130, 130)
    assert instructions(qr_factor, 1, 130, 130) < 400


@pytest.mark.parametrize("dims", [(1, 1, 1), (2, 5, 4), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_column_pivoting(dtype: Any, dims: tuple[int, ...], seed: int) -> None:
    a = draw(seed, dtype, *dims)
    fixed = np.zeros((dims[0], dims[2]), np.int32)
    fixed[-1, -1] = 1
    packed, order, taus = run(pivoted_qr_factor, a, fixed)
    want, numbers, scales = factor.pivoted_qr_factor(wide(a), fixed)
    np.testing.assert_array_equal(order + 1, numbers)
    assert_close(packed, want, 200)
    assert_close(taus, scales, 200)
