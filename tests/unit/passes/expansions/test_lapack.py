"""Factorisations and solvers by custom call, against their definitions or what they must fulfil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, assert_near, both_values
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

LETTERS = {"s": dt.F32, "d": dt.F64, "c": dt.C64, "z": dt.C128}


def shape(t: PrimitiveType, *dims: int) -> str:
    return f"{t}[{','.join(map(str, dims))}]"


def draw(seed: int, t: PrimitiveType, *dims: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(dims)
    return (values + 1j * rng.standard_normal(dims) if t.is_complex else values).astype(t.np)


def adjoint(x: Any) -> Any:
    return np.conj(x).swapaxes(-1, -2)


def call(result: str, target: str, *operands: str, **config: int | str) -> str:
    settings = ", ".join(
        f"{k} = {v} : ui8" if isinstance(v, int) else f"{k} = {v}" for k, v in config.items()
    )
    given = ", ".join(f"{o} x{i}" for i, o in enumerate(operands))
    return (
        f'r = {result} custom-call({given}), custom_call_target="{target}", '
        f'backend_config="{{{settings}}}"'
    )


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("letter", LETTERS)
def test_cholesky_and_triangular_systems(letter: str, uplo: str, seed: int) -> None:
    t = LETTERS[letter]
    a = draw(seed, t, 2, 5, 5)
    a = (a @ adjoint(a) + 5 * np.eye(5)).astype(t.np)
    matrix, sides = shape(t, 2, 5, 5), shape(t, 2, 5, 3)
    text = call(f"({matrix}, s32[2])", f"lapack_{letter}potrf_ffi", matrix, uplo=ord(uplo))
    assert_near(text, 0, a, eps=100)
    broken = a.copy()
    broken[1, 2, 2] = -1
    assert both_values(text, 0, broken)[1][1].tolist() == [0, 3]
    text = call(
        sides, f"lapack_{letter}trsm_ffi", matrix, sides,
        uplo=ord(uplo), side=ord("L"), trans_x=ord("C"), diag=ord("N"),
    )  # fmt: skip
    assert_near(text, 0, a, draw(seed + 1, t, 2, 5, 3), eps=300)


def test_the_largest_elements_by_custom_call(seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 9, (3, 20)).astype(np.float32)
    x[0, 3] = np.nan
    text = 'r = (f32[3,5], s32[3,5]) custom-call(f32[3,20] x), custom_call_target="TopK"'
    assert_exact(text, 0, x)
    text = """
    HloModule m
    gt { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)
         d = s32[] parameter(3)  ROOT p = pred[] compare(a, b), direction=GT }
    ENTRY e { x = f32[20,3] parameter(0)  i = s32[20,3] parameter(1)  y = f32[] parameter(2)
      j = s32[] parameter(3)
      ROOT r = (f32[5,3], s32[5,3]) custom-call(x, i, y, j), custom_call_target="ApproxTopK",
        called_computations={gt}, backend_config="{\\"reduction_dim\\": 0, \\"top_k\\": 5}" }
    """
    x = np.random.default_rng(seed).standard_normal((20, 3)).astype(np.float32)
    numbers = np.arange(60, dtype=np.int32).reshape(20, 3)
    assert_exact(text, 0, x, numbers, np.float32(0) + x[0, 0] * 0, np.zeros((), np.int32))
