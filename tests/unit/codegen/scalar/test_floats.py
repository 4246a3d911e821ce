"""Arithmetic of every float type: computed exactly, rounded once, specials as IEEE 754 has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel, binary, every_value, unary
from xladev.hlo.dtype import BF16, F16, F32, F64, FLOATS, PRED, PrimitiveType

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")

EIGHT_BIT = [t for t in FLOATS if t.host_nbytes == 1]
SIXTEEN_BIT = [F16, BF16]

_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "remainder": np.fmod,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "negate": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "ceil": np.ceil,
    "floor": np.floor,
    "round-nearest-even": np.rint,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "round-nearest-afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def same(got: Any, want: Any) -> Any:
    """Equal values, either sign of zero alike."""
    left, right = got.astype(np.float64), want.astype(np.float64)
    return (left == right) | (np.isnan(left) & np.isnan(right))


def strided(dtype: PrimitiveType, step: int) -> Any:
    """Every ``step``-th code of a 16-bit type, and all its zeros, infinities and extremes."""
    edges = np.array([0, 1, 0x8000, 0x8001, 0x3FF, 0x400, 0x7F, 0x80], np.uint16)
    specials = np.array([1, -1, np.inf, -np.inf, np.nan, np.finfo(np.float16).max]).astype(dtype.np)
    return np.concatenate([every_value(dtype)[::step], edges.view(dtype.np), specials])


@pytest.mark.parametrize("opcode", _BINARY)
@pytest.mark.parametrize("dtype", EIGHT_BIT, ids=str)
def test_all_pairs_of_eight_bits(dtype: PrimitiveType, opcode: str) -> None:
    x, y = (part.ravel() for part in np.meshgrid(*[every_value(dtype)] * 2))
    with np.errstate(all="ignore"):
        wide = _BINARY[opcode](x.astype(np.float64), y.astype(np.float64))
        single = wide.astype(np.float32)
        vanished = (wide > 0) & (single == 0)  # of f8e8m0fnu, which has no zero
        want = np.where(vanished, np.finfo(np.float32).smallest_subnormal, single).astype(dtype.np)
    bad = np.flatnonzero(~same(binary(opcode, dtype, x, y), want))
    assert not bad.size, [(x[i], y[i], want[i]) for i in bad[:5]]


@pytest.mark.parametrize("opcode", _BINARY)
@pytest.mark.parametrize("dtype", SIXTEEN_BIT, ids=str)
def test_pairs_of_sixteen_bits(dtype: PrimitiveType, opcode: str) -> None:
    x, y = (p.ravel() for p in np.meshgrid(strided(dtype, 149), strided(dtype, 151)))
    with np.errstate(all="ignore"):
        # In f64 sums, products and quotients of these types round as if exact.
        wide = _BINARY[opcode](x.astype(np.float64), y.astype(np.float64))
        want = wide.astype(np.float32).astype(dtype.np)
    got = binary(opcode, dtype, x, y)
    bad = np.flatnonzero(~same(got, want))
    assert not bad.size, [(x[i], y[i], got[i], want[i]) for i in bad[:5]]


@pytest.mark.parametrize("opcode", _UNARY)
@pytest.mark.parametrize("dtype", EIGHT_BIT + SIXTEEN_BIT, ids=str)
def test_every_value(dtype: PrimitiveType, opcode: str) -> None:
    x = every_value(dtype)
    with np.errstate(all="ignore"):
        want = _UNARY[opcode](x.astype(np.float32)).astype(np.float32).astype(dtype.np)
    got = unary(opcode, dtype, x)
    bad = np.flatnonzero(~same(got, want))
    assert not bad.size, [(x[i], got[i], want[i]) for i in bad[:5]]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_wide_arithmetic_is_that_of_the_machine(dtype: PrimitiveType) -> None:
    word = np.uint32 if dtype is F32 else np.uint64
    rng = np.random.default_rng(0)
    x, y = (
        rng.integers(0, np.iinfo(word).max, 20_000, dtype=word, endpoint=True).view(dtype.np)
        for _ in range(2)
    )
    with np.errstate(all="ignore"):
        for opcode, reference in _BINARY.items():
            np.testing.assert_array_equal(binary(opcode, dtype, x, y), reference(x, y), opcode)
        for opcode, reference in _UNARY.items():
            if opcode == "round-nearest-afz":
                continue
            np.testing.assert_array_equal(unary(opcode, dtype, x), reference(x), opcode)


def test_round_half_away_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, -0.2], np.float32)
    got = unary("round-nearest-afz", F32, x)
    np.testing.assert_array_equal(got, [1, -1, 2, 3, -3, 0, 8388608, -0.0])


@pytest.mark.parametrize("dtype", [F32, F64, BF16], ids=str)
def test_nan_wins_and_zeros_are_ordered(dtype: PrimitiveType) -> None:
    x = np.array([np.nan, 1, 0.0, -0.0, np.nan]).astype(dtype.np)
    y = np.array([1, np.nan, -0.0, 0.0, np.nan]).astype(dtype.np)
    high = binary("maximum", dtype, x, y).astype(np.float64)
    low = binary("minimum", dtype, x, y).astype(np.float64)
    assert np.isnan(high[[0, 1, 4]]).all() and np.isnan(low[[0, 1, 4]]).all()
    assert not np.signbit(high[2:4]).any() and np.signbit(low[2:4]).all()


@pytest.mark.parametrize("opcode", ["add", "divide", "multiply", "subtract"])
def test_arithmetic_of_bf16_rounds_all_values(opcode: str) -> None:
    x = every_value(BF16)
    other = np.random.default_rng(0).permutation(x)
    for y in (other, np.full_like(x, 1), np.full_like(x, np.inf), x):
        with np.errstate(all="ignore"):
            want = _BINARY[opcode](x, y)
        assert same(binary(opcode, BF16, x, y), want).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_is_finite(dtype: PrimitiveType) -> None:
    wide = np.array([0.0, np.inf, -np.inf, np.nan, 1.0])
    with np.errstate(all="ignore"):
        x = every_value(dtype) if dtype.host_nbytes <= 2 else wide.astype(dtype.np)
    got = Kernel("is-finite", (dtype,), PRED)(x)
    np.testing.assert_array_equal(got, np.isfinite(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", SIXTEEN_BIT, ids=str)
def test_functions_of_sixteen_bits_are_rounded_from_f32(dtype: PrimitiveType) -> None:
    x = every_value(dtype)
    for opcode, reference in (("exponential", np.exp), ("log", np.log), ("tanh", np.tanh)):
        with np.errstate(all="ignore"):
            want = reference(x.astype(np.float64)).astype(np.float32).astype(dtype.np)
        got = unary(opcode, dtype, x)
        off = np.abs(codes(got) - codes(want))
        assert off[~same(got, want)].max(initial=0) <= 1
        assert same(got, want).mean() > 0.9999


def codes(array: Any) -> Any:
    return array.view(np.uint16).astype(np.int32)
