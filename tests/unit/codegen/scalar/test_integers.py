"""Integers of every width, against arbitrary-precision arithmetic in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel, binary, every_value, unary
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import INTEGERS, PRED, PrimitiveType


def limits(dtype: PrimitiveType) -> tuple[int, int]:
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def wrap(value: int, dtype: PrimitiveType) -> int:
    low, _ = limits(dtype)
    return ((value - low) % (1 << dtype.bits)) + low


def unsigned(value: int, dtype: PrimitiveType) -> int:
    return value % (1 << dtype.bits)


def truncating(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power(x: int, y: int, t: PrimitiveType) -> int:
    if y >= 0:
        return pow(x, y, 1 << t.bits)
    return 1 if x == 1 else (-1 if y % 2 else 1) if x == -1 else 0


_BINARY: dict[str, Callable[[int, int, PrimitiveType], int]] = {
    "add": lambda x, y, t: x + y,
    "subtract": lambda x, y, t: x - y,
    "multiply": lambda x, y, t: x * y,
    "mulhi": lambda x, y, t: (x * y) >> t.bits,
    "divide": lambda x, y, t: -1 if y == 0 else truncating(x, y),
    "remainder": lambda x, y, t: x if y == 0 else x - y * truncating(x, y),
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "power": power,
    "shift-left": lambda x, y, t: x << unsigned(y, t) if unsigned(y, t) < t.bits else 0,
    "shift-right-logical": lambda x, y, t: (
        unsigned(x, t) >> unsigned(y, t) if unsigned(y, t) < t.bits else 0
    ),
    "shift-right-arithmetic": lambda x, y, t: arithmetic_shift(x, y, t),
}


def arithmetic_shift(x: int, y: int, t: PrimitiveType) -> int:
    as_signed = unsigned(x, t) - ((unsigned(x, t) >> (t.bits - 1)) << t.bits)
    return as_signed >> min(unsigned(y, t), t.bits - 1)


_UNARY: dict[str, Callable[[int, PrimitiveType], int]] = {
    "negate": lambda x, t: -x,
    "not": lambda x, t: ~x,
    "abs": lambda x, t: abs(x),
    "sign": lambda x, t: (x > 0) - (x < 0),
    "popcnt": lambda x, t: unsigned(x, t).bit_count(),
    "count-leading-zeros": lambda x, t: t.bits - unsigned(x, t).bit_length(),
}


def sample(dtype: PrimitiveType) -> Any:
    if dtype.bits <= 8:
        return every_value(dtype)
    low, high = limits(dtype)
    edges = [0, 1, 2, 3, 7, 10, dtype.bits - 1, dtype.bits, dtype.bits + 1, high, high - 1, low]
    edges += [low + 1] + ([-1, -2, -3, -7] if dtype.is_signed else [])
    random = np.random.default_rng(0).integers(low, high, 40, dtype=dtype.np, endpoint=True)
    return np.concatenate([np.array(edges, dtype.np), random])


@pytest.mark.parametrize("opcode", _BINARY)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_binary(dtype: PrimitiveType, opcode: str) -> None:
    values = sample(dtype)
    if dtype.bits == 8:
        values = values[::5] if opcode == "power" else values[::3]
        values = np.concatenate([values, np.array([0, 127, 128, 255], np.uint8).view(dtype.np)])
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    got = binary(opcode, dtype, x, y).astype(object)
    reference = _BINARY[opcode]
    want = [wrap(reference(int(a), int(b), dtype), dtype) for a, b in zip(x, y, strict=True)]
    bad = [i for i, (a, b) in enumerate(zip(got, want, strict=True)) if int(a) != b]
    assert not bad, [(x[i], y[i], got[i], want[i]) for i in bad[:5]]


@pytest.mark.parametrize("opcode", _UNARY)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_unary(dtype: PrimitiveType, opcode: str) -> None:
    x = sample(dtype)
    got = unary(opcode, dtype, x).astype(object)
    want = [wrap(_UNARY[opcode](int(v), dtype), dtype) for v in x]
    assert [int(v) for v in got] == want


@pytest.mark.parametrize(
    ("opcode", "reference"),
    [
        ("add", np.logical_or),
        ("multiply", np.logical_and),
        ("maximum", np.logical_or),
        ("minimum", np.logical_and),
        ("and", np.logical_and),
        ("or", np.logical_or),
        ("xor", np.logical_xor),
    ],
)
def test_pred(opcode: str, reference: Callable[..., Any]) -> None:
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    np.testing.assert_array_equal(binary(opcode, PRED, x, y), reference(x, y))


def test_pred_not() -> None:
    np.testing.assert_array_equal(unary("not", PRED, np.array([True, False])), [False, True])


def test_pred_cannot_be_divided() -> None:
    with pytest.raises(UnsupportedError, match="divide"):
        Kernel("divide", (PRED, PRED), PRED)
