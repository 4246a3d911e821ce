"""What is not finite, singular, or of huge condition: as LAPACK says when it is called directly.

Each stack has matrices of all kinds, so that none may spoil its neighbours; small stacks are
computed in vectors, large matrices by LAPACK in blocks. Routines without iterations give LAPACK's
info, and NaN where it does. Iterations never begin on what is not finite: their info and NaN are
ours, where LAPACK's own results are no numbers either.
"""

from __future__ import annotations

from collections.abc import Callable
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
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE

routines = pytest.importorskip("scipy.linalg.lapack")
blas = pytest.importorskip("scipy.linalg.blas")
EACH = pytest.mark.parametrize("letter", DTYPES)
SIZES = pytest.mark.parametrize(("batch", "n"), [(21, 6), (8, 40)])
"""Stacks of small matrices, and of such that LAPACK computes in blocks."""

Change = Callable[[Stacks, Any, int], None]


def _element(value: float) -> Change:
    def change(s: Stacks, a: Any, n: int) -> None:
        a[n // 2, n // 3] = a[n // 3, n // 2] = value

    return change


def _zero(s: Stacks, a: Any, n: int) -> None:
    a[:] = 0


def _zero_row_and_column(s: Stacks, a: Any, n: int) -> None:
    a[n // 2], a[:, n // 2] = 0, 0


def _rank_one(s: Stacks, a: Any, n: int) -> None:
    """Of powers of two: each step of an elimination is exact."""
    powers = (2.0 ** -(np.arange(n) % 5)).astype(s.dtype)
    a[:] = np.outer(powers, powers)


def _huge_condition(s: Stacks, a: Any, n: int) -> None:
    digits = 30 if s.real == np.float32 else 250
    q, _ = np.linalg.qr(a)
    a[:] = (q * np.logspace(0, -digits, n)) @ adjoint(q)


def _huge(s: Stacks, a: Any, n: int) -> None:
    a *= 1e30 if s.real == np.float32 else 1e250


def _tiny(s: Stacks, a: Any, n: int) -> None:
    a *= 1e-30 if s.real == np.float32 else 1e-250


CHANGES: dict[str, Change] = {
    "nan": _element(np.nan), "inf": _element(np.inf), "minus inf": _element(-np.inf),
    "zero": _zero, "zero row": _zero_row_and_column, "rank one": _rank_one,
    "condition": _huge_condition, "huge": _huge, "tiny": _tiny,
}  # fmt: skip
NOT_NUMBERS = ("nan", "inf", "minus inf")
KINDS = ("ordinary", *CHANGES)


def stack(s: Stacks, batch: int, n: int, make: Callable[..., Any]) -> tuple[Any, list[str]]:
    """Matrices of all kinds in turn; from the first seven and what is not finite, if few."""
    kinds = [KINDS[i % len(KINDS)] for i in range(batch)]
    if batch < len(KINDS):
        kinds = [*KINDS[:2], *KINDS[4:]]
    a = make(len(kinds), n, n)
    for matrix, kind in zip(a, kinds, strict=True):
        if kind in CHANGES:
            CHANGES[kind](s, matrix, n)
    return a, kinds


def scale_of(a: Any) -> float:
    size = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return size or 1.0


def same(s: Stacks, got: Any, want: Any, scale: float, what: str) -> None:
    """NaN in the same places, and numbers that differ by what rounding does."""
    assert (np.isnan(got) == np.isnan(want)).all(), what
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite] / scale, want[finite] / scale, rtol=0,
                               atol=20 * s.atol, err_msg=what)  # fmt: skip


# Without iterations


