"""Hermitian eigenvalues by QR steps: what defines them, to a few epsilons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    TYPES,
    adjoint,
    assert_close,
    assert_unitary,
    hermitian,
    instructions,
    run,
    wide,
)
from xladev.passes.expansions.linalg import eigh
from xladev.passes.expansions.linalg.eigh import hermitian_eigen


def lower(e: Any, a: Any) -> Any:
    return hermitian_eigen(e, a, lower=True)


def upper(e: Any, a: Any) -> Any:
    return hermitian_eigen(e, a, lower=False)


def check(a: Any, eps: float = 20) -> None:
    values, vectors, good = run(lower, a)
    want = np.linalg.eigvalsh(wide(a))
    assert_close(values, want, eps)
    assert (np.diff(values, axis=1) >= 0).all() and good.all()
    assert_unitary(vectors, eps)
    rebuilt = (wide(vectors) * values[:, None]) @ adjoint(wide(vectors))
    assert_close(rebuilt.astype(a.dtype), a, eps)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("dtype", TYPES)
def test_random(dtype: Any, n: int, seed: int) -> None:
    check(hermitian(seed, dtype, 2, n, n))


@pytest.mark.parametrize("n", [5, 6, 11])
@pytest.mark.parametrize("dtype", TYPES)
def test_reduced_in_parts(dtype: Any, n: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigh, "_WHOLE", 4)
    check(hermitian(seed, dtype, 2, n, n))
    check(np.stack([np.diag(np.arange(n))] * 2).astype(dtype))


SPECIAL = np.stack(
    [np.eye(5), np.ones((5, 5)), np.zeros((5, 5)), np.diag([3.0, 1, 2, 1, 1]),
     np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)]
)  # fmt: skip


@pytest.mark.parametrize("scale", [1, 1e-30, 1e30])
def test_degenerate_and_scaled(scale: float) -> None:
    check((SPECIAL * scale).astype(np.float32))


def test_many_rotations_leave_vectors_orthogonal(seed: int) -> None:
    vectors = run(lower, hermitian(seed, np.float32, 1, 40, 40))[1]
    assert_unitary(vectors, 5)


def test_diagonal_matrices_are_exact() -> None:
    values, vectors, _ = run(lower, SPECIAL[3:4])
    assert values.tolist() == [[1, 1, 1, 2, 3]]
    assert sorted(np.abs(vectors[0]).argmax(0).tolist()) == [0, 1, 2, 3, 4]
    assert set(np.unique(vectors)) == {0, 1}


def test_graded_matrices_keep_their_small_eigenvalues() -> None:
    h = 1 / (np.arange(8)[:, None] + np.arange(8) + 1.0)
    check(h[None])


@pytest.mark.parametrize("make", [lower, upper])
def test_reads_one_triangle(make: Any, seed: int) -> None:
    a = hermitian(seed, np.complex128, 1, 4, 4)
    half = np.tril(a) if make is lower else np.triu(a)
    rows, columns = np.triu_indices(4, 1) if make is lower else np.tril_indices(4, -1)
    half[:, rows, columns] = np.nan
    half[:, range(4), range(4)] += 7j
    assert_close(run(make, half)[0], np.linalg.eigvalsh(a), 20)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_matrices_fail_alone(bad: float, seed: int) -> None:
    a = hermitian(seed, np.float64, 2, 4, 4)
    a[1, 2, 1] = bad
    values, vectors, good = run(lower, a)
    assert good.tolist() == [True, False]
    assert np.isnan(values[1]).all() and np.isnan(vectors[1]).all()
    assert_close(values[:1], np.linalg.eigvalsh(a[:1]), 20)


def test_the_program_does_not_grow_with_the_matrix() -> None:
    assert instructions(lower, 1, 100, 100) == instructions(lower, 1, 10, 10) < 500
    # From 128 rows on, reflectors are applied in panels, and made in four loops.
    assert instructions(lower, 1, 1000, 1000) == instructions(lower, 1, 500, 500) < 1000
