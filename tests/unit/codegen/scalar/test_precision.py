"""reduce-precision against casts to real formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.codegen.jit import every_value, unary
from xladev.errors import CompileError
from xladev.hlo.dtype import (
    BF16,
    F8E5M2,
    F16,
    F32,
    F64,
    PrimitiveType,
)

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")


def reduce(dtype: PrimitiveType, x: Any, exponent: int, mantissa: int) -> Any:
    attributes: dict[str, object] = {"exponent_bits": exponent, "mantissa_bits": mantissa}
    return unary("reduce-precision", dtype, x, **attributes)


def hard(dtype: PrimitiveType) -> Any:
    word = np.uint32 if dtype is F32 else np.uint64
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, np.iinfo(word).max, 50_000, dtype=word, endpoint=True)
    everyday = rng.normal(size=50_000) * 10.0 ** rng.uniform(-9, 6, 50_000)
    ties = np.arange(1, 4096, 2) / 2048.0
    specials = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 65536])
    parts = [patterns.view(dtype.np), everyday, ties, specials]
    return np.concatenate([p.astype(dtype.np) for p in parts])


# (exponent bits, mantissa bits, the format that has them, its smallest normal number)
_FORMATS = [
    (5, 10, np.float16, 2.0**-14),
    (8, 7, ml_dtypes.bfloat16, 2.0**-126),
    (5, 2, ml_dtypes.float8_e5m2, 2.0**-14),
    (4, 3, ml_dtypes.float8_e4m3, 2.0**-6),
    (3, 4, ml_dtypes.float8_e3m4, 2.0**-2),
]


@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("row", _FORMATS, ids=lambda r: r[2].__name__)
def test_equals_a_cast_but_for_subnormals(source: PrimitiveType, row: Any) -> None:
    exponent, mantissa, dtype, smallest = row
    x = hard(source)
    if source is F64:  # the cast rounds twice, through f32
        with np.errstate(over="ignore"):
            x = x.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        want = x.astype(dtype).astype(x.dtype)
    want = np.where(np.abs(want) < smallest, np.copysign(0, x), want)
    flushed = np.abs(x) < smallest * (1 - 2.0 ** -(mantissa + 2))
    want = np.where(flushed, np.copysign(0, x), want)
    if source is F32 and exponent == 8:  # f32 subnormals stay: the exponent field is whole
        subnormal = np.abs(x) < smallest
        x, want = x[~subnormal], want[~subnormal]
    got = reduce(source, x, exponent, mantissa)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    assert same.all(), list(zip(x[~same][:5], got[~same][:5], want[~same][:5], strict=True))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("dtype", [F16, BF16, F8E5M2], ids=str)
def test_a_type_reduced_to_itself_is_itself(dtype: PrimitiveType) -> None:
    fields = {F16: (5, 10), BF16: (8, 7), F8E5M2: (5, 2)}[dtype]
    x = every_value(dtype)
    got = reduce(dtype, x, *fields).astype(np.float32)
    np.testing.assert_array_equal(got, x.astype(np.float32))


def test_f16_subnormals_round_at_their_own_last_place() -> None:
    """Bit patterns that XLA:CPU gives (jaxlib 0.10.2)."""
    x = np.array([0x0081, 0x0201, 0x0001, 0x0003], np.uint16).view(np.float16)
    assert reduce(F16, x, 5, 2).view(np.uint16).tolist() == [0x0100, 0x0200, 0, 0]
    assert reduce(F16, x, 5, 0).view(np.uint16).tolist() == [0, 0x0400, 0, 0]
    assert reduce(F16, x, 8, 7).view(np.uint16).tolist() == [0x0080, 0x0200, 0, 0]


def test_attributes_are_required() -> None:
    with pytest.raises(CompileError, match="exponent_bits"):
        unary("reduce-precision", F32, np.zeros(1), mantissa_bits=3)
