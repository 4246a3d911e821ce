"""cuSOLVER's routines: what LAPACK's give under other options, and expansions that agree."""

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
    assert_svd,
    assert_values,
    exchanged,
)
from tests.tools.rejections import assert_rejected, of
from tests.unit.hlo.custom_calls.calls import module_of_call, run_call
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import tuple_of
from xladev.passes.expansions.custom_call import expand_known_target

S32 = of("s32[2]")


def values(
    target: str, shape: Any, *operands: Any, config: str = "{}", free: tuple[int, ...] = ()
) -> Any:
    """Results of a call, and of its expansion, which agree.

    Args:
        free: numbers of the results that follow from the operands less closely, if at all: factors,
            which the caller checks by what defines them.
    """
    direct = run_call(target, shape, *operands, config=config)
    call = module_of_call(target, shape, operands, config).entry.root
    expansion = expand_known_target(call)
    assert expansion is not None
    made = HloEvaluator().call(expansion, list(operands))
    parts = (direct, made) if shape.is_tuple else ((direct,), (made,))
    for number, (one, other) in enumerate(zip(*parts, strict=True)):
        assert one.shape == other.shape
        if number not in free:
            np.testing.assert_allclose(other, one, atol=1e-4, equal_nan=True)
    return parts


def draw(seed: int, *dims: int, dtype: Any = np.complex64) -> Any:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=dims) + 1j * rng.normal(size=dims)
    return (found if np.iscomplexobj(dtype()) else found.real).astype(dtype)


@pytest.mark.parametrize("dims", [(4, 3), (3, 4)], ids=str)
@pytest.mark.parametrize("full", [True, False], ids=["full", "thin"])
@pytest.mark.parametrize("name", ["gesvd", "gesvdj", "gesvdp"])
def test_singular_values(name: str, full: bool, dims: tuple[int, int], seed: int) -> None:
    m, n = dims
    a = draw(seed, 2, m, n)
    k = min(m, n)
    rows, columns = (m, n) if full else (k, k)
    u, vt, v = of(f"c64[2,{m},{rows}]"), of(f"c64[2,{columns},{n}]"), of(f"c64[2,{n},{columns}]")
    swapped = name == "gesvd" and m < n
    vectors = (u, vt) if name == "gesvd" else (u, v)
    shape = tuple_of(
        of(f"c64[2,{m},{n}]"), of(f"f32[2,{k}]"), *vectors[:: -1 if swapped else 1], S32
    )
    transposed = f", transposed = {str(swapped).lower()}" if name == "gesvd" else ""
    config = f"{{compute_uv = true, full_matrices = {str(full).lower()}{transposed}}}"
    target = f"cusolver_{name}_ffi"
    for _, s, one, other, info in values(target, shape, a, config=config, free=(2, 3)):
        left, right = (other, one) if swapped else (one, other)
        assert_svd(a, left, s, right if name == "gesvd" else adjoint(right))
        assert info.tolist() == [0, 0]


def test_singular_values_alone(seed: int) -> None:
    a = draw(seed, 2, 4, 3)
    nothing = of("c64[]")
    shape = tuple_of(of("c64[2,4,3]"), of("f32[2,3]"), nothing, nothing, S32)
    config = "{compute_uv = false, full_matrices = false, transposed = false}"
    for _, s, *_ in values("cusolver_gesvd_ffi", shape, a, config=config):
        assert_values(s, np.linalg.svd(a, compute_uv=False), 4)


def test_eigenvalues_and_what_fails(seed: int) -> None:
    a = draw(seed, 2, 4, 4)
    a[1, 3, 0] = np.nan
    shape = tuple_of(of("c64[2,4,4]"), of("f32[2,4]"), S32)
    config = "{algorithm = 0 : ui8, lower = true}"
    half = np.tril(a[0], -1)
    whole = (half + adjoint(half) + np.diag(np.diag(a[0]).real)).astype(np.complex64)
    for vectors, w, info in values("cusolver_syevd_ffi", shape, a, config=config, free=(0,)):
        assert_eigh(whole, w[0], vectors[0])
        assert info.tolist() == [0, 1] and np.isnan(w[1]).all() and np.isnan(vectors[1]).all()
    config = "{algorithm = 0 : ui8, lower = false}"
    for *_, info in values("cusolver_syevd_ffi", shape, a, config=config, free=(0,)):
        assert info.tolist() == [0, 0]


def test_factors(seed: int) -> None:
    a = draw(seed, 2, 4, 3)
    shape = tuple_of(of("c64[2,4,3]"), of("s32[2,3]"), S32)
    for lu, pivots, _ in values("cusolver_getrf_ffi", shape, a, free=(0,)):
        assert_lu(a, lu, pivots)
        (order,) = values("cu_lu_pivots_to_permutation", of("s32[2,4]"), pivots - 1)[0]
        moved = np.take_along_axis(a, order[..., None], 1)
        np.testing.assert_array_equal(moved, exchanged(a, pivots))
    shape = tuple_of(of("c64[2,4,3]"), of("c64[2,3]"))
    for packed, taus in values("cusolver_geqrf_ffi", shape, a, free=(0, 1)):
        (q,) = values("cusolver_orgqr_ffi", of("c64[2,4,3]"), packed, taus)[0]
        assert_qr(a, packed, q)
        config = "{left = true, transpose = true}"
        (r,) = values("cusolver_ormqr_ffi", of("c64[2,4,3]"), packed, taus, a, config=config)[0]
        assert_product(r[:, :3], np.triu(packed[:, :3]))


def test_cholesky(seed: int) -> None:
    a = draw(seed, 2, 3, 3)
    a = (a @ adjoint(a) + 3 * np.eye(3)).astype(np.complex64)
    shape = tuple_of(of("c64[2,3,3]"), S32)
    for lower, _ in values("cusolver_potrf_ffi", shape, a, config="{lower = true}", free=(0,)):
        assert_product(np.tril(lower) @ adjoint(np.tril(lower)), a)


@pytest.mark.parametrize("count", [1, 2, 3, 32, 33, 70])
def test_permutations_of_many_exchanges(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = count + 5
    pivots = np.stack([rng.integers(i, rows, 2) for i in range(count)], 1).astype(np.int32)
    (found,) = values("cu_lu_pivots_to_permutation", of(f"s32[2,{rows}]"), pivots)[0]
    wanted = np.tile(np.arange(rows), (2, 1))
    for b in range(2):
        for i, other in enumerate(pivots[b]):
            wanted[b, [i, other]] = wanted[b, [other, i]]
    assert np.array_equal(found, wanted)


def test_nothing_to_exchange() -> None:
    pivots = np.zeros((2, 0), np.int32)
    (found,) = values("cu_lu_pivots_to_permutation", of("s32[2,3]"), pivots)[0]
    assert found.tolist() == [[0, 1, 2]] * 2


def test_other_types_and_dimensions_are_rejected() -> None:
    taken = tuple_of(of("bf16[3,3]"), of("s32[3]"), of("s32[]"))
    target = {"custom_call_target": "cusolver_getrf_ffi"}
    assert_rejected("custom_call_lapack3", "custom-call", "bf16[3,3]", to=taken, **target)
    target = {"custom_call_target": "cu_lu_pivots_to_permutation"}
    assert_rejected("custom_call_lapack3", "custom-call", "s32[3]", to="s32[2]", **target)
