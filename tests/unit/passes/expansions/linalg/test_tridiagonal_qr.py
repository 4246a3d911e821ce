"""Eigenvalues of tridiagonal matrices, alone and in lanes that end at different times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    REALS,
    assert_close,
    assert_unitary,
    draw,
    run,
)
from xladev.passes.expansions.linalg.tridiagonal_qr import tridiagonal_eigen


def check(d: Any, o: Any, values: Any, vectors: Any) -> None:
    whole = np.diag(d) + np.diag(o, 1) + np.diag(o, -1)
    assert_unitary(vectors.T, 30)
    wide = vectors.astype(np.float64)
    assert_close((wide.T * values @ wide).astype(d.dtype), whole.astype(np.float64), 50)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("dtype", REALS)
def test_alone(dtype: Any, n: int, seed: int) -> None:
    d, o = draw(seed, dtype, n), draw(seed + 1, dtype, n - 1)
    values, vectors, found = run(tridiagonal_eigen, d, o)
    assert found
    check(d, o, values, vectors)


@pytest.mark.parametrize("dtype", REALS)
def test_lanes_with_blocks_in_different_places(dtype: Any, seed: int) -> None:
    d, o = draw(seed, dtype, 6, 5), draw(seed + 1, dtype, 5, 5)
    o[2, 0] = o[0, 1] = o[4, 2] = 0
    o[:, 3] = 0
    values, vectors, found = run(tridiagonal_eigen, d, o)
    assert found.all()
    for lane in range(5):
        check(d[:, lane], o[:, lane], values[:, lane], vectors[:, :, lane])
