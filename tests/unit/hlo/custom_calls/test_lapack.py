"""LAPACK's routines: each against what defines it, for all four types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of
from tests.unit.hlo.custom_calls.calls import run_call
from xladev.errors import EvaluationError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape, array, tuple_of

LETTERS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
EACH = pytest.mark.parametrize("letter", LETTERS)
FULL, THIN, NONE = 65, 83, 78
LOWER, UPPER = 76, 85


class Kit:
    """Random matrices of one type, shapes of results, and comparison within its precision."""

    def __init__(self, letter: str, seed: int) -> None:
        self.letter = letter
        self.dtype = np.dtype(LETTERS[letter])
        self.rng = np.random.default_rng(seed)
        self.type = dt.by_numpy(self.dtype)
        self.real = self.type.component
        self.atol = 2000 * float(np.finfo(self.dtype).eps)

    def random(self, *dims: int) -> Any:
        values = self.rng.normal(size=dims)
        if self.dtype.kind == "c":
            values = values + 1j * self.rng.normal(size=dims)
        return values.astype(self.dtype)

    def hermitian(self, *dims: int) -> Any:
        a = self.random(*dims)
        return a + adjoint(a) + 4 * dims[-1] * np.eye(dims[-1], dtype=self.dtype)

    def matrix(self, *dims: int) -> Shape:
        return array(self.type, dims)

    def vector(self, *dims: int) -> Shape:
        return array(self.real, dims)

    def call(self, routine: str, shape: Shape, *operands: Any, config: str = "{}") -> Any:
        result = run_call(f"lapack_{self.letter}{routine}_ffi", shape, *operands, config=config)
        shapes = shape.tuple_shapes or (shape,)
        for part, wanted in zip(result if shape.is_tuple else (result,), shapes, strict=True):
            assert part.dtype == wanted.element_type.np and part.shape == wanted.dims
        return result

    def close(self, got: Any, want: Any) -> None:
        np.testing.assert_allclose(got, want, rtol=0, atol=self.atol)


def adjoint(a: Any) -> Any:
    return np.conj(a.swapaxes(-1, -2))


def info(*dims: int) -> Shape:
    return array(dt.S32, dims)


@EACH
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_potrf_keeps_the_other_triangle(letter: str, uplo: int, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.hermitian(2, 4, 4)
    shape = tuple_of(kit.matrix(2, 4, 4), info(2))
    factor, failed = kit.call("potrf", shape, a, config=f"{{uplo = {uplo} : ui8}}")
    lower = np.tril(factor) if uplo == LOWER else adjoint(np.triu(factor))
    kit.close(lower @ adjoint(lower), a)
    other = np.triu(np.ones((4, 4)), 1) if uplo == LOWER else np.tril(np.ones((4, 4)), -1)
    assert (factor == a)[:, other == 1].all() and failed.tolist() == [0, 0]


def test_potrf_says_which_column_failed() -> None:
    a = np.diag([1.0, 2, -1, 3])
    _, failed = run_call("lapack_dpotrf_ffi", tuple_of(of("f64[4,4]"), of("s32[]")), a)
    assert failed == 3


@EACH
@pytest.mark.parametrize("dims", [(5, 3), (3, 5), (4, 4), (0, 3)])
def test_getrf(letter: str, dims: tuple[int, int], seed: int) -> None:
    kit = Kit(letter, seed)
    rows, columns = dims
    a = kit.random(2, rows, columns)
    shape = tuple_of(kit.matrix(2, rows, columns), info(2, min(dims)), info(2))
    lu, pivots, failed = kit.call("getrf", shape, a)
    k = min(dims)
    for one, swaps, original in zip(lu, pivots, a, strict=True):
        permuted = original.copy()
        for row, other in enumerate(swaps - 1):
            permuted[[row, other]] = permuted[[other, row]]
        lower = np.tril(one[:, :k], -1) + np.eye(rows, k)
        kit.close(lower @ np.triu(one[:k]), permuted)
        assert (np.abs(np.tril(one[:, :k], -1)) <= np.sqrt(2) + kit.atol).all()
    assert failed.tolist() == [0, 0]


def test_getrf_says_which_pivot_is_zero() -> None:
    a = np.array([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]])
    shape = tuple_of(of("f64[3,3]"), of("s32[3]"), of("s32[]"))
    assert run_call("lapack_dgetrf_ffi", shape, a)[2] == 3


def q_routine(letter: str, real: str, other: str) -> str:
    return real if letter in "sd" else other


@EACH
@pytest.mark.parametrize("dims", [(5, 3), (3, 5), (4, 4)])
def test_qr(letter: str, dims: tuple[int, int], seed: int) -> None:
    kit = Kit(letter, seed)
    rows, columns = dims
    k = min(dims)
    a = kit.random(2, rows, columns)
    shape = tuple_of(kit.matrix(2, rows, columns), kit.matrix(2, k))
    packed, taus = kit.call("geqrf", shape, a)
    thin = kit.call(
        q_routine(letter, "orgqr", "ungqr"), kit.matrix(2, rows, k), packed[:, :, :k].copy(), taus
    )
    kit.close(adjoint(thin) @ thin, np.broadcast_to(np.eye(k), (2, k, k)))
    kit.close(thin @ np.triu(packed[:, :k]), a)


@EACH
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr_multiplies_by_q(letter: str, left: bool, transpose: bool, seed: int) -> None:
    kit = Kit(letter, seed)
    shape = tuple_of(kit.matrix(5, 3), kit.matrix(3))
    packed, taus = kit.call("geqrf", shape, kit.random(5, 3))
    square = np.concatenate([packed, np.zeros((5, 2), kit.dtype)], 1)
    q = kit.call(q_routine(letter, "orgqr", "ungqr"), kit.matrix(5, 5), square, taus)
    c = kit.random(*((5, 2) if left else (2, 5)))
    config = f"{{left = {str(left).lower()}, transpose = {str(transpose).lower()}}}"
    routine = q_routine(letter, "ormqr", "unmqr")
    got = kit.call(routine, kit.matrix(*c.shape), packed, taus, c, config=config)
    turned = adjoint(q) if transpose else q
    kit.close(got, turned @ c if left else c @ turned)


@EACH
def test_geqp3_takes_the_longest_column_first(letter: str, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.random(5, 4)
    a[:, 2] *= 10
    shape = tuple_of(kit.matrix(5, 4), info(4), kit.matrix(4))
    packed, order, taus = kit.call("geqp3", shape, a, np.zeros(4, np.int32))
    assert order[0] == 3 and sorted(order.tolist()) == [1, 2, 3, 4]
    diagonal = np.abs(np.diag(packed))
    assert (diagonal[:-1] >= diagonal[1:] - kit.atol).all()
    q = kit.call(q_routine(letter, "orgqr", "ungqr"), kit.matrix(5, 4), packed, taus)
    np.testing.assert_allclose(q @ np.triu(packed[:4]), a[:, order - 1], atol=10 * kit.atol)


def test_geqp3_keeps_fixed_columns_in_front() -> None:
    a = np.diag([1.0, 2, 3, 4])
    shape = tuple_of(of("f64[4,4]"), of("s32[4]"), of("f64[4]"))
    fixed = np.array([0, 1, 0, 0], np.int32)
    assert run_call("lapack_dgeqp3_ffi", shape, a, fixed)[1].tolist() == [2, 4, 3, 1]


@EACH
@pytest.mark.parametrize("mode", [FULL, THIN])
@pytest.mark.parametrize("dims", [(5, 3), (3, 5)])
def test_svd(letter: str, mode: int, dims: tuple[int, int], seed: int) -> None:
    kit = Kit(letter, seed)
    m, n = dims
    k = min(dims)
    a = kit.random(2, m, n)
    wide, tall = (m, n) if mode == FULL else (k, k)
    shape = tuple_of(
        kit.matrix(2, m, n), kit.vector(2, k), kit.matrix(2, m, wide), kit.matrix(2, tall, n),
        info(2),
    )  # fmt: skip
    for routine in ("gesdd", "gesvd"):
        _, s, u, vt, failed = kit.call(routine, shape, a, config=f"{{mode = {mode} : ui8}}")
        kit.close((u[..., :k] * s[:, None]) @ vt[:, :k], a)
        kit.close(adjoint(u) @ u, np.broadcast_to(np.eye(wide), (2, wide, wide)))
        assert (s[:, :-1] >= s[:, 1:]).all() and failed.tolist() == [0, 0]


def test_singular_values_alone() -> None:
    shape = tuple_of(of("f64[2,2]"), of("f64[2]"), of("f64[2,2]"), of("f64[2,2]"), of("s32[]"))
    got = run_call("lapack_dgesdd_ffi", shape, np.diag([3.0, 4]), config=f"{{mode = {NONE} : ui8}}")
    np.testing.assert_allclose(got[1], [4, 3])


def test_matrices_with_nan_fail_alone() -> None:
    a = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    shape = tuple_of(of("f64[2,2,2]"), of("f64[2,2]"), of("s32[2]"))
    _, values, failed = run_call("lapack_dsyevd_ffi", shape, a)
    assert failed.tolist() == [0, 1]
    assert np.isnan(values).all(1).tolist() == [False, True]


@EACH
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_eigh_reads_one_triangle(letter: str, uplo: int, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.hermitian(2, 4, 4)
    half = np.tril(a) if uplo == LOWER else np.triu(a)
    shape = tuple_of(kit.matrix(2, 4, 4), kit.vector(2, 4), info(2))
    config = f"{{mode = 86 : ui8, uplo = {uplo} : ui8}}"
    vectors, values, _ = kit.call(q_routine(letter, "syevd", "heevd"), shape, half, config=config)
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None], atol=20 * kit.atol)
    assert (values[:, :-1] <= values[:, 1:]).all()


@EACH
def test_eig_gives_both_kinds_of_vectors(letter: str, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.random(2, 4, 4)
    whole = array(dt.C64 if letter in "sc" else dt.C128, (2, 4, 4))
    values = [kit.vector(2, 4)] * 2 if letter in "sd" else [kit.matrix(2, 4)]
    shape = tuple_of(*values, whole, whole, info(2))
    got = kit.call("geev", shape, a, config="{compute_left = 86 : ui8, compute_right = 86 : ui8}")
    w = got[0] + 1j * got[1] if letter in "sd" else got[0]
    left, right = got[-3], got[-2]
    np.testing.assert_allclose(a @ right, right * w[:, None], atol=10 * kit.atol)
    np.testing.assert_allclose(adjoint(left) @ a, w[..., None] * adjoint(left), atol=10 * kit.atol)
    np.testing.assert_allclose(np.linalg.norm(left, axis=-2), 1, atol=kit.atol)
    np.testing.assert_allclose(np.linalg.norm(right, axis=-2), 1, atol=kit.atol)


def q_of(packed: Any, taus: Any, offset: int) -> Any:
    """Q of reflectors that begin ``offset`` rows below the diagonal, multiplied out."""
    n = packed.shape[0]
    q = np.eye(n, dtype=packed.dtype)
    for k, tau in enumerate(taus):
        v = np.zeros(n, packed.dtype)
        v[k + offset] = 1
        v[k + offset + 1 :] = packed[k + offset + 1 :, k]
        q = q @ (np.eye(n) - tau * np.outer(v, v.conj()))
    return q


@EACH
def test_hessenberg(letter: str, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.random(5, 5)
    shape = tuple_of(kit.matrix(5, 5), kit.matrix(4), info())
    for config in ("{high = 5 : i32, low = 1 : i32}", "{}"):
        packed, taus, _ = kit.call("gehrd", shape, a, config=config)
        q = q_of(packed, taus, 1)
        kit.close(q @ np.triu(packed, -1) @ adjoint(q), a)


def test_hessenberg_of_a_block(seed: int) -> None:
    kit = Kit("d", seed)
    a = np.triu(kit.random(5, 5))
    a[1:4, 1:4] = kit.random(3, 3)
    shape = tuple_of(kit.matrix(5, 5), kit.matrix(4), info())
    packed, taus, _ = kit.call("gehrd", shape, a, config="{high = 4 : i32, low = 2 : i32}")
    assert taus[[0, 2, 3]].tolist() == [0, 0, 0] and taus[1] != 0
    q = q_of(packed, taus, 1)
    kit.close(q @ np.triu(packed, -1) @ adjoint(q), a)


@EACH
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_tridiagonal(letter: str, uplo: int, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.hermitian(5, 5)
    shape = tuple_of(kit.matrix(5, 5), kit.vector(5), kit.vector(4), kit.matrix(4), info())
    routine = q_routine(letter, "sytrd", "hetrd")
    config = f"{{uplo = {uplo} : ui8}}"
    packed, diagonal, off, taus, _ = kit.call(routine, shape, a, config=config)
    t = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(t), np.linalg.eigvalsh(a), atol=20 * kit.atol)
    if uplo == LOWER:
        q = q_of(packed, taus, 1)
        np.testing.assert_allclose(q @ t @ adjoint(q), a, atol=20 * kit.atol)


@EACH
def test_gtsv_exchanges_rows(letter: str, seed: int) -> None:
    kit = Kit(letter, seed)
    below, diagonal, above = (kit.random(2, 5) for _ in range(3))
    diagonal[0, 0] = 0
    b = kit.random(2, 5, 3)
    row, whole = kit.matrix(2, 5), kit.matrix(2, 5, 3)
    got = kit.call("gtsv", tuple_of(row, row, row, whole, info(2)), below, diagonal, above, b)
    for i in range(2):
        t = np.diag(diagonal[i]) + np.diag(below[i, 1:], -1) + np.diag(above[i, :-1], 1)
        np.testing.assert_allclose(t @ got[3][i], b[i], atol=100 * kit.atol)


def test_gtsv_says_which_pivot_is_zero() -> None:
    row = of("f64[3]")
    shape = tuple_of(row, row, row, of("f64[3,1]"), of("s32[]"))
    zero, one = np.zeros(3), np.ones((3, 1))
    for diagonal, want in (([1.0, 0, 1], 2), ([1.0, 1, 0], 3), ([0.0, 0, 0], 1), ([1.0] * 3, 0)):
        got = run_call("lapack_dgtsv_ffi", shape, zero, np.array(diagonal), zero, one)
        assert got[4] == want


def test_singular_tridiagonal_systems_have_solutions() -> None:
    """Values of jaxlib 0.12: pivots of zero become epsilon times the largest element, 3."""
    below, diagonal, above = (np.zeros(4, np.float32) for _ in range(3))
    below[1], below[3], above[1] = 2, 1, 3
    b = np.float32([[1], [2], [3], [4]])
    got = run_call("tridiagonal_solve_perturbed_ffi", of("f32[4,1]"), below, diagonal, above, b)
    least = 3 * np.finfo(np.float32).eps
    np.testing.assert_allclose(got[:, 0], [-5, 1 / least, 4, 3 / least], rtol=1e-6)


@EACH
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("trans", "NTC")
@pytest.mark.parametrize("diag", "NU")
def test_trsm(letter: str, side: str, uplo: str, trans: str, diag: str, seed: int) -> None:
    kit = Kit(letter, seed)
    a = kit.random(4, 4) + 4 * np.eye(4, dtype=kit.dtype)
    b = kit.random(*((4, 3) if side == "L" else (3, 4)))
    codes = {"diag": diag, "side": side, "trans_x": trans, "uplo": uplo}
    config = ", ".join(f"{name} = {ord(code)} : ui8" for name, code in codes.items())
    x = kit.call("trsm", kit.matrix(*b.shape), a, b, config=f"{{{config}}}")
    t = np.tril(a) if uplo == "L" else np.triu(a)
    if diag == "U":
        t = t - np.diag(np.diag(t)) + np.eye(4)
    t = {"N": t, "T": t.T, "C": adjoint(t)}[trans]
    np.testing.assert_allclose(t @ x if side == "L" else x @ t, b, atol=10 * kit.atol)


@pytest.mark.parametrize(
    ("constraint", "operands"),
    [
        ("custom_call_lapack1", ("f32[3,3]", "f32[3,3]")),
        ("custom_call_lapack2", ("f32[3]",)),
        ("custom_call_lapack3", ("f64[3,3]",)),
    ],
)
def test_rejects(constraint: str, operands: tuple[str, ...]) -> None:
    target = "lapack_sgetrf_ffi"
    assert_rejected(constraint, "custom-call", *operands, to="f32[3,3]", custom_call_target=target)


@pytest.mark.parametrize(
    ("target", "shapes"),
    [
        ("Qr", ("f64[4,3]", "f64[3]")),
        ("LuDecomposition", ("f64[4,3]", "s32[3]", "s32[4]")),
    ],
)
def test_xla_names(target: str, shapes: tuple[str, ...], seed: int) -> None:
    a = np.random.default_rng(seed).normal(size=(4, 3))
    got = run_call(target, tuple_of(*map(of, shapes)), a)
    if target == "Qr":
        q = run_call("ProductOfElementaryHouseholderReflectors", of("f64[4,3]"), *got)
        np.testing.assert_allclose(q @ np.triu(got[0][:3]), a)
        return
    lower = np.tril(got[0], -1) + np.eye(4, 3)
    np.testing.assert_allclose(lower @ np.triu(got[0][:3]), a[got[2]])


def test_unreadable_configuration_is_an_error() -> None:
    shape = tuple_of(of("f64[2,2]"), of("s32[]"))
    with pytest.raises(EvaluationError, match="backend_config"):
        run_call("lapack_dpotrf_ffi", shape, np.eye(2), config="{uplo: what}")
