"""LU, QR, eigenvalues and singular values by cuSOLVER on ``cuda_emu``, against the evaluator.

Factors are checked by what they multiply to, as `tests.tools.factors` says.
"""

import numpy as np
import pytest

from tests.tools.factors import (
    adjoint,
    assert_eigh,
    assert_lu,
    assert_qr,
    assert_svd,
    assert_values,
)
from tests.tools.single_op import shape_of
from tests.unit.hlo.custom_calls.calls import module_of_call
from tests.unit.platforms.cuda.libraries.behaviour.test_library_programs import called
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import array, tuple_of
from xladev.hlo.text import parse_module, print_module
from xladev.passes.default import default_pipeline
from xladev.platforms.cuda.libraries.calls import Cholesky, TriangularSolve
from xladev.platforms.cuda.libraries.rules import LibraryCalls
from xladev.platforms.cuda.libraries.solver_calls import (
    Eigenvectors,
    LuFactorsCall,
    QMatrix,
    QProduct,
    QrFactors,
    SingularValues,
)

STRICT = CompileOptions(strict=True)
LETTERS = {"s": dt.F32, "d": dt.F64, "c": dt.C64, "z": dt.C128}
EACH = pytest.mark.parametrize("letter", LETTERS)
MATRICES = pytest.mark.parametrize(
    ("letter", "batch", "dims"),
    [
        ("s", (3,), (5, 3)), ("d", (), (3, 5)), ("c", (2, 2), (4, 4)), ("z", (2,), (3, 5)),
        ("c", (2,), (5, 3)), ("s", (2,), (1, 6)), ("z", (), (6, 1)),
    ],
    ids=str,
)  # fmt: skip


def draw(t, *dims, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=dims)
    return (values + 1j * rng.normal(size=dims) if t.is_complex else values).astype(t.np)


def values(emulated, target, shape, *given, config="{}", free=()):
    """Results on the device, which agree with the evaluator's.

    Args:
        free: numbers of the results that follow from the matrices less closely than within some
            units in the last place, if at all. The caller checks what defines them.
    """
    module = module_of_call(target, shape, given, config)
    with np.errstate(all="ignore"):
        wanted = HloEvaluator().run(module, *given)
    found = client.compile(module, emulated, STRICT)(*given)
    parts = (found, wanted) if shape.is_tuple else ((found,), (wanted,))
    for number, pair in enumerate(zip(*parts, strict=True)):
        one, other = map(np.asarray, pair)
        assert one.shape == other.shape and one.dtype == other.dtype
        if other.dtype.kind not in "fc":
            np.testing.assert_array_equal(one, other)
            continue
        assert np.array_equal(np.isnan(one), np.isnan(other))
        if number not in free:
            close(one, other, one.dtype)
    return [np.asarray(x) for x in parts[0]]


def close(found, wanted, dtype):
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    unit = float(np.finfo(dtype).eps) * float(largest)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=500 * unit, equal_nan=True)


FACTORS = (0, 1)
"""The results of QR's routines; those of LU's are FACTORS[:1], the pivots being comparable."""
VECTORS = (0,)
BASES = (2, 3)
"""Where eigenvectors and singular vectors stand."""


def kinds(target, shape, *given, config="{}"):
    """The kinds of the library calls that a custom call becomes."""
    return [type(c) for c in called(print_module(module_of_call(target, shape, given, config)))]


def info(batch):
    return array(dt.S32, batch)


