"""Eigenvalues and singular values through LAPACK, against SciPy's own calls and definitions."""

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
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE

routines = pytest.importorskip("scipy.linalg.lapack")
EACH = pytest.mark.parametrize("letter", DTYPES)
BATCH = 3
CODES = {"A": 65, "S": 83, "N": 78, "V": 86, "L": 76, "U": 85}


@EACH
@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_syevd_reads_one_triangle(letter: str, uplo: str, n: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.hermitian(BATCH, n, n)
    given = np.tril(a) if uplo == "L" else np.triu(a)
    given = given + np.where(given == 0, np.nan, 0).astype(s.dtype)
    name = f"lapack_{letter}{'heevd' if letter in 'cz' else 'syevd'}_ffi"
    config = f"{{mode = 86 : ui8, uplo = {CODES[uplo]} : ui8}}"
    result = together(s.shape(BATCH, n, n), s.reals(BATCH, n), integers(BATCH))
    vectors, values, info = run_stack(result, target(name, config), given)
    s.close(values, np.linalg.eigvalsh(a))
    s.close(a @ vectors, vectors * values[:, None, :])
    s.close(adjoint(vectors) @ vectors, np.broadcast_to(np.eye(n), a.shape))
    assert info.tolist() == [0] * BATCH


@EACH
@pytest.mark.parametrize("lower", [0, 1])
def test_eigh(letter: str, lower: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.hermitian(2, 6, 6)
    result = together(s.shape(2, 6, 6), s.reals(2, 6))
    vectors, values = run_stack(result, target("Eigh", f"{lower},1,100,1e-6"), a)
    s.close(a @ vectors, vectors * values[:, None, :])


@EACH
@pytest.mark.parametrize("mode", ["A", "S", "N"])
@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
@pytest.mark.parametrize("dims", [(5, 5), (9, 4), (4, 9), (1, 3)])
def test_gesdd(letter: str, mode: str, routine: str, dims: tuple[int, int], seed: int) -> None:
    s = Stacks(letter, seed)
    a, (m, n), k = s.random(BATCH, *dims), dims, min(dims)
    wide, high = (k, k) if mode == "S" else (m, n)
    result = together(s.shape(BATCH, m, n), s.reals(BATCH, k), s.shape(BATCH, m, wide),
                      s.shape(BATCH, high, n), integers(BATCH))  # fmt: skip
    config = f"{{mode = {CODES[mode]} : ui8}}"
    kept, values, u, vt, info = run_stack(
        result, target(f"lapack_{letter}{routine}_ffi", config), a
    )
    assert (kept == a).all() and info.tolist() == [0] * BATCH
    s.close(values, np.linalg.svd(a, compute_uv=False))
    if mode == "N":
        assert (u == 0).all() and (vt == 0).all()
        return
    s.close((u[:, :, :k] * values[:, None, :]) @ vt[:, :k], a)
    s.close(adjoint(u) @ u, np.broadcast_to(np.eye(wide), (BATCH, wide, wide)))
    s.close(vt @ adjoint(vt), np.broadcast_to(np.eye(high), (BATCH, high, high)))


@EACH
@pytest.mark.parametrize(("left", "right"), [("V", "V"), ("N", "V"), ("V", "N"), ("N", "N")])
def test_geev(letter: str, left: str, right: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a, n = s.random(BATCH, 8, 8), 8
    complex_type = np.result_type(s.dtype, np.complex64)
    vector = f"{'c64' if complex_type == np.complex64 else 'c128'}[{BATCH},8"
    values = [s.shape(BATCH, n)] * (1 if letter in "cz" else 2)
    result = together(*values, f"{vector},8]", f"{vector},8]", integers(BATCH))
    config = f"{{compute_left = {CODES[left]} : ui8, compute_right = {CODES[right]} : ui8}}"
    *parts, lefts, rights, info = run_stack(result, target(f"lapack_{letter}geev_ffi", config), a)
    found = parts[0] if letter in "cz" else parts[0] + 1j * parts[1]
    assert info.tolist() == [0] * BATCH
    if right == "V":
        s.close(a @ rights, rights * found[:, None, :])
        s.close(np.linalg.norm(rights, axis=1), np.ones((BATCH, n)))
    else:
        assert (rights == 0).all()
    if left == "V":
        s.close(adjoint(lefts) @ a, found[:, :, None] * adjoint(lefts))
    else:
        assert (lefts == 0).all()
    for n, matrix in enumerate(a):
        s.close(np.sort_complex(found[n]), np.sort_complex(np.linalg.eigvals(matrix)))


@EACH
def test_gees(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(BATCH, 9, 9)
    square, vector = s.shape(BATCH, 9, 9), s.shape(BATCH, 9)
    values = [vector] * (1 if letter in "cz" else 2)
    result = together(square, square, *values, integers(BATCH), integers(BATCH))
    config = "{mode = 86 : ui8, sort = 78 : ui8}"
    t, q, *parts, chosen, info = run_stack(result, target(f"lapack_{letter}gees_ffi", config), a)
    s.close(q @ t @ adjoint(q), a)
    s.close(adjoint(q) @ q, np.broadcast_to(np.eye(9), a.shape))
    assert (np.tril(t, -2) == 0).all() and not chosen.any() and not info.any()
    found = parts[0] if letter in "cz" else parts[0] + 1j * parts[1]
    s.close(np.sort_complex(found[0]), np.sort_complex(np.linalg.eigvals(a[0])))


@EACH
@pytest.mark.parametrize(("low", "high"), [(1, 9), (3, 7)])
def test_gehrd(letter: str, low: int, high: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(BATCH, 9, 9)
    result = together(s.shape(BATCH, 9, 9), s.shape(BATCH, 8), integers(BATCH))
    config = f"{{low = {low} : i32, high = {high} : i32}}"
    packed, taus, info = run_stack(result, target(f"lapack_{letter}gehrd_ffi", config), a)
    for n, matrix in enumerate(a):
        want, scales, _ = getattr(routines, f"{letter}gehrd")(matrix, low - 1, high - 1)
        s.close(packed[n], want)
        s.close(taus[n], scales)
    assert not info.any()


@EACH
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_sytrd(letter: str, uplo: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.hermitian(BATCH, 7, 7)
    name = "hetrd" if letter in "cz" else "sytrd"
    result = together(s.shape(BATCH, 7, 7), s.reals(BATCH, 7), s.reals(BATCH, 6),
                      s.shape(BATCH, 6), integers(BATCH))  # fmt: skip
    config = f"{{uplo = {CODES[uplo]} : ui8}}"
    found = run_stack(result, target(f"lapack_{letter}{name}_ffi", config), a)
    for n, matrix in enumerate(a):
        want = getattr(routines, letter + name)(matrix, lower=uplo == "L")
        for got, each in zip(found, want, strict=True):
            s.close(got[n], each)


def bad_stack(s: Stacks, kind: float) -> Any:
    a = s.hermitian(BATCH, 12, 12)
    a[1, 3, 3] = kind
    return a


@EACH
@pytest.mark.parametrize("kind", [np.nan, np.inf, -np.inf])
def test_matrices_that_are_not_finite_are_nan_and_others_are_not(
    letter: str, kind: float, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    s = Stacks(letter, seed)
    a = bad_stack(s, kind)
    square, vector, complex_square = (
        s.shape(3, 12, 12),
        s.reals(3, 12),
        f"{'c64' if letter in 'sc' else 'c128'}[3,12,12]",
    )
    values = [s.shape(3, 12)] * (1 if letter in "cz" else 2)
    hermitian = "heevd" if letter in "cz" else "syevd"
    calls = {
        hermitian: ("{uplo = 76 : ui8}", (square, vector)),
        "gesdd": ("{mode = 65 : ui8}", (square, vector, square, square)),
        "gesvd": ("{mode = 83 : ui8}", (square, vector, square, square)),
        "geev": ("{compute_left = 86 : ui8}", (*values, complex_square, complex_square)),
        "gees": ("{mode = 86 : ui8}", (square, square, *values, integers(3))),
    }
    for name, (config, shapes) in calls.items():
        result = together(*shapes, integers(3))
        *found, info = run_stack(result, target(f"lapack_{letter}{name}_ffi", config), a)
        assert info.tolist() == [0, NOT_FINITE, 0], name
        floats = [x for x in found if x.dtype.kind != "i"][1 if name.startswith("ges") else 0 :]
        for each in floats:
            assert np.isnan(each[1]).all() and np.isfinite(each[[0, 2]]).all(), name
    assert capfd.readouterr() == ("", ""), "LAPACK complains"
