"""Factorisations and solvers by custom call, against their definitions or what they must fulfil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.factors import (
    adjoint,
    assert_eigh,
    assert_lu,
    assert_product,
    assert_qr,
    assert_solution,
    assert_svd,
    assert_values,
    exchanged,
    reflected,
)
from tests.unit.passes.expansions.single import assert_exact, assert_near, both_values
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.text import parse_module
from xladev.passes.expansions.custom_call import expand_known_target

LETTERS = {"s": dt.F32, "d": dt.F64, "c": dt.C64, "z": dt.C128}


def shape(t: PrimitiveType, *dims: int) -> str:
    return f"{t}[{','.join(map(str, dims))}]"


def draw(seed: int, t: PrimitiveType, *dims: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(dims)
    return (values + 1j * rng.standard_normal(dims) if t.is_complex else values).astype(t.np)


def call(result: str, target: str, *operands: str, **config: int | str) -> str:
    settings = ", ".join(
        f"{k} = {v} : ui8" if isinstance(v, int) else f"{k} = {v}" for k, v in config.items()
    )
    given = ", ".join(f"{o} x{i}" for i, o in enumerate(operands))
    return (
        f'r = {result} custom-call({given}), custom_call_target="{target}", '
        f'backend_config="{{{settings}}}"'
    )


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("letter", LETTERS)
def test_cholesky_and_triangular_systems(letter: str, uplo: str, seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, 2, 5, 5)
    a = (a @ adjoint(a) + 5 * np.eye(5)).astype(t.np)
    matrix, sides = shape(t, 2, 5, 5), shape(t, 2, 5, 3)
    text = call(f"({matrix}, s32[2])", f"lapack_{letter}potrf_ffi", matrix, uplo=ord(uplo))
    assert_near(text, 0, a, eps=100)
    broken = a.copy()
    broken[1, 2, 2] = -1
    assert both_values(text, 0, broken)[1][1].tolist() == [0, 3]
    text = call(
        sides, f"lapack_{letter}trsm_ffi", matrix, sides,
        uplo=ord(uplo), side=ord("L"), trans_x=ord("C"), diag=ord("N"),
    )  # fmt: skip
    assert_near(text, 0, a, draw(seed + 1, t, 2, 5, 3), eps=300)


def both_results(result: str, target: str, *given: Any, **config: int | str) -> Any:
    """(direct, expanded) values of a call on given arrays."""
    operands = [shape(dt.by_numpy(x.dtype), *x.shape) for x in given]
    return both_values(call(result, target, *operands, **config), 0, *given)


def each_way(result: str, target: str, *given: Any, **config: int | str) -> Any:
    """The direct results of a call, and the expanded ones."""
    return zip(*both_results(result, target, *given, **config), strict=True)


def assert_agree(result: str, target: str, *given: Any, eps: float = 500, **config: Any) -> None:
    """Direct and expanded results agree to ``eps`` machine epsilons, integers exactly.

    For what follows from the arguments as closely as that: products with reflectors, not factors,
    which follow to eps times a condition (`tests.tools.factors`).
    """
    for direct, made in both_results(result, target, *given, **config):
        assert direct.shape == made.shape
        if direct.dtype.kind not in "fc":
            np.testing.assert_array_equal(direct, made)
        elif direct.size:
            unit = np.finfo(direct.dtype).eps * np.abs(direct).max()
            np.testing.assert_allclose(made, direct, rtol=0, atol=eps * max(unit, 1e-300))


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("letter", LETTERS)
def test_factors(letter: str, batch: tuple[int, ...], seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, *batch, 4, 3)
    matrix, pivots, info = shape(t, *a.shape), shape(dt.S32, *batch, 3), shape(dt.S32, *batch)
    order = shape(dt.S32, *batch, 4)
    for lu, found, _ in each_way(f"({matrix}, {pivots}, {info})", f"lapack_{letter}getrf_ffi", a):
        assert_lu(a, lu, found)
    for lu, found, rows in each_way(f"({matrix}, {pivots}, {order})", "LuDecomposition", a):
        assert_lu(a, lu, found + 1)
        moved = np.take_along_axis(a, rows[..., None], -2)
        np.testing.assert_array_equal(moved, exchanged(a, found + 1))
    scales = shape(t, *batch, 3)
    for target in (f"lapack_{letter}geqrf_ffi", "Qr"):
        for packed, taus in each_way(f"({matrix}, {scales})", target, a):
            assert_qr(a, packed, reflected(packed, taus, 0)[..., :3].astype(t.np))
    packed, taus = (x[0] for x in both_results(f"({matrix}, {scales})", "Qr", a))
    orgqr = f"lapack_{letter}{'un' if t.is_complex else 'or'}gqr_ffi"
    for target in (orgqr, "ProductOfElementaryHouseholderReflectors"):
        assert_agree(matrix, target, packed, taus)
    fixed = np.zeros((*batch, 3), np.int32)
    for r, columns, taus3 in each_way(
        f"({matrix}, {pivots}, {scales})", f"lapack_{letter}geqp3_ffi", a, fixed
    ):
        moved = np.take_along_axis(a, columns[..., None, :] - 1, -1)
        assert_qr(moved, r, reflected(r, taus3, 0)[..., :3].astype(t.np))
    ormqr = f"lapack_{letter}{'un' if t.is_complex else 'or'}mqr_ffi"
    for left, dims in (("true", (4, 2)), ("false", (2, 4))):
        for transpose in ("true", "false"):
            c = draw(seed + 1, t, *batch, *dims)
            assert_agree(shape(t, *c.shape), ormqr, packed, taus, c, left=left, transpose=transpose)


@pytest.mark.parametrize("letter", LETTERS)
def test_reduced_forms(letter: str, seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, 2, 5, 5)
    matrix, scales = shape(t, 2, 5, 5), shape(t, 2, 4)
    for packed, taus, _ in each_way(
        f"({matrix}, {scales}, s32[2])", f"lapack_{letter}gehrd_ffi", a, low=1, high=5
    ):
        q = reflected(packed, taus, 1)
        assert_product(q @ np.triu(packed, -1) @ adjoint(q), a)
    real = t.component
    for uplo in "LU":
        routine = "hetrd" if t.is_complex else "sytrd"
        result = f"({matrix}, {shape(real, 2, 5)}, {shape(real, 2, 4)}, {scales}, s32[2])"
        symmetric = (a + adjoint(a)).astype(t.np)
        for packed, diagonal, off, taus, _ in each_way(
            result, f"lapack_{letter}{routine}_ffi", symmetric, uplo=ord(uplo)
        ):
            assert_tridiagonal(symmetric, packed, diagonal, off, taus, uplo)


def assert_tridiagonal(a: Any, packed: Any, diagonal: Any, off: Any, taus: Any, uplo: str) -> None:
    """``q t q* = a``; where reflectors are above the diagonal, that t has a's eigenvalues."""
    n = a.shape[-1]
    t = np.zeros(a.shape, np.float64)
    t[..., range(n), range(n)] = diagonal
    t[..., range(1, n), range(n - 1)] = t[..., range(n - 1), range(1, n)] = off
    if uplo == "L":
        q = reflected(packed, taus, 1)
        assert_product(q @ t @ adjoint(q), a)
    found = np.linalg.eigvalsh(t).astype(diagonal.dtype)
    assert_values(found, np.linalg.eigvalsh(a.astype(np.complex128)), n)


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("letter", LETTERS)
def test_hermitian_eigenvalues(letter: str, uplo: str, seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, 2, 4, 4)
    a[1] = np.nan
    result = f"({shape(t, 2, 4, 4)}, {shape(t.component, 2, 4)}, s32[2])"
    target = f"lapack_{letter}{'heevd' if t.is_complex else 'syevd'}_ffi"
    half = np.tril(a[0], -1) if uplo == "L" else np.triu(a[0], 1)
    whole = (half + adjoint(half) + np.diag(np.diag(a[0]).real)).astype(t.np)
    for vectors, values, info in each_way(result, target, a, uplo=ord(uplo), mode=ord("V")):
        assert info.tolist() == [0, 1]
        assert np.isnan(values[1]).all() and np.isnan(vectors[1]).all()
        assert_eigh(whole, values[0], vectors[0])


