"""Spectral decompositions of stacks of matrices that are hard in different ways, in lockstep.

What defines a decomposition must hold to a modest multiple of n epsilons of each matrix's norm,
which is what backward stability promises whatever the gaps and the condition are. A matrix with NaN
or infinities fails alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import TYPES, adjoint, draw, run, wide
from xladev.passes.expansions.linalg.eig import general_eigen
from xladev.passes.expansions.linalg.eigh import hermitian_eigen
from xladev.passes.expansions.linalg.svd import singular_values

SIZES = [1, 2, 3, 9]
FACTOR = 30
"""LAPACK's own tests ask that residuals are below 30 n epsilons of the norm."""


def spectra(n: int) -> list[Any]:
    """Values of which matrices are made: each row is hard for another reason."""
    k = np.arange(n)
    last = max(n - 1, 1)
    return [
        10.0 ** (-15 * k / last),  # condition 1e15
        np.where(k % 2, 1.0, 1.0 + 1e-12),  # two clusters
        np.ones(n),  # one value
        np.where(k < n // 2, 1.0, 0.0),  # singular
        np.where(k == 0, 1.0, 1e-14),  # rank one, but for rounding
        np.zeros(n),
        10.0 ** (-15 * (last - k) / last),  # graded the other way
        1.0 + k,
    ]


def unitary(seed: int, n: int, count: int, dtype: Any) -> Any:
    kind = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    return np.linalg.qr(draw(seed, kind, count, n, n))[0]


def norms(a: Any) -> Any:
    return np.maximum(np.linalg.norm(wide(a), axis=(1, 2)), 1e-300)


def assert_small(off: Any, a: Any) -> None:
    """Of each matrix at most the bound."""
    limit = FACTOR * max(a.shape[1:]) * np.finfo(a.dtype).eps
    assert (np.abs(off).max((1, 2)) <= limit * norms(a)).all()


def assert_orthonormal(q: Any, dtype: Any) -> None:
    n = q.shape[-1]
    off = np.abs(adjoint(wide(q)) @ wide(q) - np.eye(n)).max(initial=0)
    assert off <= FACTOR * n * np.finfo(dtype).eps


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
def test_hermitian_eigenvalues(dtype: Any, n: int, seed: int) -> None:
    values = np.stack(spectra(n))
    values[1::2, ::2] *= -1
    q = unitary(seed, n, len(values), dtype)
    a = ((q * values[:, None]) @ adjoint(q)).astype(dtype)
    a = ((a + adjoint(a)) / 2).astype(dtype)
    w, v, good = run(lambda e, a: tuple(hermitian_eigen(e, a, lower=True)), a)
    assert good.all()
    assert_small(wide(a) @ wide(v) - wide(v) * w[:, None], a)
    assert_orthonormal(v, dtype)
    assert_small((w - np.linalg.eigvalsh(wide(a)))[:, None], a)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (3, 3), (9, 9), (11, 4), (3, 8)])
@pytest.mark.parametrize("dtype", TYPES)
def test_singular_values(dtype: Any, m: int, n: int, seed: int) -> None:
    k = min(m, n)
    s = np.stack(spectra(k))
    left, right = unitary(seed, m, len(s), dtype), unitary(seed + 1, n, len(s), dtype)
    a = ((left[:, :, :k] * s[:, None]) @ right[:, :k]).astype(dtype)
    found, u, vt, good = run(lambda e, a: tuple(singular_values(e, a, vectors=True, full=True)), a)
    assert good.all()
    assert_small((wide(u)[:, :, :k] * found[:, None]) @ wide(vt)[:, :k] - wide(a), a)
    assert_orthonormal(u, dtype)
    assert_orthonormal(adjoint(vt), dtype)
    assert_small((found - np.linalg.svd(wide(a), compute_uv=False))[:, None], a)


@pytest.mark.long
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
def test_general_eigenvalues(dtype: Any, n: int, seed: int) -> None:
    values = np.stack(spectra(n))
    q, r = unitary(seed, n, len(values), dtype), draw(seed + 1, np.float64, len(values), n, n)
    triangle = np.triu(r, 1) * norms(values[:, None])[:, None, None] / n
    a = (q @ (triangle + values[:, None] * np.eye(n)) @ adjoint(q)).astype(dtype)
    w, _, v, info = run(lambda e, a: tuple(general_eigen(e, a, left=True, right=True)), a)
    assert not info.any()
    assert_small(wide(a) @ v - v * w[:, None], a)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1, atol=FACTOR * n * np.finfo(dtype).eps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails_alone(bad: float, seed: int) -> None:
    a = draw(seed, np.float32, 9, 4, 4)
    a[3, 2, 1] = bad
    others = np.arange(9) != 3
    _, v, good = run(lambda e, a: tuple(hermitian_eigen(e, a, lower=True)), a)
    assert good.tolist() == others.tolist() == np.isfinite(v).all((1, 2)).tolist()
    s, u, _, good = run(lambda e, a: tuple(singular_values(e, a, vectors=True, full=True)), a)
    assert good.tolist() == others.tolist() == np.isfinite(u).all((1, 2)).tolist()
    assert_small(
        (s - np.linalg.svd(wide(np.nan_to_num(a)), compute_uv=False))[others, None], a[others]
    )
    w, _, _, info = run(lambda e, a: tuple(general_eigen(e, a, left=True, right=True)), a)
    assert (info == 0).tolist() == others.tolist() == np.isfinite(w).all(1).tolist()
