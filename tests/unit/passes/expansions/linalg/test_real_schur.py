"""Real Schur forms: what defines them, on random, special and defective matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    REALS,
    assert_close,
    assert_unitary,
    draw,
    instructions,
    run,
    wide,
)
from xladev.passes.expansions.linalg.real_schur import block_eigenvalues, real_schur


def form(e: Any, a: Any) -> Any:
    found = real_schur(e, a)
    return [*found, *block_eigenvalues(e, found.t)]


def check(a: Any, eps: float = 60) -> None:
    t, qh, info, real, imaginary = run(form, a)
    n = a.shape[1]
    assert not info.any() and (np.tril(t, -2) == 0).all()
    assert_unitary(qh, eps)
    assert_close((wide(qh).swapaxes(1, 2) @ wide(t) @ wide(qh)).astype(a.dtype), a, eps)
    for i, k in np.argwhere(np.diagonal(t, -1, 1, 2)):
        assert k + 2 == n or t[i, k + 2, k + 1] == 0
        assert t[i, k, k] == t[i, k + 1, k + 1]
        assert t[i, k, k + 1] * t[i, k + 1, k] < 0
        assert imaginary[i, k] == -imaginary[i, k + 1] > 0
    assert_close(real.sum(1), np.trace(wide(a), axis1=1, axis2=2), 1000 * eps)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("dtype", REALS)
def test_random(dtype: Any, n: int, seed: int) -> None:
    check(draw(seed, dtype, 2, n, n))


def test_special_and_defective() -> None:
    jordan = np.diag(np.ones(4), 1)
    check(np.stack(
        [jordan, jordan.T, jordan + 3 * np.eye(5), np.eye(5), np.ones((5, 5)), np.zeros((5, 5)),
         np.roll(np.eye(5), 1, 0), np.kron(np.eye(3), [[0, 1], [-1, 0]])[:5, :5]]
    ))  # fmt: skip


def test_the_program_does_not_grow_with_the_matrix() -> None:
    assert instructions(form, 1, 1000, 1000) < 1200
