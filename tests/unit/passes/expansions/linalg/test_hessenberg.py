"""Hessenberg and tridiagonal forms, against hlo/custom_calls and what defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    TYPES,
    assert_close,
    draw,
    hermitian,
    run,
    wide,
)
from xladev.hlo.custom_calls import reduce_matrix
from xladev.passes.expansions.linalg.hessenberg import hessenberg, tridiagonal


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", TYPES)
def test_hessenberg(dtype: Any, n: int, seed: int) -> None:
    a = draw(seed, dtype, 2, n, n)
    packed, taus = run(lambda e, a: hessenberg(e, a, 1, n), a)
    want, scales = reduce_matrix.hessenberg(wide(a), 1, n)
    assert_close(packed, want, 500)
    assert_close(taus, scales, 500)


def test_hessenberg_of_a_block(seed: int) -> None:
    a = np.triu(draw(seed, np.float64, 1, 6, 6))
    a[:, 1:5, 1:5] = draw(seed + 1, np.float64, 1, 4, 4)
    packed, taus = run(lambda e, a: hessenberg(e, a, 2, 5), a)
    want, scales = reduce_matrix.hessenberg(a, 2, 5)
    assert_close(packed, want, 500)
    assert_close(taus, scales, 500)
    assert (packed[0, 2:, 0] == 0).all() and (taus[0, [0, 4]] == 0).all()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", TYPES)
def test_tridiagonal(dtype: Any, n: int, lower: bool, seed: int) -> None:
    a = hermitian(seed, dtype, 2, n, n)
    rows, columns = np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)
    a[:, rows, columns] = 5
    found = run(lambda e, a: tridiagonal(e, a, lower=lower), a)
    want = reduce_matrix.tridiagonal(wide(a), lower=lower)
    for got, wanted in zip(found, want, strict=True):
        assert_close(got, wanted, 2000)
    assert (found[0][:, rows, columns] == 5).all()
