"""Checks of factors: what rounding may do passes, what is wrong by more does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools import factors
from tests.tools.factors import adjoint

TYPES = [np.float32, np.float64, np.complex64, np.complex128]


def draw(dtype: Any, *dims: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(dims) + 1j * rng.standard_normal(dims)
    return (values if np.dtype(dtype).kind == "c" else values.real).astype(dtype)


def with_values(s: Any, rows: int) -> Any:
    """A matrix of singular values ``s``, with its factors."""
    u = np.linalg.qr(draw(np.float64, rows, len(s)))[0]
    v = np.linalg.qr(draw(np.float64, len(s), len(s), seed=1))[0]
    return (u * s) @ v, u, v


def test_vectors_of_near_values_may_turn_far() -> None:
    """By rounding over gap: 1e-16 / 1e-9, a million times what the residual may be."""
    s = np.array([3, 1 + 1e-9, 1])
    a, u, vt = with_values(s, 5)
    turn = np.eye(3)
    turn[1:, 1:] = [[1, -1e-7], [1e-7, 1]]
    factors.assert_svd(a, u @ turn, s, turn.T @ vt)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(u @ turn, u, atol=1e-10)


def test_vectors_of_distant_values_may_not() -> None:
    s = np.array([3, 2, 1.0])
    a, u, vt = with_values(s, 5)
    turn = np.eye(3)
    turn[1:, 1:] = [[1, -1e-7], [1e-7, 1]]
    with pytest.raises(AssertionError, match="residuals"):
        factors.assert_svd(a, u @ turn, s, vt)


@pytest.mark.parametrize("dims", [(2, 5, 3), (3, 5), (40, 33), (0, 3)], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_lapacks_factors_pass(dtype: Any, dims: tuple[int, ...]) -> None:
    a = draw(dtype, *dims)
    u, s, vt = np.linalg.svd(a)
    factors.assert_svd(a, u, s, vt)
    q, r = np.linalg.qr(a)
    factors.assert_qr(a, r, q)
    square = a @ adjoint(a)
    factors.assert_eigh(square, *np.linalg.eigh(square))


@pytest.mark.parametrize("changed", ["vectors", "values", "length"])
@pytest.mark.parametrize("dtype", TYPES)
def test_factors_of_half_the_precision_fail(dtype: Any, changed: str) -> None:
    """As of a device that computes f64 in f32, or f32 in bf16."""
    a = draw(dtype, 6, 6)
    a = a + adjoint(a)
    w, vectors = np.linalg.eigh(a)
    off = 1 + np.sqrt(np.finfo(dtype).eps)
    if changed == "vectors":
        vectors[:, 0] += (off - 1) * vectors[:, 1]
    elif changed == "values":
        w = w * off
    else:
        vectors = vectors * off
    with pytest.raises(AssertionError):
        factors.assert_eigh(a, w, vectors.astype(dtype))


def test_factors_of_lu() -> None:
    a = np.array([[1.0, 2], [4, 4], [2, 1]])
    packed, pivots = np.array([[4.0, 4], [0.25, 1], [0.5, -1]]), np.array([2, 2])
    factors.assert_lu(a, packed, pivots)
    for wrong, order in ((packed, [2, 3]), (packed + np.eye(3, 2) * 1e-10, [2, 2])):
        with pytest.raises(AssertionError):
            factors.assert_lu(a, wrong, np.array(order))
    with pytest.raises(AssertionError):
        factors.assert_lu(a, np.array([[1.0, 2], [4, -4], [2, 0.75]]), np.array([1, 2]))
