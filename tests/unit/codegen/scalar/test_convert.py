"""Value casts between all pairs of element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel
from xladev.hlo.dtype import (
    ARRAY_TYPES,
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    FLOATS,
    INTEGERS,
    PRED,
    S8,
    S64,
    U8,
    PrimitiveType,
)

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")

_NUMBERS = [0, 1, -1, 2, 3, -3, 7, 100, -100, 127, 128, -128, 255, 300, 65504, 2**31, 2**40]
REAL = [t for t in ARRAY_TYPES if not t.is_complex]


def limits(dtype: PrimitiveType) -> tuple[int, int]:
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def sample(dtype: PrimitiveType) -> Any:
    """Small and large numbers as values of a type, wrapped or rounded into it."""
    if dtype is PRED:
        return np.array([False, True])
    if dtype.is_integral:
        low, high = limits(dtype)
        wrapped = [(n - low) % (1 << dtype.bits) + low for n in [*_NUMBERS, low, high]]
        return np.array(wrapped).astype(dtype.np)
    with np.errstate(all="ignore"):
        return np.array([*_NUMBERS, 0.5, -0.5, 1.5, 2.75, -2.75, 1e-3, 1e9]).astype(dtype.np)


def expected(x: Any, source: PrimitiveType, target: PrimitiveType) -> Any:
    """NumPy's cast, with floats clamped into integer ranges first."""
    if source.is_float and target.is_integral:
        low, high = limits(target)
        wide = x.astype(np.float64)
        bounded = np.clip(np.nan_to_num(wide), -1e30, 1e30)
        clamped = [min(max(int(v), low), high) for v in bounded]
        return np.array(clamped, object).astype(target.np)
    if source.is_float and target is PRED:
        return x.astype(np.float64) != 0
    if source.is_float:  # ml_dtypes has no casts between f8e8m0fnu and its other types
        return (x.astype(np.float32) if source.bits < 32 else x).astype(target.np)
    if target.is_integral:
        low, _ = limits(target)
        wrapped = [(int(v) - low) % (1 << target.bits) + low for v in x]
        return np.array(wrapped, object).astype(target.np)
    if target is PRED:
        return x.astype(np.int64) != 0
    return x.astype(target.np if target in (F32, F64) else np.float32).astype(target.np)


@pytest.mark.parametrize("target", REAL, ids=str)
@pytest.mark.parametrize("source", REAL, ids=str)
def test_every_pair(source: PrimitiveType, target: PrimitiveType) -> None:
    x = sample(source)
    with np.errstate(all="ignore"):
        want = expected(x, source, target)
    got = Kernel("convert", (source,), target)(x)
    if target.is_float:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    else:
        np.testing.assert_array_equal(got.astype(object), want.astype(object))


# What XLA:CPU (jaxlib 0.10.2) gives for the same operands.
_HARD = [np.nan, np.inf, -np.inf, 1e20, -1e20, 300.7, -1.5, -0.9, 255.9, 127.5, -128.9, 8.0, -8.5]
_XLA = {
    "s8": [0, 127, -128, 127, -128, 127, -1, 0, 127, 127, -128, 8, -8],
    "u8": [0, 255, 0, 255, 0, 255, 0, 0, 255, 127, 0, 8, 0],
    "s4": [0, 7, -8, 7, -8, 7, -1, 0, 7, 7, -8, 7, -8],
    "u4": [0, 15, 0, 15, 0, 15, 0, 0, 15, 15, 0, 8, 0],
    "s2": [0, 1, -2, 1, -2, 1, -1, 0, 1, 1, -2, 1, -2],
    "u2": [0, 3, 0, 3, 0, 3, 0, 0, 3, 3, 0, 3, 0],
    "s32": [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 300, -1, 0, 255, 127, -128, 8, -8],
    "u32": [0, 2**32 - 1, 0, 2**32 - 1, 0, 300, 0, 0, 255, 127, 0, 8, 0],
    "pred": [1] * 13,
}


@pytest.mark.parametrize("name", _XLA)
@pytest.mark.parametrize("source", [F32, F64], ids=str)
def test_float_to_integer_clamps_like_xla(source: PrimitiveType, name: str) -> None:
    target = next(t for t in ARRAY_TYPES if t.name == name)
    got = Kernel("convert", (source,), target)(np.array(_HARD))
    assert [int(v) for v in got] == _XLA[name]


def test_widest_integers() -> None:
    x = np.array([1e30, -1e30, 2.0**63, -(2.0**63), 9007199254740993.0])
    got = Kernel("convert", (F64,), S64)(x)
    low, high = limits(S64)
    assert got.tolist() == [high, low, high, low, 9007199254740992]


def test_f64_to_f16_is_rounded_once() -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11 - 2.0**-40])
    np.testing.assert_array_equal(Kernel("convert", (F64,), F16)(x), x.astype(np.float16))


@pytest.mark.parametrize("part", [C64, C128], ids=str)
def test_complex(part: PrimitiveType) -> None:
    z = np.array([1 + 2j, 0j, 0 + 1j, -3.75 + 0j]).astype(part.np)
    for real in (F32, BF16, S8):
        want = z.real.astype(np.float32).astype(real.np)
        got = Kernel("convert", (part,), real)(z)
        np.testing.assert_array_equal(got.astype(object), want.astype(object))
    np.testing.assert_array_equal(Kernel("convert", (part,), PRED)(z), [True, False, True, True])
    np.testing.assert_array_equal(Kernel("convert", (S8,), part)(np.array([-3, 4])), [-3, 4])
    other = C128 if part is C64 else C64
    np.testing.assert_array_equal(Kernel("convert", (part,), other)(z), z.astype(other.np))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_to_itself_keeps_every_value(dtype: PrimitiveType) -> None:
    x = sample(dtype)
    got = Kernel("convert", (dtype,), dtype)(x)
    assert got.tobytes() == x.tobytes()


def test_bits_beyond_a_sub_byte_integer_are_ignored() -> None:
    for dtype in [t for t in INTEGERS if t.bits < 8]:
        raw = np.arange(256).astype(np.uint8)
        got = Kernel("convert", (dtype,), U8 if not dtype.is_signed else S8)(raw.view(dtype.np))
        low, _ = limits(dtype)
        want = [(int(v) - low) % (1 << dtype.bits) + low for v in raw]
        assert [int(v) for v in got] == want
