"""Complex Schur forms, and eigenvalues and eigenvectors of general matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    TYPES,
    adjoint,
    assert_close,
    assert_unitary,
    draw,
    instructions,
    run,
    wide,
)
from xladev.passes.expansions.linalg.eig import general_eigen
from xladev.passes.expansions.linalg.schur import complex_schur


def both(e: Any, a: Any) -> Any:
    return general_eigen(e, a, left=True, right=True)


def matched(found: Any, want: Any) -> float:
    """The largest distance between eigenvalues, each taken with the nearest one left."""
    rest = list(want)
    worst = 0.0
    for value in found:
        nearest = int(np.argmin([abs(value - w) for w in rest]))
        worst = max(worst, abs(value - rest.pop(nearest)))
    return worst


def check(a: Any, eps: float = 60, accurate: bool = True) -> Any:
    values, left, right, info = run(both, a)
    assert not info.any()
    unit = np.finfo(a.dtype).eps * np.abs(a).max() * a.shape[1]
    if accurate:
        want = np.linalg.eigvals(wide(a))
        assert max(matched(*pair) for pair in zip(values, want, strict=True)) <= eps * unit
    w, u, v = wide(values), wide(left), wide(right)
    for residual in (a @ v - v * w[:, None], adjoint(u) @ a - w[:, :, None] * adjoint(u)):
        assert np.abs(residual).max() <= eps * unit
    for vectors in (u, v):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    return values


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", TYPES)
def test_random(dtype: Any, n: int, seed: int) -> None:
    values = check(draw(seed, dtype, 2, n, n), accurate=n < 4)
    if np.dtype(dtype).kind == "f":
        for row in values:
            assert sorted(row, key=str) == sorted(np.conj(row), key=str)


SPECIAL = np.stack(
    [np.eye(5), np.ones((5, 5)), np.zeros((5, 5)), np.roll(np.eye(5), 1, 0),
     np.diag([3.0, 1, 2, 0, 1]), np.triu(np.arange(25.0).reshape(5, 5))]
)  # fmt: skip


@pytest.mark.parametrize("scale", [1, 1e-30, 1e30])
def test_special_and_scaled(scale: float) -> None:
    check((SPECIAL * scale).astype(np.float32))


def test_defective_matrices_have_small_residuals() -> None:
    jordan = np.diag(np.ones(4), 1)
    check(np.stack([jordan, jordan + 3 * np.eye(5), jordan.T]), accurate=False)


def test_bad_matrices_fail_alone(seed: int) -> None:
    a = draw(seed, np.float64, 2, 4, 4)
    a[1, 2, 1] = np.inf
    values, left, right, info = run(both, a)
    assert info.tolist() == [0, 1]
    assert all(np.isnan(x[1]).all() and np.isfinite(x[0]).all() for x in (values, left, right))


@pytest.mark.parametrize("dtype", TYPES[2:])
def test_schur(dtype: Any, seed: int) -> None:
    a = draw(seed, dtype, 3, 5, 5)
    a[2] = np.triu(a[2])
    t, qh, info = run(complex_schur, a)
    assert not info.any() and (np.tril(t, -1) == 0).all()
    assert_unitary(qh, 40)
    assert_close((adjoint(wide(qh)) @ wide(t) @ wide(qh)).astype(dtype), a, 40)


def test_the_program_does_not_grow_with_the_matrix() -> None:
    assert instructions(both, 1, 1000, 1000) < 1500
