"""Singular values and vectors: what defines them, to a few units in the last place."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    TYPES,
    adjoint,
    assert_close,
    assert_unitary,
    draw,
    instructions,
    run,
    wide,
)
from xladev.passes.expansions.linalg import svd
from xladev.passes.expansions.linalg.bidiagonal_qr import BidiagonalSingular, bidiagonal_singular
from xladev.passes.expansions.linalg.svd import singular_values


def full(e: Any, a: Any) -> Any:
    return singular_values(e, a, vectors=True, full=True)


def thin(e: Any, a: Any) -> Any:
    return singular_values(e, a, vectors=True, full=False)


def values_only(e: Any, a: Any) -> Any:
    return singular_values(e, a, vectors=False, full=True)


def check(make: Any, a: Any, eps: float = 25) -> None:
    s, u, vt, good = run(make, a)
    k = min(a.shape[1:])
    tall, long = (a.shape[1], a.shape[2]) if make is full else (k, k)
    assert u.shape[1:] == (a.shape[1], tall) and vt.shape[1:] == (long, a.shape[2])
    assert_close(s, np.linalg.svd(wide(a), compute_uv=False), eps)
    assert (np.diff(s, axis=1) <= 0).all() and (s >= 0).all() and good.all()
    assert_unitary(u, eps)
    assert_unitary(adjoint(vt), eps)
    rebuilt = (wide(u)[:, :, :k] * s[:, None]) @ wide(vt)[:, :k]
    assert_close(rebuilt.astype(a.dtype), a, eps)
    (alone, _) = run(values_only, a)
    assert_close(alone, s, eps)


@pytest.mark.parametrize("make", [full, thin])
@pytest.mark.parametrize("dims", [(1, 1), (5, 3), (3, 5), (4, 4), (1, 4)], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_random(dtype: Any, dims: tuple[int, int], make: Any, seed: int) -> None:
    check(make, draw(seed, dtype, 2, *dims))


SPECIAL = np.stack(
    [np.eye(5), np.ones((5, 5)), np.zeros((5, 5)), np.diag([3.0, 1, 2, 0, 1]),
     np.outer(np.arange(5.0), np.arange(5.0) + 1)]
)  # fmt: skip


@pytest.mark.parametrize("scale", [1, 1e-30, 1e30])
@pytest.mark.parametrize("rows", [3, 5])
def test_rank_deficient_and_scaled(rows: int, scale: float) -> None:
    check(full, (SPECIAL[:, :rows] * scale).astype(np.float32))


def test_low_rank(seed: int) -> None:
    a = draw(seed, np.float64, 1, 9, 2) @ draw(seed + 1, np.float64, 1, 2, 7)
    check(full, a.astype(np.float32))


def test_bad_matrices_fail_alone(seed: int) -> None:
    a = draw(seed, np.float64, 2, 4, 3)
    a[1, 2, 1] = np.nan
    s, u, vt, good = run(full, a)
    assert good.tolist() == [True, False]
    assert all(np.isnan(x[1]).all() for x in (s, u, vt))
    assert_close(s[:1], np.linalg.svd(a[:1], compute_uv=False), 20)


def test_nothing_is_sought_in_matrices_that_are_not_finite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps through NaN end only at the limit, which zeros do not come near."""
    found: list[Any] = []

    def watched(e: Any, d: Any, f: Any, *, vectors: bool) -> BidiagonalSingular:
        found.append(bidiagonal_singular(e, d, f, vectors=vectors))
        return cast(BidiagonalSingular, found[-1])

    monkeypatch.setattr(svd, "bidiagonal_singular", watched)
    a = np.ones((1, 4, 4))
    a[0, 2, 1] = np.nan
    *_, good, ended = run(lambda e, a: (*full(e, a), found[-1].found), a)
    assert not good and ended


def test_the_program_does_not_grow_with_the_matrix() -> None:
    assert instructions(full, 1, 1000, 1000) == instructions(full, 1, 500, 500) < 900
    assert instructions(full, 1, 100, 100) == instructions(full, 1, 10, 10) < 700