@MATRICES
def test_factors(letter, batch, dims, emulated):
    t, (m, n), k = LETTERS[letter], dims, min(dims)
    a = draw(t, *batch, m, n)
    lu_shape = tuple_of(shape_of(a), array(dt.S32, (*batch, k)), info(batch))
    for target in (f"lapack_{letter}getrf_ffi", "cusolver_getrf_ffi"):
        assert kinds(target, lu_shape, a) == [LuFactorsCall]
    packed, pivots, _ = values(emulated, target, lu_shape, a, free=FACTORS[:1])
    assert_lu(a, packed, pivots)
    qr_shape = tuple_of(shape_of(a), array(t, (*batch, k)))
    for target in (f"lapack_{letter}geqrf_ffi", "cusolver_geqrf_ffi", "Qr"):
        assert kinds(target, qr_shape, a) == [QrFactors]
    packed, scales = values(emulated, target, qr_shape, a, free=FACTORS)
    thin = np.ascontiguousarray(packed[..., :k])
    routine = "ungqr" if t.is_complex else "orgqr"
    for target in (f"lapack_{letter}{routine}_ffi", "cusolver_orgqr_ffi"):
        assert kinds(target, shape_of(thin), thin, scales) == [QMatrix]
    (q,) = values(emulated, target, shape_of(thin), thin, scales)
    assert_qr(a, packed, q)


@pytest.mark.parametrize("letter", "dz")
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("transpose", [True, False], ids=["adjoint", "plain"])
def test_products_with_q(letter, left, transpose, emulated):
    t = LETTERS[letter]
    qr_shape = tuple_of(array(t, (2, 5, 3)), array(t, (2, 3)))
    packed, scales = values(emulated, "Qr", qr_shape, draw(t, 2, 5, 3), free=FACTORS)
    c = draw(t, *((2, 5, 4) if left else (2, 4, 5)), seed=1)
    routine = "unmqr" if t.is_complex else "ormqr"
    config = f"{{left = {str(left).lower()}, transpose = {str(transpose).lower()}}}"
    for target in (f"lapack_{letter}{routine}_ffi", "cusolver_ormqr_ffi"):
        given = (packed, scales, c)
        assert kinds(target, shape_of(c), *given, config=config) == [QProduct]
    values(emulated, target, shape_of(c), *given, config=config)


def whole(a, lower):
    """The Hermitian matrices one of whose triangles ``a`` has."""
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    diagonal = np.einsum("...ii->...i", a).real[..., None] * np.eye(a.shape[-1])
    return (half + adjoint(half) + diagonal).astype(a.dtype)


@pytest.mark.parametrize(("letter", "batch"), [("s", ()), ("d", (2, 2)), ("c", (3,)), ("z", ())])
@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
def test_eigenvalues(letter, batch, lower, emulated):
    t = LETTERS[letter]
    a = draw(t, *batch, 5, 5)
    shape = tuple_of(shape_of(a), array(t.component, (*batch, 5)), info(batch))
    uplo = f"{{mode = 86 : ui8, uplo = {ord('L' if lower else 'U')} : ui8}}"
    target = f"lapack_{letter}{'heevd' if t.is_complex else 'syevd'}_ffi"
    assert kinds(target, shape, a, config=uplo) == [Eigenvectors]
    config = f"{{algorithm = 0 : ui8, lower = {str(lower).lower()}}}"
    vectors, w, _ = values(emulated, "cusolver_syevd_ffi", shape, a, config=config, free=VECTORS)
    assert_eigh(whole(a, lower), w, vectors)
    parts = tuple_of(*shape.tuple_shapes[:2])
    assert kinds("Eigh", parts, a, config=f"{int(lower)},1,100,1e-6") == [Eigenvectors]


def svd_shape(t, batch, m, n, full):
    k = min(m, n)
    rows, columns = (m, n) if full else (k, k)
    return tuple_of(
        array(t, (*batch, m, n)), array(t.component, (*batch, k)),
        array(t, (*batch, m, rows)), array(t, (*batch, columns, n)), info(batch),
    )  # fmt: skip


