"""Small problems side by side: the same as one at a time, however many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import TYPES, adjoint, assert_close, draw, run, wide
from xladev.hlo import dtype as dt
from xladev.passes.expansions.linalg import lanes as ln


def products(e: Any, a: Any, x: Any) -> Any:
    """A x and the rows x of each problem, through lanes."""
    rows = a.shape.dims[1]
    return ln.in_lanes(e, [a, x], rows, lambda e, v: (ln.times(e, *v), ln.row_times(e, v[1], v[0])))


@pytest.mark.parametrize(
    ("batch", "n"), [(1, 4), (3, 4), (8, 3), (40, 5), (1040, 4), (70, 64), (9, 65)], ids=str
)
def test_every_number_of_problems(batch: int, n: int, seed: int) -> None:
    a, x = draw(seed, np.float64, batch, n, n), draw(seed + 1, np.float64, batch, n)
    column, row = run(products, a, x)
    assert_close(column, (a @ x[:, :, None])[:, :, 0], 50)
    assert_close(row, (x[:, None] @ a)[:, 0], 50)


@pytest.mark.parametrize("at", [0, 2, 4, 5])
@pytest.mark.parametrize("dtype", TYPES)
def test_reflectors(dtype: Any, at: int, seed: int) -> None:
    """The vector from ``at`` on becomes one real number; beyond the end there is nothing to do."""
    x = draw(seed, dtype, 5, 3)

    def make(e: Any, x: Any) -> Any:
        return tuple(ln.reflector(e, x, e.scalar(at, dt.S32)))

    beta, tau, v = run(make, x)
    for lane in range(3):
        h = np.eye(5) - wide(tau)[lane] * np.outer(v[:, lane], np.conj(v[:, lane]))
        np.testing.assert_allclose(adjoint(h) @ h, np.eye(5), atol=20 * np.finfo(dtype).eps)
        want = np.where(np.arange(5) == at, beta[lane], 0)
        kept = np.where(np.arange(5) >= at, x[:, lane], 0)
        assert_close((adjoint(h) @ kept).astype(dtype), want, 20)


def test_tiny_vectors_are_left_alone() -> None:
    x = np.full((3, 2), 1e-30, np.float32)
    beta, tau, _ = run(lambda e, x: tuple(ln.reflector(e, x, e.scalar(0, dt.S32))), x)
    assert tau.tolist() == [0, 0] and (beta == x[0]).all()
