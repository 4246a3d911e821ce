"""Triangular and tridiagonal systems, for all types and options."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.stacks import (
    DTYPES,
    Stacks,
    adjoint,
    integers,
    run_stack,
    target,
    together,
)

pytest.importorskip("scipy")
EACH = pytest.mark.parametrize("letter", DTYPES)
TURNS: dict[str, Any] = {
    "NO_TRANSPOSE": lambda a: a,
    "TRANSPOSE": lambda a: np.swapaxes(a, -1, -2),
    "ADJOINT": adjoint,
}


@EACH
@pytest.mark.parametrize("batch", [1, 3, 20])
def test_triangular_solve_with_all_options(letter: str, batch: int, seed: int) -> None:
    s = Stacks(letter, seed)
    whole = s.random(batch, 7, 7) / 7 + 2 * np.eye(7).astype(s.dtype)
    for left, lower, unit, turn in product((True, False), (True, False), (True, False), TURNS):
        b = s.random(batch, 7, 3) if left else s.random(batch, 3, 7)
        words = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
        what = f"triangular-solve {words}, transpose_a={turn}"
        (x,) = run_stack(s.shape(*b.shape), what, whole, b)
        a = np.tril(whole) if lower else np.triu(whole)
        if unit:
            a = a * (1 - np.eye(7)) + np.eye(7)
        a = TURNS[turn](a)
        s.close(a @ x if left else x @ a, b)


@EACH
@pytest.mark.parametrize("batch", [1, 20])
def test_trsm(letter: str, batch: int, seed: int) -> None:
    s = Stacks(letter, seed)
    whole = s.random(batch, 5, 5) / 5 + 2 * np.eye(5).astype(s.dtype)
    b = s.random(batch, 2, 5)
    codes = {name: ord(x) for name, x in (("side", "R"), ("uplo", "U"), ("trans_x", "C"))}
    config = "{diag = 78 : ui8, " + ", ".join(f"{k} = {v} : ui8" for k, v in codes.items()) + "}"
    (x,) = run_stack(s.shape(batch, 2, 5), target(f"lapack_{letter}trsm_ffi", config), whole, b)
    s.close(x @ adjoint(np.triu(whole)), b)


@pytest.mark.parametrize("batch", [1, 20])
def test_a_zero_on_the_diagonal_gives_infinities(batch: int) -> None:
    a = np.broadcast_to(np.diag([1.0, 0.0, 2.0]), (batch, 3, 3)).copy()
    b = np.ones((batch, 3, 1))
    words = "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"
    (x,) = run_stack(f"f64[{batch},3,1]", f"triangular-solve {words}", a, b)
    assert np.isinf(x[:, 1]).all() and (x[:, 0] == 1).all()


@EACH
def test_gtsv(letter: str, seed: int) -> None:
    s = Stacks(letter, seed)
    below, diagonal, above = (s.random(2, 9) for _ in range(3))
    b = s.random(2, 9, 4)
    diagonal[1] = 0
    below[1], above[1] = 0, 0
    vector = s.shape(2, 9)
    result = together(vector, vector, vector, s.shape(2, 9, 4), integers(2))
    name = target(f"lapack_{letter}gtsv_ffi")
    *_, x, info = run_stack(result, name, below, diagonal, above, b)
    whole = np.diag(diagonal[0]) + np.diag(below[0, 1:], -1) + np.diag(above[0, :-1], 1)
    s.close(whole @ x[0], b[0])
    assert info.tolist() == [0, 1]