@MATRICES
@pytest.mark.parametrize("mode", "ASN")
def test_singular_values(letter, batch, dims, mode, emulated):
    t, (m, n) = LETTERS[letter], dims
    a = draw(t, *batch, m, n)
    shape = svd_shape(t, batch, m, n, mode == "A")
    target, config = f"lapack_{letter}gesdd_ffi", f"{{mode = {ord(mode)} : ui8}}"
    assert kinds(target, shape, a, config=config) == [SingularValues]
    same, s, u, vt, _ = values(emulated, target, shape, a, config=config, free=BASES)
    assert np.array_equal(same, a)
    if mode == "N":
        assert_values(s, np.linalg.svd(a, compute_uv=False), max(dims))
    else:
        assert_svd(a, u, s, vt)


LARGE = "xladev.platforms.cuda.libraries.factorisations.JACOBI_SVD"


@MATRICES
@pytest.mark.parametrize("full", [True, False], ids=["full", "thin"])
def test_singular_values_by_qr_steps(letter, batch, dims, full, emulated, monkeypatch):
    """As matrices of more than 1,024 rows or columns are decomposed."""
    monkeypatch.setattr(LARGE, 0)
    monkeypatch.setattr(LARGE.replace("SVD", "BATCH"), 0)
    t, (m, n) = LETTERS[letter], dims
    a = draw(t, *batch, m, n)
    config = f"{{compute_uv = true, full_matrices = {str(full).lower()}, transposed = false}}"
    shape = svd_shape(t, batch, m, n, full)
    _, s, u, vt, _ = values(emulated, "cusolver_gesvd_ffi", shape, a, config=config, free=BASES)
    assert_svd(a, u, s, vt)


