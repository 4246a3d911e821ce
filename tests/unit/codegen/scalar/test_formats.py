"""Narrow floats against ml_dtypes: every value decoded, every rounding decision encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel, every_value
from xladev.codegen.llvm import GENERIC, TargetTraits
from xladev.hlo.dtype import F8E8M0FNU, F32, F64, FLOATS, PrimitiveType
from xladev.hlo.numerics.precision import narrow

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")

NARROW = [t for t in FLOATS if t not in (F32, F64)]


def codes(array: Any) -> Any:
    return array.view({1: np.uint8, 2: np.uint16}[array.itemsize])


def hard_inputs(dtype: PrimitiveType) -> Any:
    """f32 at and beside every value and every midpoint of the type, random ones, specials."""
    values = np.sort(every_value(dtype).astype(np.float32))
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        places = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2])
        beside = [np.nextafter(places, np.float32(to)) for to in (np.inf, -np.inf)]
    patterns = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
    strided = np.arange(0, 2**32, 65537, dtype=np.uint64).astype(np.uint32)
    specials = np.array([0, -0.0, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    raw = np.concatenate([patterns, strided]).view(np.float32)
    return np.concatenate([places, *beside, specials, raw])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_decode_every_code(dtype: PrimitiveType) -> None:
    x = every_value(dtype)
    got, want = Kernel("convert", (dtype,), F32)(x), x.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("target", [None, GENERIC], ids=["native", "soft-half"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_encode(dtype: PrimitiveType, target: TargetTraits | None) -> None:
    x = hard_inputs(dtype)
    with np.errstate(all="ignore"):
        want = narrow(x, dtype.np)
    got = Kernel("convert", (F32,), dtype, target=target)(x)
    nan = np.isnan(want.astype(np.float32)) & np.isnan(got.astype(np.float32))
    different = np.flatnonzero((codes(got) != codes(want)) & ~nan)
    assert not different.size, [(x[i], got[i], want[i]) for i in different[:5]]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_encode_f64(dtype: PrimitiveType) -> None:
    """Rounded once, as XLA's CPU does for 8 bits and less; ml_dtypes goes through f32."""
    rng = np.random.default_rng(1)
    x = hard_inputs(dtype).astype(np.float64)
    x = np.concatenate([x, x * (1 + rng.normal(size=x.size) * 2.0**-40)])
    with np.errstate(all="ignore"):
        want = narrow(x, dtype.np)
    got = Kernel("convert", (F64,), dtype)(x)
    nan = np.isnan(want.astype(np.float32)) & np.isnan(got.astype(np.float32))
    different = np.flatnonzero((codes(got) != codes(want)) & ~nan)
    assert not different.size, [(x[i], got[i], want[i]) for i in different[:5]]


def test_scale_has_no_zero_and_no_sign() -> None:
    x = np.array([0.0, -1.0, 1.0, 1.5, 1.49, np.inf, 2.0**-127, 3e38], np.float32)
    got = Kernel("convert", (F32,), F8E8M0FNU)(x)
    assert codes(got).tolist() == [255, 255, 127, 128, 127, 255, 0, 255]