def test_eigh_by_the_name_that_xla_gives_it(seed: int) -> None:
    a = draw(seed, dt.F64, 3, 3)
    for lower in (0, 1):
        text = (
            'r = (f64[3,3], f64[3]) custom-call(f64[3,3] x), custom_call_target="Eigh", '
            f'backend_config="{lower},1,100,1e-6"'
        )
        _, (direct, made) = both_values(text, 0, a)
        np.testing.assert_allclose(made, direct, atol=1e-14)


@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
@pytest.mark.parametrize("mode", "ASN")
@pytest.mark.parametrize("dims", [(4, 3), (3, 4)], ids=str)
def test_singular_values(dims: tuple[int, int], mode: str, routine: str, seed: int) -> None:
    a = draw(seed, dt.F64, 2, *dims)
    m, n = dims
    wide, tall = (3, 3) if mode == "S" else dims
    result = (
        f"({shape(dt.F64, 2, m, n)}, f64[2,3], {shape(dt.F64, 2, m, wide)}, "
        f"{shape(dt.F64, 2, tall, n)}, s32[2])"
    )
    for same, s, u, vt, info in each_way(result, f"lapack_d{routine}_ffi", a, mode=ord(mode)):
        assert np.array_equal(same, a) and info.tolist() == [0, 0]
        if mode == "N":
            assert not (u.any() or vt.any())
            assert_values(s, np.linalg.svd(a, compute_uv=False), max(dims))
        else:
            assert_svd(a, u, s, vt)


