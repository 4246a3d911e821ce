"""Zeros, infinities, NaN and domain ends, against the C library through NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import binary, unary
from xladev.hlo.dtype import F32, F64, PrimitiveType

_SPECIALS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e300]

_UNARY: dict[str, Callable[[Any], Any]] = {
    "exponential": np.exp,
    "exp2": np.exp2,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log-plus-one": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "power": np.power,
    "atan2": np.arctan2,
    "remainder": np.fmod,
}


def _agree(got: Any, want: Any) -> None:
    """Equal to a few ulp, zeros and infinities with their sign, NaN where NaN."""
    np.testing.assert_allclose(got, want, rtol=1e-6 if got.dtype == np.float32 else 1e-14)
    zero = want == 0
    np.testing.assert_array_equal(got[zero], 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("opcode", _UNARY)
def test_unary(opcode: str, dtype: PrimitiveType) -> None:
    with np.errstate(all="ignore"):
        x = np.array(_SPECIALS).astype(dtype.np)
        _agree(unary(opcode, dtype, x), _UNARY[opcode](x))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("opcode", _BINARY)
def test_binary(opcode: str, dtype: PrimitiveType) -> None:
    with np.errstate(all="ignore"):
        grid = np.meshgrid(*[np.array(_SPECIALS).astype(dtype.np)] * 2)
        x, y = (part.ravel() for part in grid)
        _agree(binary(opcode, dtype, x, y), _BINARY[opcode](x, y))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_logistic_and_erf(dtype: PrimitiveType) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan]).astype(dtype.np)
    np.testing.assert_array_equal(unary("logistic", dtype, x), [0.5, 0.5, 1, 0, np.nan])
    erf = unary("erf", dtype, x)
    np.testing.assert_array_equal(erf, [0, 0, 1, -1, np.nan])
    np.testing.assert_array_equal(np.signbit(erf[:2]), [False, True])


def test_subnormal_results_are_kept() -> None:
    tiny = unary("exponential", F64, np.array([-744.0, -708.5, -745.2]))
    assert tiny[0] == 1e-323 and tiny[1] > 0 and tiny[2] == 0
    assert unary("exp2", F32, np.array([-149.0], np.float32))[0] == np.float32(1e-45)
