"""Singular values of stacks of small matrices in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.stacks import (
    Stacks,
    adjoint,
    integers,
    run_stack,
    target,
    together,
)
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE

REAL = pytest.mark.parametrize("letter", ["s", "d"])
CODES = {"A": 65, "S": 83, "N": 78}


def singular(s: Stacks, a: np.ndarray, mode: str = "S") -> list[np.ndarray]:
    batch, m, n = a.shape
    k = min(m, n)
    wide, high = (k, k) if mode != "N" else (m, n)
    result = together(s.shape(*a.shape), s.shape(batch, k), s.shape(batch, m, wide),
                      s.shape(batch, high, n), integers(batch))  # fmt: skip
    name = target(f"lapack_{s.letter}gesdd_ffi", f"{{mode = {CODES[mode]} : ui8}}")
    return run_stack(result, name, a)


def check(s: Stacks, a: np.ndarray, values: np.ndarray, u: np.ndarray, vt: np.ndarray) -> None:
    k = min(a.shape[1:])
    size = np.abs(a).max((1, 2))
    size = np.where(size == 0, np.ones_like(size), size)
    scaled = a / size[:, None, None]
    exact = np.linalg.svd(scaled.astype(np.float64), compute_uv=False)
    s.close(values / size[:, None], exact)
    assert (np.diff(values, axis=1) <= 0).all() and (values >= 0).all()
    s.close((u * (values / size[:, None])[:, None, :]) @ vt, scaled)
    unit = np.broadcast_to(np.eye(k), (len(a), k, k))
    s.close(adjoint(u) @ u, unit)
    s.close(vt @ adjoint(vt), unit)


@REAL
@pytest.mark.parametrize("dims", [(1, 1), (3, 3), (16, 16), (9, 4), (4, 9), (1, 5), (5, 1)])
@pytest.mark.parametrize("batch", [16, 21])
def test_random(letter: str, dims: tuple[int, int], batch: int, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(batch, *dims)
    kept, values, u, vt, info = singular(s, a)
    assert (kept == a).all() and not info.any()
    check(s, a, values, u, vt)


@REAL
@pytest.mark.parametrize("dims", [(8, 8), (10, 6), (6, 10)])
def test_special(letter: str, dims: tuple[int, int], seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(24, *dims)
    k = min(dims)
    a[0] = 0
    a[1] = np.eye(*dims)
    a[2] = 1
    a[3] *= 1e30 if letter == "s" else 1e300
    a[4] *= 1e-30 if letter == "s" else 1e-280
    a[5, :, 1] = a[5, :, 0]
    a[6, 1] = a[6, 0]
    a[7, 2:] = 0
    left, right = np.linalg.qr(s.random(dims[0], k))[0], np.linalg.qr(s.random(dims[1], k))[0]
    a[8] = (left * np.logspace(0, -15, k)) @ right.T
    a[9] = np.outer(s.random(dims[0]), s.random(dims[1]))
    a[10, :, 2:] = 0
    _, values, u, vt, info = singular(s, a)
    check(s, a, values, u, vt)
    assert not info.any()


@REAL
def test_values_alone(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(18, 5, 7)
    kept, values, u, vt, info = singular(s, a, "N")
    s.close(values, np.linalg.svd(a, compute_uv=False))
    assert (kept == a).all() and not (u.any() or vt.any() or info.any())


@REAL
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_that_is_not_finite_leaves_the_others_alone(letter: str, bad: float, seed: int) -> None:
    s = Stacks(letter, seed)
    a = s.random(20, 6, 4)
    a[3, 5, 1] = a[18, 0, 0] = bad
    _, values, u, vt, info = singular(s, a)
    broken = np.isin(np.arange(20), (3, 18))
    assert (info == np.where(broken, NOT_FINITE, 0)).all()
    for each in (values, u, vt):
        assert np.isnan(each[broken]).all()
    check(s, a[~broken], values[~broken], u[~broken], vt[~broken])
