"""Eigenvalues of stacks of small matrices in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.stacks import (
    Stacks,
    adjoint,
    integers,
    run_stack,
    target,
    together,
)
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE

REAL = pytest.mark.parametrize("letter", ["s", "d"])


def eigen(s: Stacks, a: np.ndarray, uplo: int = 76) -> list[np.ndarray]:
    result = together(s.shape(*a.shape), s.shape(*a.shape[:2]), integers(len(a)))
    name = target(f"lapack_{s.letter}syevd_ffi", f"{{mode = 86 : ui8, uplo = {uplo} : ui8}}")
    return run_stack(result, name, a)


def check(s: Stacks, a: np.ndarray, vectors: np.ndarray, values: np.ndarray) -> None:
    size = np.abs(a).max((1, 2))
    size = np.where(size == 0, np.ones_like(size), size)
    exact = np.linalg.eigvalsh(a.astype(np.float64))
    s.close(values / size[:, None], exact / size[:, None])
    assert (np.diff(values, axis=1) >= 0).all()
    residual = (a @ vectors - vectors * values[:, None, :]) / size[:, None, None]
    s.close(residual, np.zeros_like(a))
    s.close(adjoint(vectors) @ vectors, np.broadcast_to(np.eye(a.shape[1]), a.shape))


@REAL
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("batch", [16, 21])
@pytest.mark.parametrize("uplo", [76, 85])
def test_random(letter: str, n: int, batch: int, uplo: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.hermitian(batch, n, n)
    given = np.tril(a) if uplo == 76 else np.triu(a)
    vectors, values, info = eigen(s, given, uplo)
    check(s, a, vectors, values)
    assert not info.any()


@REAL
def test_special(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.hermitian(24, 8, 8)
    a[0] = 0
    a[1] = np.eye(8)
    a[2] = np.diag(np.arange(8)[::-1])
    a[3] = 1
    a[4] *= 1e30 if letter == "s" else 1e300
    a[5] *= 1e-30 if letter == "s" else 1e-280
    a[6] = np.outer(s.random(8), np.ones(8))
    a[6] += a[6].T
    spread = np.linalg.qr(s.random(8, 8))[0]
    a[7] = (spread * np.logspace(0, -15, 8)) @ spread.T
    a[7] = (a[7] + a[7].T) / 2
    a[8, :, 3] = a[8, 3] = 0
    vectors, values, info = eigen(s, a)
    check(s, a, vectors, values)
    assert not info.any()


@REAL
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_that_is_not_finite_leaves_the_others_alone(letter: str, bad: float, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.hermitian(20, 6, 6)
    want = eigen(s, a)
    a[3, 2, 1] = a[18, 5, 5] = bad
    a[7, 0, 5] = np.nan
    vectors, values, info = eigen(s, a)
    broken = np.isin(np.arange(20), (3, 18))
    assert (info == np.where(broken, NOT_FINITE, 0)).all()
    assert np.isnan(vectors[broken]).all() and np.isnan(values[broken]).all()
    for got, each in zip((vectors, values), want[:2], strict=True):
        s.close(np.abs(got[~broken]), np.abs(each[~broken]))