@pytest.mark.parametrize("dims", [(5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("full", ["true", "false"])
@pytest.mark.parametrize("name", ["gesvdj", "gesvdp", "gesvd"])
def test_singular_values_as_jax_asks_on_gpus(name, full, dims, emulated):
    m, n = dims
    a = draw(dt.C64, 2, m, n)
    _, s, u, vt, _ = svd_shape(dt.C64, (2,), m, n, full == "true").tuple_shapes
    v = array(dt.C64, (2, n, vt.dims[1]))
    swapped = name == "gesvd" and m < n
    vectors = (u, v) if name != "gesvd" else (vt, u) if swapped else (u, vt)
    shape = tuple_of(shape_of(a), s, *vectors, info((2,)))
    extra = f", transposed = {str(swapped).lower()}" if name == "gesvd" else ""
    config = f"{{compute_uv = true, full_matrices = {full}{extra}}}"
    target = f"cusolver_{name}_ffi"
    _, s, one, other, _ = values(emulated, target, shape, a, config=config, free=BASES)
    left, right = (other, one) if swapped else (one, other)
    right = right if name == "gesvd" else adjoint(right)
    assert_svd(a, left, s, right)


METHODS = [((2, 40, 33), "gesvdj"), ((40, 33), "gesvdj"), ((2, 30, 32), "gesvdjBatched")]


@pytest.mark.parametrize(("dims", "method"), METHODS, ids=str)
def test_how_singular_values_are_found(dims, method, emulated):
    a = draw(dt.F64, *dims)
    *batch, m, n = dims
    shape = svd_shape(dt.F64, batch, m, n, False)
    config = "{mode = 83 : ui8}"
    (call,) = called(print_module(module_of_call("lapack_dgesdd_ffi", shape, (a,), config)))
    assert call.method == method
    _, s, u, vt, _ = values(emulated, "lapack_dgesdd_ffi", shape, a, config=config, free=BASES)
    assert_svd(a, u, s, vt)


@pytest.mark.parametrize(("dims", "method"), [((2, 33, 33), "syevd"), ((2, 32, 32), "syevjBatched"),
                                              ((8, 8), "syevd")], ids=str)  # fmt: skip
def test_how_eigenvalues_are_found(dims, method, emulated):
    a = draw(dt.C128, *dims)
    shape = tuple_of(shape_of(a), array(dt.F64, dims[:-1]), info(dims[:-2]))
    config = "{uplo = 76 : ui8}"
    (call,) = called(print_module(module_of_call("lapack_zheevd_ffi", shape, (a,), config)))
    assert call.method == method
    vectors, w, _ = values(emulated, "lapack_zheevd_ffi", shape, a, config=config, free=VECTORS)
    assert_eigh(whole(a, lower=True), w, vectors)


@EACH
@pytest.mark.parametrize("uplo", "LU")
def test_cholesky_and_triangular_systems(letter, uplo, emulated):
    t = LETTERS[letter]
    a = draw(t, 3, 4, 4)
    a = (a @ adjoint(a) + 4 * np.eye(4)).astype(t.np)
    a[1, 2, 2] = -1
    shape = tuple_of(shape_of(a), info((3,)))
    config = f"{{uplo = {ord(uplo)} : ui8}}"
    target = f"lapack_{letter}potrf_ffi"
    assert kinds(target, shape, a, config=config) == [Cholesky]
    good = np.delete(a, 1, axis=0)
    values(emulated, target, tuple_of(shape_of(good), info((2,))), good, config=config)
    module = module_of_call(target, shape, (a,), config)
    assert np.asarray(client.compile(module, emulated, STRICT)(a)[1]).tolist() == [0, 3, 0]
    b = draw(t, 2, 4, 3, seed=1)
    config = f"{{uplo = {ord(uplo)} : ui8, side = 76 : ui8, trans_x = 67 : ui8, diag = 78 : ui8}}"
    target = f"lapack_{letter}trsm_ffi"
    assert kinds(target, shape_of(b), good, b, config=config) == [TriangularSolve]
    values(emulated, target, shape_of(b), good, b, config=config)


@pytest.mark.parametrize(("rows", "batch"), [(3, ()), (6, (2, 2)), (40, (2,))])
def test_permutations_of_factors(rows, batch, emulated):
    a = draw(dt.F32, *batch, rows, 4)
    k = min(rows, 4)
    shape = tuple_of(shape_of(a), array(dt.S32, (*batch, k)), array(dt.S32, (*batch, rows)))
    pivots = values(emulated, "LuDecomposition", shape, a, free=FACTORS[:1])[1]
    values(emulated, "cu_lu_pivots_to_permutation", array(dt.S32, (*batch, rows)), pivots)


@pytest.mark.parametrize("bad", [np.nan, -np.inf], ids=str)
@pytest.mark.parametrize("order", [4, 40])
def test_what_is_not_finite_gives_nan(bad, order, emulated):
    """One matrix of a batch; the others have their values."""
    a = draw(dt.F32, 3, order, order)
    a[1, 2, 1] = bad
    shape = tuple_of(shape_of(a), array(dt.F32, (3, order)), info((3,)))
    config = "{uplo = 76 : ui8}"
    vectors, w, failed = values(
        emulated, "lapack_ssyevd_ffi", shape, a, config=config, free=VECTORS
    )
    assert failed.tolist() == [0, 1, 0]
    assert np.isnan(w).all(1).tolist() == [False, True, False]
    assert_eigh(whole(a[::2], lower=True), w[::2], vectors[::2])
    shape = svd_shape(dt.F32, (3,), order, order, True)
    config = "{mode = 65 : ui8}"
    _, s, u, vt, failed = values(emulated, "lapack_sgesdd_ffi", shape, a, config=config, free=BASES)
    assert failed.tolist() == [0, 1, 0]
    assert_svd(a[::2], u[::2], s[::2], vt[::2])


def test_only_one_triangle_is_read(emulated):
    a = draw(dt.C64, 2, 4, 4)
    a[:, 0, 3] = np.nan
    shape = tuple_of(shape_of(a), array(dt.F32, (2, 4)), info((2,)))
    config = "{uplo = 76 : ui8}"
    vectors, w, failed = values(
        emulated, "lapack_cheevd_ffi", shape, a, config=config, free=VECTORS
    )
    assert failed.tolist() == [0, 0]
    assert_eigh(whole(a, lower=True), w, vectors)


def test_singular_matrices_have_factors(emulated):
    a = np.stack([np.ones((3, 3)), np.zeros((3, 3)), np.full((3, 3), np.nan)])
    shape = tuple_of(shape_of(a), array(dt.S32, (3, 3)), info((3,)))
    found = values(emulated, "lapack_dgetrf_ffi", shape, a)
    assert found[2].tolist()[:2] == [2, 1]


@pytest.mark.parametrize("dims", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_nothing_is_left_to_expansions(dims, emulated):
    a = np.zeros((2, *dims), np.float32)
    shape = tuple_of(shape_of(a), array(dt.F32, (2, 0)))
    assert kinds("Qr", shape, a) == []
    values(emulated, "Qr", shape, a)
    full = svd_shape(dt.F32, (2,), *dims, True)
    values(emulated, "lapack_sgesdd_ffi", full, a, config="{mode = 65 : ui8}")


def test_column_major_layouts_mean_nothing(emulated):
    """As JAX declares them."""
    text = """ENTRY e {
  a = f32[2,4,3]{2,1,0} parameter(0)
  q = (f32[2,4,3]{1,2,0}, f32[2,3]{1,0}) custom-call(a), custom_call_target="cusolver_geqrf_ffi",
    operand_layout_constraints={f32[2,4,3]{1,2,0}}, backend_config="{}"
  p = f32[2,4,3]{1,2,0} get-tuple-element(q), index=0
  t = f32[2,3]{1,0} get-tuple-element(q), index=1
  ROOT r = f32[2,4,3]{1,2,0} custom-call(p, t), custom_call_target="cusolver_orgqr_ffi",
    operand_layout_constraints={f32[2,4,3]{1,2,0}, f32[2,3]{1,0}}, backend_config="{}"
}"""
    module = parse_module(text)
    a = draw(dt.F32, 2, 4, 3)
    found = np.asarray(client.compile(module, emulated, STRICT)(a))
    close(found, np.asarray(HloEvaluator().run(module, a)), np.float32)


def test_factors_go_to_q_without_transposes():
    """What geqrf stored column-major, orgqr reads as it is."""
    text = """ENTRY e {
  a = f32[4,3] parameter(0)
  q = (f32[4,3], f32[3]) custom-call(a), custom_call_target="Qr"
  p = f32[4,3] get-tuple-element(q), index=0
  t = f32[3] get-tuple-element(q), index=1
  ROOT r = f32[4,3] custom-call(p, t),
    custom_call_target="ProductOfElementaryHouseholderReflectors"
}"""
    module = LibraryCalls().run(default_pipeline().run(parse_module(text)))
    assert [i.opcode for i in module.entry.instructions].count("transpose") == 2


@pytest.mark.parametrize(
    ("target", "dims"), [("lapack_ssyevd_ffi", (2, 4)), ("cusolver_sytrd_ffi", (3, 3))]
)
def test_what_the_library_has_not_is_expanded(target, dims):
    a = np.zeros(dims, np.float32)
    scales = array(dt.F32, dims[:1])
    shape = tuple_of(shape_of(a), scales, info(()))
    assert kinds(target, shape, a, config="{lower = true}") == []


def test_a_program_with_eigenvalues_runs_again_and_again(emulated):
    """It is not recorded as a graph, and says so once."""
    a = draw(dt.F32, 2, 4, 4)
    shape = tuple_of(shape_of(a), array(dt.F32, (2, 4)), info((2,)))
    module = module_of_call("lapack_ssyevd_ffi", shape, (a,), "{uplo = 76 : ui8}")
    compiled = client.compile(module, emulated, STRICT)
    found = [np.asarray(compiled(a)[1]) for _ in range(4)]
    assert all(np.array_equal(found[0], f) for f in found)
