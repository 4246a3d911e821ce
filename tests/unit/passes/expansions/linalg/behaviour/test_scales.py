"""Decompositions of matrices near the ends of their type's range: no square leaves it on the way.

Each must give back the matrix it was given. In long double, where nothing leaves the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import TYPES, adjoint, assert_unitary, draw, run
from xladev.hlo.custom_calls import factor
from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.linalg.eig import general_eigen
from xladev.passes.expansions.linalg.eigh import hermitian_eigen
from xladev.passes.expansions.linalg.hessenberg import tridiagonal
from xladev.passes.expansions.linalg.lu import lu_factor
from xladev.passes.expansions.linalg.matrices import Value
from xladev.passes.expansions.linalg.pivoted_qr import pivoted_qr_factor
from xladev.passes.expansions.linalg.qr import householder_product, qr_factor
from xladev.passes.expansions.linalg.svd import singular_values

N = 4


def _sizes(dtype: Any) -> tuple[float, float]:
    return (1e-30, 1e30) if np.finfo(dtype).bits == 32 else (1e-300, 1e300)


CASES = [(dtype, size) for dtype in TYPES for size in _sizes(dtype)]
"""What squares make zero or infinite."""


def long(a: Any) -> Any:
    return a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)


def product(*factors: Any) -> Any:
    """Of stacks; ``matmul`` has no long doubles for complex numbers."""
    result = long(factors[0])
    for one in factors[1:]:
        result = (result[:, :, :, None] * long(one)[:, None, :, :]).sum(2)
    return result


def assert_same(got: Any, want: Any, dtype: Any) -> None:
    """Within 200 epsilons of the largest element of each matrix; infinities and NaN never are."""
    for one, other in zip(got, long(want), strict=True):
        off = np.abs(one - other).max() / np.abs(other).max()
        assert off <= 200 * np.finfo(dtype).eps, f"{off} off"


@pytest.fixture(params=CASES, ids=str)
def a(request: pytest.FixtureRequest, seed: int) -> Any:
    dtype, size = request.param
    return (draw(seed, np.result_type(dtype, np.float64), 2, N, N) * size).astype(dtype)


def test_qr(a: Any) -> None:
    packed, taus = run(qr_factor, a)
    (q,) = run(lambda e, p, t: [householder_product(e, p, t)], packed, taus)
    assert_unitary(q, 100)
    assert_same(product(q, np.triu(packed)), a, a.dtype)
    want, scales = factor.qr_factor(a)
    assert_same(packed, want, a.dtype)
    np.testing.assert_allclose(taus, scales, atol=200 * np.finfo(a.dtype).eps)


def test_pivoted_qr(a: Any) -> None:
    fixed = np.zeros((2, N), np.int32)
    packed, order, taus = run(pivoted_qr_factor, a, fixed)
    (q,) = run(lambda e, p, t: [householder_product(e, p, t)], packed, taus)
    assert_same(product(q, np.triu(packed)), np.take_along_axis(a, order[:, None, :], 2), a.dtype)
    np.testing.assert_array_equal(order + 1, factor.pivoted_qr_factor(a, fixed)[1])


def test_singular_values(a: Any) -> None:
    def found(e: Emitter, a: Value) -> Sequence[Value | None]:
        return singular_values(e, a, vectors=True, full=True)[:3]

    s, u, vt = run(found, a)
    assert_unitary(u, 100)
    assert_same(product(u, long(s)[:, :, None] * vt), a, a.dtype)


def test_hermitian_eigenvalues(a: Any) -> None:
    h = a / 4 + adjoint(a / 4)
    values, vectors = run(lambda e, a: hermitian_eigen(e, a, lower=True)[:2], h)
    assert_unitary(vectors, 100)
    assert_same(product(vectors, long(values)[:, :, None] * adjoint(vectors)), h, a.dtype)


def test_general_eigenvalues(a: Any) -> None:
    values, vectors, info = run(lambda e, a: _right(general_eigen(e, a, left=False, right=True)), a)
    assert not info.any()
    assert_same(product(a, vectors), long(vectors) * long(values)[:, None, :], a.dtype)


def _right(found: Any) -> Sequence[Value]:
    return found.values, found.right, found.info


def test_tridiagonal_form(a: Any) -> None:
    h = a / 4 + adjoint(a / 4)
    _, diagonal, off, _ = run(lambda e, a: tridiagonal(e, a, lower=True), h)
    # what a unitary change of basis keeps
    squares = (long(diagonal) ** 2).sum(1) + 2 * (long(off) ** 2).sum(1)
    want = (np.abs(long(h)) ** 2).sum((1, 2))
    assert_same(np.sqrt(squares)[:, None], np.sqrt(want)[:, None], a.dtype)


def test_lu(a: Any) -> None:
    packed, order = run(lambda e, a: lu_factor(e, a)[::2], a)
    lower = np.tril(packed, -1) + np.eye(N, dtype=a.dtype)
    want = np.take_along_axis(a, order[:, :, None], 1)
    assert_same(product(lower, np.triu(packed)), want, a.dtype)


@pytest.mark.parametrize("tail", [5e-34, 1e-45])
def test_a_column_that_is_all_but_zero_is_reflected(tail: float) -> None:
    a = np.array([[[4], [tail]], [[-4], [tail]], [[4e30], [tail]]], np.float32)
    packed, taus = run(qr_factor, a)
    np.testing.assert_array_equal(packed[:, 0, 0], np.array([-4, 4, -4e30], np.float32))
    np.testing.assert_array_equal(taus[:, 0], 2)
    np.testing.assert_array_equal(packed, factor.qr_factor(a.astype(np.float64))[0].astype("f4"))


@pytest.mark.parametrize("dtype", TYPES)
def test_denormal_numbers_and_the_largest(dtype: Any) -> None:
    limits = np.finfo(dtype)
    least, most = limits.smallest_subnormal, limits.max
    a = np.array([[[3 * least], [4 * least]], [[most / 2], [most / 2]]], dtype)
    a = np.concatenate([a, np.array([[[most], [0]]], dtype)])
    packed, _ = run(qr_factor, a)
    lengths = np.array([5 * least, most * np.sqrt(0.5), most])
    np.testing.assert_allclose(np.abs(packed[:, 0, 0]), lengths, rtol=8 * limits.eps)


def test_real_pairs_of_eigenvalues_near_the_largest_number() -> None:
    a = np.array([[[1.5e308, 0], [0, -1.2e308]]])
    (values,) = run(lambda e, a: [general_eigen(e, a, left=False, right=False).values], a)
    np.testing.assert_allclose(np.sort(values.real[0]), [-1.2e308, 1.5e308])
