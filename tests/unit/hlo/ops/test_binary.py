"""Elementwise opcodes of two operands: rules, exhaustive small types, special values."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run
from tests.unit.hlo.ops.test_unary import every, wrapped
from xladev.hlo import dtype as dt
from xladev.hlo.ops.binary import OPS

INF, NAN = np.inf, np.nan
SMALL = [t for t in dt.INTEGERS if t.bits in (1, 2, 4)] + [dt.S8, dt.U8]


def pairs(element_type: dt.PrimitiveType) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values of a type of at most 8 bits."""
    values = every(element_type)
    return np.repeat(values, values.size), np.tile(values, values.size)


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _power(x: int, y: int) -> int:
    if y >= 0:
        return x**y
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


def exact(bits: int) -> dict[str, Callable[[int, int], int]]:
    """What each opcode means on integers of that width, before wrapping."""
    mask = (1 << bits) - 1
    return {
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "mulhi": lambda x, y: (x * y) >> bits,
        "divide": lambda x, y: _truncated(x, y) if y else -1,
        "remainder": lambda x, y: x - y * _truncated(x, y) if y else x,
        "power": _power,
        "maximum": max,
        "minimum": min,
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "shift-left": lambda x, y: x << (y & mask) if (y & mask) < bits else 0,
        "shift-right-logical": lambda x, y: (x & mask) >> (y & mask),
        "shift-right-arithmetic": lambda x, y: x >> (y & mask),
    }


@pytest.mark.parametrize("element_type", SMALL, ids=str)
def test_every_pair_of_small_integers(element_type: dt.PrimitiveType) -> None:
    x, y = pairs(element_type)
    for opcode, meaning in exact(element_type.bits).items():
        if opcode == "shift-right-arithmetic" and not element_type.is_signed:
            continue
        got = run(opcode, x, y)
        want = [wrapped(meaning(int(a), int(b)), element_type) for a, b in zip(x, y, strict=True)]
        assert [int(g) for g in got] == want, opcode


def test_arithmetic_shift_of_unsigned_fills_with_the_top_bit() -> None:
    got = run("shift-right-arithmetic", np.uint8([0x80, 0x80, 0x40]), np.uint8([3, 9, 3]))
    assert list(got) == [0xF0, 0xFF, 0x08]


def test_integer_edges_of_64_bits() -> None:
    low, high = -(2**63), 2**63 - 1
    x, y = np.int64([low, low, 7, high]), np.int64([-1, 0, 0, 2])
    assert list(run("divide", x, y)) == [low, -1, -1, 2**62 - 1]
    assert list(run("remainder", x, y)) == [0, low, 7, 1]
    assert list(run("divide", np.uint64([5]), np.uint64([0]))) == [2**64 - 1]
    assert list(run("power", np.int64([3, 2]), np.int64([high, 63]))) == [
        wrapped(pow(3, high, 2**64), dt.S64),
        low,
    ]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_high_half_of_64_bit_products(dtype: Any, seed: int) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    x, y = rng.integers(info.min, info.max, (2, 200), dtype=dtype, endpoint=True)
    want = [(int(a) * int(b)) >> 64 for a, b in zip(x, y, strict=True)]
    assert [int(v) for v in run("mulhi", x, y)] == want


@pytest.mark.parametrize("name", ["f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e3m4", "f4e2m1fn"])
@pytest.mark.parametrize("opcode", ["add", "multiply", "divide"])
def test_small_floats_are_rounded_correctly(name: str, opcode: str) -> None:
    element_type = dt.by_name(name)
    x, y = pairs(element_type)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    ok = np.isfinite(wide_x) & np.isfinite(wide_y) & ((opcode != "divide") | (wide_y != 0))
    grid = sorted({float(v) for v in every(element_type).astype(np.float64) if np.isfinite(v)})
    got = run(opcode, x, y).astype(np.float64)
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(ok))[:300]
    for i in chosen:
        a, b = Fraction(float(wide_x[i])), Fraction(float(wide_y[i]))
        exact_value = a + b if opcode == "add" else a * b if opcode == "multiply" else a / b
        if np.isfinite(got[i]) and abs(exact_value) <= Fraction(grid[-1]):
            best = min(abs(Fraction(v) - exact_value) for v in grid)
            assert abs(Fraction(float(got[i])) - exact_value) == best, (x[i], y[i], got[i])


def test_bf16_sum_is_not_rounded_twice() -> None:
    x, y = ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(2.0**-8 + 2.0**-15)
    assert float(run("add", x, y)) == 1.0078125


