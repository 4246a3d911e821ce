"""Factors of stacks of small matrices in vectors: whole groups and what is left over."""

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

routines = pytest.importorskip("scipy.linalg.lapack")
REAL = pytest.mark.parametrize("letter", ["s", "d"])
BATCHES = pytest.mark.parametrize("batch", [16, 45])


@REAL
@BATCHES
@pytest.mark.parametrize("uplo", [76, 85])
def test_potrf(letter: str, batch: int, uplo: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.positive(batch, 5, 5)
    a[3, 2, 2] = -1
    a[batch - 1, 4, 4] = np.nan
    a[5, 0, 0] = np.inf
    result = together(s.shape(batch, 5, 5), integers(batch))
    name = target(f"lapack_{letter}potrf_ffi", f"{{uplo = {uplo} : ui8}}")
    factor, info = run_stack(result, name, a)
    for n, matrix in enumerate(a):
        want, failed = getattr(routines, f"{letter}potrf")(matrix, lower=uplo == 76, clean=0)
        assert info[n] == failed, n
        if not failed and np.isfinite(matrix).all():
            s.close(factor[n], want)
        assert failed or (np.isnan(factor[n]) == np.isnan(want)).all()


@REAL
def test_cholesky(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.positive(19, 6, 6)
    a[7, 1, 1] = 0
    (found,) = run_stack(s.shape(19, 6, 6), "cholesky lower=false", a)
    good = np.arange(19) != 7
    s.close(found[good], adjoint(np.linalg.cholesky(a[good])))
    assert np.isnan(found[7][np.triu_indices(6)]).all() and not np.tril(found, -1).any()


@REAL
@BATCHES
@pytest.mark.parametrize("dims", [(1, 1), (6, 6), (8, 3), (3, 8), (32, 32)])
def test_getrf(letter: str, batch: int, dims: tuple[int, int], seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(batch, *dims)
    a[1] = 0
    a[2, :, -1] = a[2, :, 0]
    result = together(s.shape(batch, *dims), integers(batch, min(dims)), integers(batch))
    packed, pivots, info = run_stack(result, target(f"lapack_{letter}getrf_ffi"), a)
    for n, matrix in enumerate(a):
        want, chosen, failed = getattr(routines, f"{letter}getrf")(matrix)
        if n != 2:
            s.close(packed[n], want)
            assert pivots[n].tolist() == (chosen + 1).tolist() and info[n] == failed


@REAL
@BATCHES
@pytest.mark.parametrize("dims", [(1, 1), (6, 6), (9, 4), (4, 9)])
def test_geqrf_and_orgqr(letter: str, batch: int, dims: tuple[int, int], seed: int) -> None:
    s = Stacks(letter, seed)
    a, count = s.random(batch, *dims), min(dims)
    scale = 1e25 if letter == "s" else 1e200
    a[4] *= scale
    a[5] /= scale
    a[6, :, 0] = 0
    result = together(s.shape(batch, *dims), s.shape(batch, count))
    packed, taus = run_stack(result, target(f"lapack_{letter}geqrf_ffi"), a)
    for n, matrix in enumerate(a):
        want, scales, _, _ = getattr(routines, f"{letter}geqrf")(matrix)
        size = np.abs(matrix).max() or 1
        s.close(np.triu(packed[n]) / size, np.triu(want) / size)
        s.close(taus[n], scales)
    factors = np.ascontiguousarray(packed[:, :, :count])
    (q,) = run_stack(s.shape(batch, dims[0], count), target(f"lapack_{letter}orgqr_ffi"), factors,
                     taus)  # fmt: skip
    s.close(adjoint(q) @ q, np.broadcast_to(np.eye(count), (batch, count, count)))
    sizes = np.abs(a).max((1, 2), keepdims=True)
    sizes = np.where(sizes == 0, np.ones_like(sizes), sizes)
    s.close(q @ (np.triu(packed[:, :count]) / sizes), a / sizes)


@REAL
def test_a_matrix_of_large_condition_keeps_its_residual(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    left, right = (np.linalg.qr(s.random(20, 8, 8))[0] for _ in range(2))
    a = ((left * np.logspace(0, -15, 8)) @ right).astype(s.dtype)
    result = together(s.shape(20, 8, 8), integers(20, 8), integers(20))
    packed, pivots, _ = run_stack(result, target(f"lapack_{letter}getrf_ffi"), a)
    product = (np.tril(packed, -1) + np.eye(8)) @ np.triu(packed)
    for n in range(20):
        want = a[n].copy()
        for k, chosen in enumerate(pivots[n] - 1):
            want[[k, chosen]] = want[[chosen, k]]
        s.close(product[n], want)