def test_without_singular_vectors_any_shape_may_be_declared(seed: int) -> None:
    result = "(f64[4,3], f64[3], f64[4,3], f64[3,3], s32[])"
    found = both_results(result, "lapack_dgesdd_ffi", draw(seed, dt.F64, 4, 3), mode=ord("N"))
    assert_values(*found[1], 4)


@pytest.mark.parametrize("letter", LETTERS)
def test_general_eigenvalues(letter: str, seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, 2, 4, 4)
    pair = dt.C64 if letter in "sc" else dt.C128
    values = shape(t, 2, 4) if t.is_complex else f"{shape(t, 2, 4)}, {shape(t, 2, 4)}"
    result = f"({values}, {shape(pair, 2, 4, 4)}, {shape(pair, 2, 4, 4)}, s32[2])"
    found = both_results(
        result, f"lapack_{letter}geev_ffi", a, compute_left=ord("V"), compute_right=ord("V")
    )
    w = found[0][1] if t.is_complex else found[0][1] + 1j * found[1][1]
    left, right = found[-3][1], found[-2][1]
    atol = 300 * np.finfo(t.np).eps
    np.testing.assert_allclose(a @ right, right * w[:, None], atol=atol)
    np.testing.assert_allclose(adjoint(left) @ a, w[:, :, None] * adjoint(left), atol=atol)
    none = both_results(
        result, f"lapack_{letter}geev_ffi", a, compute_left=ord("N"), compute_right=ord("N")
    )
    np.testing.assert_array_equal(none[0][1], found[0][1])
    assert not none[-2][1].any()


@pytest.mark.parametrize("letter", LETTERS)
def test_tridiagonal_systems(letter: str, seed: int) -> None:
    t = LETTERS[letter]
    given = [*(draw(seed + i, t, 2, 5) for i in range(3)), draw(seed + 3, t, 2, 5, 2)]
    parts = ", ".join(shape(t, *x.shape) for x in given)
    for *_, x, info in each_way(f"({parts}, s32[2])", f"lapack_{letter}gtsv_ffi", *given):
        assert info.tolist() == [0, 0]
        assert_solution(tridiagonal(*given[:3]), x, given[3])


def tridiagonal(below: Any, diagonal: Any, above: Any) -> Any:
    """Matrices of three diagonals, the first of ``below`` and the last of ``above`` left out."""
    n = diagonal.shape[-1]
    made = np.zeros((*diagonal.shape, n), diagonal.dtype)
    made[..., range(n), range(n)] = diagonal
    made[..., range(1, n), range(n - 1)] = below[..., 1:]
    made[..., range(n - 1), range(1, n)] = above[..., :-1]
    return made


def singular_systems(t: PrimitiveType) -> list[Any]:
    """Two systems: rows and columns of zeros beside a cycle of two, and zeros alone."""
    below, diagonal, above = (np.zeros((2, 4), t.np) for _ in range(3))
    b = np.arange(16).reshape(2, 4, 2).astype(t.np)
    below[0, 1], below[0, 3], above[0, 1] = 2, 1, 3
    return [below, diagonal, above, b]


@pytest.mark.parametrize("letter", LETTERS)
def test_tridiagonal_systems_that_may_be_singular(letter: str, seed: int) -> None:
    t = LETTERS[letter]
    target = "tridiagonal_solve_perturbed_ffi"
    regular = [*(draw(seed + i, t, 2, 5) for i in range(3)), draw(seed + 3, t, 2, 5, 2)]
    for x in both_results(shape(t, 2, 5, 2), target, *regular)[0]:
        assert_solution(tridiagonal(*regular[:3]), x, regular[3])
    for direct, made in both_results(shape(t, 2, 4, 2), target, *singular_systems(t)):
        np.testing.assert_allclose(made, direct, rtol=1e-5)


