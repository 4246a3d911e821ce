"""compare in six directions, by IEEE and by total order."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel, every_value
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import (
    BF16,
    C64,
    F8E5M2,
    F16,
    F32,
    F64,
    PRED,
    S4,
    S8,
    S32,
    U4,
    U8,
    U64,
    PrimitiveType,
)

_DIRECTIONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def compare(dtype: PrimitiveType, x: Any, y: Any, direction: str, kind: str | None = None) -> Any:
    attributes: dict[str, object] = {"direction": direction}
    if kind:
        attributes["type"] = kind
    return Kernel("compare", (dtype, dtype), PRED, attributes)(x, y)


@pytest.mark.parametrize("direction", _DIRECTIONS)
@pytest.mark.parametrize("dtype", [S4, U4, S8, U8, S32, U64, PRED], ids=str)
def test_integers(dtype: PrimitiveType, direction: str) -> None:
    if dtype.bits <= 8:
        values = every_value(dtype)
    else:
        values = np.array([0, 1, -1, 2**31 - 1, -(2**31)]).astype(dtype.np)
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    wide = [part.astype(object) for part in (x, y)]
    want = _DIRECTIONS[direction](*wide).astype(bool)
    np.testing.assert_array_equal(compare(dtype, x, y, direction), want)


@pytest.mark.parametrize("direction", _DIRECTIONS)
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, F8E5M2], ids=str)
def test_floats(dtype: PrimitiveType, direction: str) -> None:
    values = np.array([0, -0.0, 1, -1, 1.5, np.inf, -np.inf, np.nan]).astype(dtype.np)
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    want = _DIRECTIONS[direction](x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_array_equal(compare(dtype, x, y, direction), want)


@pytest.mark.parametrize("direction", _DIRECTIONS)
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, F8E5M2], ids=str)
def test_total_order(dtype: PrimitiveType, direction: str) -> None:
    ordered = [-np.nan, -np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan]
    values = np.copysign(np.array(ordered), [-1] * 5 + [1] * 5).astype(dtype.np)
    ranks = np.arange(len(values))
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    a, b = (part.ravel() for part in np.meshgrid(ranks, ranks))
    want = _DIRECTIONS[direction](a, b)
    np.testing.assert_array_equal(compare(dtype, x, y, direction, "TOTALORDER"), want)


def test_complex_equality() -> None:
    x = np.array([1 + 1j, 1 + 1j, complex(np.nan, 0), 2j]).astype(np.complex64)
    y = np.array([1 + 1j, 1 + 2j, complex(np.nan, 0), 2j]).astype(np.complex64)
    np.testing.assert_array_equal(compare(C64, x, y, "EQ"), x == y)
    np.testing.assert_array_equal(compare(C64, x, y, "NE"), x != y)


def test_complex_numbers_have_no_order() -> None:
    with pytest.raises(UnsupportedError, match="no order"):
        compare(C64, np.zeros(1), np.zeros(1), "LT")