def test_maximum_and_minimum() -> None:
    x = np.array([NAN, 1, 0.0, -0.0, NAN, -INF], np.float32)
    y = np.array([1, NAN, -0.0, 0.0, NAN, INF], np.float32)
    high, low = run("maximum", x, y), run("minimum", x, y)
    np.testing.assert_array_equal(high, np.array([NAN, NAN, 0, 0, NAN, INF], np.float32))
    np.testing.assert_array_equal(low, np.array([NAN, NAN, 0, 0, NAN, -INF], np.float32))
    assert list(np.signbit(high[2:4])) == [False, False]
    assert list(np.signbit(low[2:4])) == [True, True]
    z, w = np.complex64([1 + 2j, 1 + 2j]), np.complex64([1 + 3j, 0 + 9j])
    assert list(run("maximum", z, w)) == [1 + 3j, 1 + 2j]


def test_pred() -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for opcode, want in (
        ("add", [0, 1, 1, 1]),
        ("multiply", [0, 0, 0, 1]),
        ("and", [0, 0, 0, 1]),
        ("or", [0, 1, 1, 1]),
        ("xor", [0, 1, 1, 0]),
        ("maximum", [0, 1, 1, 1]),
        ("minimum", [0, 0, 0, 1]),
    ):
        assert list(run(opcode, x, y)) == [bool(v) for v in want], opcode


@pytest.mark.parametrize(
    ("opcode", "x", "y", "want"),
    [
        (
            "power",
            [1, NAN, -1, 0.0, -0.0, -8, 2],
            [NAN, 0, INF, -1, -1, 0.5, -1],
            [1, 1, 1, INF, -INF, NAN, 0.5],
        ),
        (
            "remainder",
            [5.5, -5.5, 5, INF, 1, -0.0],
            [2, 2, 0, 2, INF, 3],
            [1.5, -1.5, NAN, NAN, 1, -0.0],
        ),
        ("divide", [1, -1, 0, INF], [0.0, 0.0, 0.0, INF], [INF, -INF, NAN, NAN]),
        ("atan2", [0.0, -0.0, 0.0, 1], [-1, -1, 1, 0.0], [np.pi, -np.pi, 0, np.pi / 2]),
    ],
)
def test_special_values(opcode: str, x: list[float], y: list[float], want: list[float]) -> None:
    got = run(opcode, np.array(x, np.float32), np.array(y, np.float32))
    np.testing.assert_array_equal(got, np.array(want, np.float32))


def test_complex_division() -> None:
    x = np.array([1 + 2j, 1e300 + 1e300j, 1 + 1j, complex(INF, 1), 1 + 1j])
    y = np.array([3 - 4j, 1e300 + 1e300j, 0, 1 + 1j, complex(INF, 0)])
    got = run("divide", x, y)
    assert list(got[:2]) == [(-1 + 2j) / 5, 1]
    assert np.isinf(got[2].real)
    assert np.isinf(got[3].real)
    assert got[4] == 0


def test_complex_power() -> None:
    x, y = np.complex128([0, 0, 2, 1j]), np.complex128([0, 2, 0.5, 2])
    np.testing.assert_allclose(run("power", x, y), [1, 0, 2**0.5, -1], rtol=1e-15, atol=1e-18)


def test_complex_parts_are_kept_bit_for_bit() -> None:
    got = run("complex", np.float32([INF, NAN, -0.0]), np.float32([NAN, -0.0, 1]))
    assert np.isinf(got[0].real)
    assert np.isnan(got[0].imag)
    assert np.signbit(got[1].imag)
    assert got.dtype == np.complex64


@pytest.mark.parametrize(
    ("opcode", "rejected"),
    [
        ("subtract", "pred"),
        ("divide", "pred"),
        ("remainder", "c64"),
        ("mulhi", "f32"),
        ("and", "f32"),
        ("shift-left", "pred"),
        ("complex", "s32"),
        ("atan2", "s32"),
        ("power", "pred"),
    ],
)
def test_element_types(opcode: str, rejected: str) -> None:
    name = opcode.replace("-", "_")
    assert_rejected(f"{name}_c2", opcode, f"{rejected}[2]", f"{rejected}[2]")


def test_operands_must_agree() -> None:
    for op in OPS:
        name, good = op.name.replace("-", "_"), {"complex": "f32", "atan2": "f32"}
        element_type = good.get(op.name, "s32")
        assert_rejected(f"{name}_c1", op.name, f"{element_type}[2]", "token")
        assert_rejected(f"{name}_c3", op.name, f"{element_type}[2]", "f64[2]")
        assert_rejected(f"{name}_c4", op.name, f"{element_type}[2]", f"{element_type}[3]")
        assert_rejected(f"{name}_c4", op.name, f"{element_type}[2]", f"{element_type}[]")
    assert_rejected("complex_c5", "complex", "f16[2]", "f16[2]")


def test_dynamic_dimensions_are_merged() -> None:
    assert result_of("add", "f32[<=2,3]", "f32[2,<=3]") == "f32[<=2,<=3]"
    assert result_of("add", "f32[?,3]", "f32[2,3]") == "f32[<=2,3]"
    assert result_of("complex", "f64[2]", "f64[2]") == "c128[2]"