@EACH
@SIZES
@pytest.mark.parametrize("uplo", [76, 85])
def test_potrf(letter: str, batch: int, n: int, uplo: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.positive)
    a[0, n // 2, n // 2] = -1
    result = together(s.shape(*a.shape), integers(len(a)))
    name = target(f"lapack_{letter}potrf_ffi", f"{{uplo = {uplo} : ui8}}")
    factor, info = run_stack(result, name, a)
    for got, failed, matrix, kind in zip(factor, info, a, kinds, strict=True):
        want, said = getattr(routines, f"{letter}potrf")(matrix, lower=uplo == 76, clean=0)
        if kind in NOT_NUMBERS:  # of products of infinities the order of sums decides
            both = [(failed, got), (said, want)]
            assert all(info or not np.isfinite(x).all() for info, x in both), kind
            continue
        if kind != "condition":
            assert failed == said, kind
        if not failed and not said:
            same(s, got, want, scale_of(want), kind)


def rows_exchanged(a: Any, pivots: Any) -> Any:
    """The matrix that the factors are of; pivots count from 1."""
    a = a.copy()
    for row, pivot in enumerate(pivots - 1):
        a[[row, pivot]] = a[[pivot, row]]
    return a


@EACH
@SIZES
def test_getrf(letter: str, batch: int, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.random)
    result = together(s.shape(*a.shape), integers(len(a), n), integers(len(a)))
    packed, pivots, info = run_stack(result, target(f"lapack_{letter}getrf_ffi"), a)
    for lu, chosen, failed, matrix, kind in zip(packed, pivots, info, a, kinds, strict=True):
        want, places, said = getattr(routines, f"{letter}getrf")(matrix)
        if kind in NOT_NUMBERS:
            assert not np.isfinite(lu).all() and not np.isfinite(want).all(), kind
            continue
        if kind == "condition":  # whether the last pivots are 0 or almost is rounding
            product = (np.tril(lu, -1) + np.eye(n, dtype=s.dtype)) @ np.triu(lu)
            same(s, product, rows_exchanged(matrix, chosen), scale_of(matrix) * n, kind)
            continue
        assert failed == said, kind
        assert chosen.tolist() == (places + 1).tolist(), kind
        same(s, lu, want, scale_of(want), kind)


@EACH
@SIZES
def test_geqrf(letter: str, batch: int, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.random)
    result = together(s.shape(*a.shape), s.shape(len(a), n))
    packed, taus = run_stack(result, target(f"lapack_{letter}geqrf_ffi"), a)
    name = f"lapack_{letter}{'ungqr' if letter in 'cz' else 'orgqr'}_ffi"
    (q,) = run_stack(s.shape(*a.shape), target(name), packed, taus)
    for number, (matrix, kind) in enumerate(zip(a, kinds, strict=True)):
        want, scales, _, _ = getattr(routines, f"{letter}geqrf")(matrix)
        r, scale = np.triu(packed[number]), scale_of(matrix)
        if kind in NOT_NUMBERS:
            assert np.isnan(r).any() and np.isnan(np.triu(want)).any(), kind
            continue
        same(s, q[number] @ (r / scale), matrix / scale, n, kind)
        same(s, adjoint(q[number]) @ q[number], np.eye(n), 1.0, kind)
        if kind not in ("condition", "rank one"):
            same(s, r, np.triu(want), scale * n, kind)
            same(s, taus[number], scales, 1.0, kind)


@EACH
@SIZES
def test_gehrd(letter: str, batch: int, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.random)
    result = together(s.shape(*a.shape), s.shape(len(a), n - 1), integers(len(a)))
    name = target(f"lapack_{letter}gehrd_ffi", f"{{low = 1 : i32, high = {n} : i32}}")
    packed, taus, info = run_stack(result, name, a)
    for got, scales, failed, matrix, kind in zip(packed, taus, info, a, kinds, strict=True):
        want, factors, said = getattr(routines, f"{letter}gehrd")(matrix)
        assert failed == said == 0, kind
        if kind not in ("condition", "rank one"):
            same(s, got, want, scale_of(want), kind)
            same(s, scales, factors, 1.0, kind)


@EACH
@SIZES
def test_triangular_systems(letter: str, batch: int, n: int, seed: int) -> None:
    """Singular ones give infinities and NaN, as BLAS does."""
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.positive)
    b = s.random(len(a), n, 2)
    what = ("triangular-solve left_side=true, lower=true, unit_diagonal=false,"
            " transpose_a=NO_TRANSPOSE")  # fmt: skip
    (x,) = run_stack(s.shape(*b.shape), what, a, b)
    for got, matrix, right, kind in zip(x, a, b, kinds, strict=True):
        want = getattr(blas, f"{letter}trsm")(1.0, matrix, right, lower=1)
        assert np.isfinite(got).all() == np.isfinite(want).all(), kind
        if np.isfinite(want).all():
            assert np.abs(np.tril(matrix) @ got - right).max() <= 50 * s.atol * (
                1 + np.abs(np.tril(matrix)) @ np.abs(got)
            ).max(), kind  # fmt: skip


# With iterations


def no_numbers(info: int, *results: Any) -> bool:
    """Whether LAPACK says that it failed, or gives NaN or infinities."""
    return info != 0 or not all(np.isfinite(r).all() for r in results)


@EACH
@SIZES
def test_syevd(letter: str, batch: int, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.hermitian)
    name = "heevd" if letter in "cz" else "syevd"
    result = together(s.shape(*a.shape), s.reals(len(a), n), integers(len(a)))
    config = "{mode = 86 : ui8, uplo = 76 : ui8}"
    vectors, values, info = run_stack(result, target(f"lapack_{letter}{name}_ffi", config), a)
    for v, w, failed, matrix, kind in zip(vectors, values, info, a, kinds, strict=True):
        if kind in NOT_NUMBERS:
            assert failed == NOT_FINITE and np.isnan(v).all() and np.isnan(w).all(), kind
            continue
        want, _, said = getattr(routines, letter + name)(matrix, lower=1)
        scale = scale_of(matrix)
        assert failed == said == 0, kind
        same(s, w, want, scale * n, kind)
        same(s, adjoint(v) @ v, np.eye(n), 1.0, kind)
        same(s, (matrix / scale) @ v, v * (w / scale), n, kind)