NOTHING: list[tuple[str, str, tuple[tuple[int, ...], ...]]] = [
    ("getrf", "(f32[0,3,3], s32[0,3], s32[0])", ((0, 3, 3),)),
    ("getrf", "(f32[2,0,3], s32[2,0], s32[2])", ((2, 0, 3),)),
    ("geqrf", "(f32[3,0], f32[0])", ((3, 0),)),
    ("orgqr", "f32[3,2]", ((3, 2), (0,))),
    ("ormqr", "f32[3,2]", ((3, 0), (0,), (3, 2))),
    ("potrf", "(f32[2,0,0], s32[2])", ((2, 0, 0),)),
    ("syevd", "(f32[2,0,0], f32[2,0], s32[2])", ((2, 0, 0),)),
    ("gesdd", "(f32[0,3], f32[0], f32[0,0], f32[3,3], s32[])", ((0, 3),)),
    ("gesdd", "(f32[3,0], f32[0], f32[3,3], f32[0,0], s32[])", ((3, 0),)),
    ("geev", "(f32[0], f32[0], c64[0,0], c64[0,0], s32[])", ((0, 0),)),
    ("gehrd", "(f32[0,3,3], f32[0,2], s32[0])", ((0, 3, 3),)),
    ("gtsv", "(f32[0,3], f32[0,3], f32[0,3], f32[0,3,2], s32[0])",
     ((0, 3), (0, 3), (0, 3), (0, 3, 2))),
    ("trsm", "f32[3,0]", ((3, 3), (3, 0))),
]  # fmt: skip


@pytest.mark.parametrize(("routine", "result", "dims"), NOTHING, ids=str)
def test_of_nothing(routine: str, result: str, dims: tuple[tuple[int, ...], ...]) -> None:
    given = [np.ones(d, np.float32) for d in dims]
    for direct, made in both_results(result, f"lapack_s{routine}_ffi", *given):
        np.testing.assert_array_equal(direct, made)


@pytest.mark.parametrize("target", ["TopK", "mhlo.topk", "chlo.top_k"])
def test_no_largest_elements_of_nothing(target: str) -> None:
    for dims, k in (((0,), 0), ((0, 4), 2), ((3,), 0)):
        shown = ",".join(map(str, (*dims[:-1], k)))
        text = (
            f"r = (f32[{shown}], s32[{shown}]) custom-call({shape(dt.F32, *dims)} x), "
            f'custom_call_target="{target}"'
        )
        assert_exact(text, 0, np.ones(dims, np.float32))


def test_the_largest_elements_by_custom_call(seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 9, (3, 20)).astype(np.float32)
    x[0, 3] = np.nan
    text = 'r = (f32[3,5], s32[3,5]) custom-call(f32[3,20] x), custom_call_target="TopK"'
    assert_exact(text, 0, x)
    text = """
    HloModule m
    gt { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)
         d = s32[] parameter(3)  ROOT p = pred[] compare(a, b), direction=GT }
    ENTRY e { x = f32[20,3] parameter(0)  i = s32[20,3] parameter(1)  y = f32[] parameter(2)
      j = s32[] parameter(3)
      ROOT r = (f32[5,3], s32[5,3]) custom-call(x, i, y, j), custom_call_target="ApproxTopK",
        called_computations={gt}, backend_config="{\\"reduction_dim\\": 0, \\"top_k\\": 5}" }
    """
    x = np.random.default_rng(seed).standard_normal((20, 3)).astype(np.float32)
    numbers = np.arange(60, dtype=np.int32).reshape(20, 3)
    assert_exact(text, 0, x, numbers, np.float32(0) + x[0, 0] * 0, np.zeros((), np.int32))


@pytest.mark.parametrize("letter", LETTERS)
def test_schur_form(letter: str, seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, 2, 4, 4)
    a[1, 0, 0] = np.nan
    matrix, row = shape(t, 2, 4, 4), shape(t, 2, 4)
    values = row if t.is_complex else f"{row}, {row}"
    found = both_results(f"({matrix}, {matrix}, {values}, s32[2], s32[2])",
                         f"lapack_{letter}gees_ffi", a)  # fmt: skip
    for number in (0, 1):
        form, q = found[0][number], found[1][number]
        atol = 300 * np.finfo(t.np).eps
        np.testing.assert_allclose(q[0] @ form[0] @ adjoint(q[0]), a[0], atol=atol)
        assert np.isnan(form[1]).all() and found[-1][number].tolist() == [0, 1]
    traces = [sum(x[number][0].sum() for x in found[2:3]) for number in (0, 1)]
    np.testing.assert_allclose(traces, np.trace(a[0]), atol=atol)


@pytest.mark.parametrize("matrix", ["bf16[3,4]", "f16[3,4]", "s32[3,4]", "f8e4m3fn[3,4]"])
def test_types_that_lapack_has_not_are_left_to_the_evaluator(matrix: str) -> None:
    element = matrix.partition("[")[0]
    text = f'r = ({matrix}, {element}[3]) custom-call({matrix} x), custom_call_target="Qr"'
    assert expand_known_target(parse_module(text).entry.root) is None
