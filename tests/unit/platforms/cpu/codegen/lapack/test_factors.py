"""Factorisations through LAPACK: each against SciPy's own call of the routine, for all types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.stacks import (
    DTYPES,
    Stacks,
    adjoint,
    integers,
    run_stack,
    target,
    together,
)

routines = pytest.importorskip("scipy.linalg.lapack")
EACH = pytest.mark.parametrize("letter", DTYPES)
LOWER, UPPER = 76, 85
BATCH = 3


def scipy_of(letter: str, name: str, complex_name: str = "") -> Any:
    return getattr(routines, letter + (complex_name or name if letter in "cz" else name))


@EACH
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_potrf(letter: str, uplo: int, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.positive(BATCH, n, n)
    config = f"{{uplo = {uplo} : ui8}}"
    result = together(s.shape(BATCH, n, n), integers(BATCH))
    factor, info = run_stack(result, target(f"lapack_{letter}potrf_ffi", config), a)
    for got, matrix in zip(factor, a, strict=True):
        want, _ = scipy_of(letter, "potrf")(matrix, lower=uplo == LOWER, clean=0)
        s.close(got, want)
    assert info.tolist() == [0] * BATCH


@EACH
def test_potrf_says_where_a_matrix_is_not_positive(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.positive(4, 12, 12)
    a[1, 7, 7] = -1
    a[3, 0, 0] = 0
    result = together(s.shape(4, 12, 12), integers(4))
    _, info = run_stack(result, target(f"lapack_{letter}potrf_ffi", "{uplo = 76 : ui8}"), a)
    assert info.tolist() == [0, 8, 0, 1]


@EACH
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_clears_the_other_triangle_and_fails_as_nan(
    letter: str, lower: str, seed: int
) -> None:
    s = Stacks(letter, seed)
    a = s.positive(2, 6, 6)
    a[1, 2, 2] = -5
    (found,) = run_stack(s.shape(2, 6, 6), f"cholesky lower={lower}", a)
    want = np.linalg.cholesky(a[0])
    s.close(found[0], want if lower == "true" else adjoint(want))
    kept = np.tril(np.ones((6, 6))) if lower == "true" else np.triu(np.ones((6, 6)))
    assert np.isnan(found[1][kept == 1]).all() and (found[1][kept == 0] == 0).all()


@EACH
@pytest.mark.parametrize("dims", [(1, 1), (7, 7), (9, 4), (4, 9), (50, 40)])
def test_getrf(letter: str, dims: tuple[int, int], seed: int) -> None:
    s = Stacks(letter, seed)
    a, count = s.random(BATCH, *dims), min(dims)
    a[2, :, 0] = 0
    result = together(s.shape(BATCH, *dims), integers(BATCH, count), integers(BATCH))
    packed, pivots, info = run_stack(result, target(f"lapack_{letter}getrf_ffi"), a)
    for n, matrix in enumerate(a):
        want, chosen, failed = scipy_of(letter, "getrf")(matrix)
        s.close(packed[n], want)
        assert pivots[n].tolist() == (chosen + 1).tolist() and info[n] == failed
    assert info.tolist() == [0, 0, 1]


def test_lu_decomposition_counts_from_zero_and_gives_the_order_of_rows(seed: int) -> None:
    s = Stacks("d", seed)
    a = s.random(BATCH, 6, 5)
    result = together(s.shape(BATCH, 6, 5), integers(BATCH, 5), integers(BATCH, 6))
    packed, pivots, order = run_stack(result, target("LuDecomposition"), a)
    lower = np.tril(packed, -1) + np.eye(6, 5)
    product = lower @ np.triu(packed)[:, :5]
    s.close(product, np.take_along_axis(a, order[:, :, None], 1))
    assert (pivots == [scipy_of("d", "getrf")(m)[1] for m in a]).all()


@EACH
@pytest.mark.parametrize("dims", [(1, 1), (8, 5), (5, 8), (40, 33)])
def test_geqrf(letter: str, dims: tuple[int, int], seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(BATCH, *dims)
    result = together(s.shape(BATCH, *dims), s.shape(BATCH, min(dims)))
    name = "Qr" if letter == "z" else f"lapack_{letter}geqrf_ffi"
    packed, taus = run_stack(result, target(name), a)
    for n, matrix in enumerate(a):
        want, scales, _, _ = scipy_of(letter, "geqrf")(matrix)
        s.close(packed[n], want)
        s.close(taus[n], scales)


@EACH
def test_geqp3_takes_fixed_columns_first(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(BATCH, 9, 6)
    fixed = np.zeros((BATCH, 6), np.int32)
    fixed[1, 3] = 1
    result = together(s.shape(BATCH, 9, 6), integers(BATCH, 6), s.shape(BATCH, 6))
    packed, order, taus = run_stack(result, target(f"lapack_{letter}geqp3_ffi"), a, fixed)
    want, chosen, scales, _, _ = scipy_of(letter, "geqp3")(a[0])
    s.close(packed[0], want)
    s.close(taus[0], scales)
    assert order[0].tolist() == chosen.tolist() and order[1, 0] == 4


@EACH
@pytest.mark.parametrize("columns", [3, 5, 9])
def test_orgqr(letter: str, columns: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(BATCH, 9, 5)
    packed, taus = (
        np.zeros((BATCH, 9, columns), s.dtype),
        np.zeros((BATCH, min(columns, 5)), s.dtype),
    )
    for n, matrix in enumerate(a):
        factors, scales, _, _ = scipy_of(letter, "geqrf")(matrix)
        packed[n, :, : min(columns, 5)] = factors[:, : min(columns, 5)]
        taus[n] = scales[: min(columns, 5)]
    name = f"lapack_{letter}{'ungqr' if letter in 'cz' else 'orgqr'}_ffi"
    (q,) = run_stack(s.shape(BATCH, 9, columns), target(name), packed, taus)
    s.close(adjoint(q) @ q, np.broadcast_to(np.eye(columns), (BATCH, columns, columns)))
    rank = min(columns, 5)
    s.close(q[:, :, :rank] @ np.triu(packed[:, :rank, :rank]), a[:, :, :rank])


@EACH
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("transpose", ["true", "false"])
def test_ormqr(letter: str, left: str, transpose: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(9, 5)
    packed, taus, _, _ = scipy_of(letter, "geqrf")(a)
    whole = np.zeros((9, 9), s.dtype)
    whole[:, :5] = packed
    q, _, _ = scipy_of(letter, "orgqr", "ungqr")(whole, taus)
    c = s.random(9, 4) if left == "true" else s.random(4, 9)
    name = f"lapack_{letter}{'unmqr' if letter in 'cz' else 'ormqr'}_ffi"
    config = f"{{left = {left}, transpose = {transpose}}}"
    packed = np.ascontiguousarray(packed)
    (found,) = run_stack(s.shape(*c.shape), target(name, config), packed, taus, c)
    q = adjoint(q) if transpose == "true" else q
    s.close(found, q @ c if left == "true" else c @ q)
