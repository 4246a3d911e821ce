"""Singular values of bidiagonal matrices, some with zeros on the diagonal."""

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
from xladev.passes.expansions.linalg import bidiagonal_qr
from xladev.passes.expansions.linalg.bidiagonal_qr import bidiagonal_singular


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("zeros", [(), (0,), (1,), (-1,), (0, -1)], ids=str)
@pytest.mark.parametrize("dtype", REALS)
def test_zeros_on_the_diagonal(dtype: Any, zeros: tuple[int, ...], n: int, seed: int) -> None:
    d, f = draw(seed, dtype, n), draw(seed + 1, dtype, n - 1)
    d[list(zeros)] = 0
    s, pairs, found = run(lambda e, d, f: tuple(bidiagonal_singular(e, d, f, vectors=True)), d, f)
    assert found
    whole = np.diag(d.astype(np.float64)) + np.diag(f.astype(np.float64), 1)
    right, left = pairs[:, 0], pairs[:, 1]
    assert_unitary(right.T, 20)
    assert_unitary(left.T, 20)
    assert_close((left.T.astype(np.float64) * s @ right).astype(dtype), whole, 40)


def test_a_zero_on_the_diagonal_falls_off_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """14 steps; 36 if a shift keeps the zero where it is."""
    monkeypatch.setattr(bidiagonal_qr, "MAX_SWEEPS_PER_ROW", 20 / 8)
    d, f = draw(898, np.float64, 8), draw(899, np.float64, 7)
    d[3] = 0
    *_, found = run(lambda e, d, f: tuple(bidiagonal_singular(e, d, f, vectors=True)), d, f)
    assert found