@EACH
@SIZES
@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
def test_singular_values(letter: str, batch: int, n: int, routine: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.random)
    square = s.shape(*a.shape)
    result = together(square, s.reals(len(a), n), square, square, integers(len(a)))
    call = target(f"lapack_{letter}{routine}_ffi", "{mode = 83 : ui8}")
    _, values, left, right, info = run_stack(result, call, a)
    for u, w, vt, failed, matrix, kind in zip(left, values, right, info, a, kinds, strict=True):
        if kind in NOT_NUMBERS:
            assert failed == NOT_FINITE, kind
            assert all(np.isnan(x).all() for x in (u, w, vt)), kind
            continue
        _, want, _, said = getattr(routines, letter + routine)(matrix)
        scale = scale_of(matrix)
        assert failed == said == 0, kind
        same(s, w, want, scale * n, kind)
        same(s, (u * (w / scale)) @ vt, matrix / scale, n, kind)
        for q in (u, adjoint(vt)):
            same(s, adjoint(q) @ q, np.eye(n), 1.0, kind)


@EACH
@SIZES
def test_gees(letter: str, batch: int, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a, kinds = stack(s, batch, n, s.random)
    square = s.shape(*a.shape)
    values = [s.shape(len(a), n)] * (1 if letter in "cz" else 2)
    result = together(square, square, *values, integers(len(a)), integers(len(a)))
    call = target(f"lapack_{letter}gees_ffi", "{mode = 86 : ui8, sort = 78 : ui8}")
    forms, vectors, *_, info = run_stack(result, call, a)
    for t, q, failed, matrix, kind in zip(forms, vectors, info, a, kinds, strict=True):
        if kind in NOT_NUMBERS:
            assert failed == NOT_FINITE and np.isnan(t).all() and np.isnan(q).all(), kind
            continue
        *_, said = getattr(routines, f"{letter}gees")(lambda *_: 0, matrix)
        scale = scale_of(matrix)
        assert failed == said == 0, kind
        same(s, q @ (t / scale) @ adjoint(q), matrix / scale, n, kind)
        same(s, adjoint(q) @ q, np.eye(n), 1.0, kind)


@EACH
def test_geev(letter: str, seed: int) -> None:
    s, n = Stacks(letter, seed), 12
    a, kinds = stack(s, len(KINDS), n, s.random)
    square = s.shape(*a.shape).replace("f32", "c64").replace("f64", "c128")
    values = [s.shape(len(a), n)] * (1 if letter in "cz" else 2)
    result = together(*values, square, square, integers(len(a)))
    call = target(f"lapack_{letter}geev_ffi", "{compute_left = 78 : ui8, compute_right = 86 : ui8}")
    *parts, _, vectors, info = run_stack(result, call, a)
    found = parts[0] if letter in "cz" else parts[0] + 1j * parts[1]
    for w, v, failed, matrix, kind in zip(found, vectors, info, a, kinds, strict=True):
        if kind in NOT_NUMBERS:
            assert failed == NOT_FINITE and np.isnan(w).all() and np.isnan(v).all(), kind
            continue
        *_, said = getattr(routines, f"{letter}geev")(matrix)
        scale = scale_of(matrix)
        assert failed == said == 0, kind
        same(s, (matrix / scale) @ v, v * (w / scale), n, kind)
        same(s, np.linalg.norm(v, axis=0), np.ones(n), 1.0, kind)


@EACH
@pytest.mark.parametrize("routine", ["syevd", "gesdd", "gees"])
def test_lapack_has_no_numbers_there_either(letter: str, routine: str, seed: int) -> None:
    """What our iterations refuse; of infinities some routines of LAPACK never end."""
    s = Stacks(letter, seed)
    a = s.hermitian(6, 6)
    a[2, 2] = np.nan
    name = "heevd" if letter in "cz" and routine == "syevd" else routine
    arguments = (lambda *_: 0, a) if routine == "gees" else (a,)
    *results, info = getattr(routines, letter + name)(*arguments)
    assert no_numbers(info, *(r for r in results if np.asarray(r).dtype.kind in "fc"))


@EACH
def test_gtsv(letter: str, seed: int) -> None:
    """Where an elimination meets a zero, info is its number."""
    s, n = Stacks(letter, seed), 6
    below, above = (s.random(4, n) for _ in range(2))
    diagonal, b = s.random(4, n) + 4, s.random(4, n, 2)
    below[:, 0], above[:, -1] = 0, 0
    below[1, 3], diagonal[1, 2], above[1, 1] = 0, 0, 0
    diagonal[2, 4] = np.nan
    diagonal[3] *= 1e-30
    vector, right = s.shape(4, n), s.shape(4, n, 2)
    result = together(vector, vector, vector, right, integers(4))
    call = target(f"lapack_{letter}gtsv_ffi")
    *_, x, info = run_stack(result, call, below, diagonal, above, b)
    for number in range(4):
        *_, want, said = getattr(routines, f"{letter}gtsv")(
            below[number, 1:], diagonal[number], above[number, :-1], b[number]
        )
        assert info[number] == said, number
        if not said:
            same(s, x[number], want, scale_of(want), str(number))
    assert info.tolist() == [0, 3, 0, 0]
