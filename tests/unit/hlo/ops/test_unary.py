"""Exact unary opcodes: rules, special values, all 8-bit inputs."""

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run
from xladev.hlo import dtype as dt

INTEGERS = [t for t in dt.INTEGERS if t.bits <= 8]
SMALL_FLOATS = [t for t in dt.FLOATS if t.bits <= 8]


def every(element_type: dt.PrimitiveType) -> np.ndarray:
    """All values of a type of at most 8 bits."""
    codes = np.arange(1 << element_type.bits, dtype=np.uint8)
    return (
        codes.astype(element_type.np) if element_type.is_integral else codes.view(element_type.np)
    )


def as_ints(array: np.ndarray) -> list[int]:
    return [int(x) for x in array]


def wrapped(value: int, element_type: dt.PrimitiveType) -> int:
    value &= (1 << element_type.bits) - 1
    top = element_type.is_signed and value >> (element_type.bits - 1)
    return value - (1 << element_type.bits) if top else value


@pytest.mark.parametrize(
    ("opcode", "accepted", "rejected"),
    [
        ("abs", "s8 f16 f32 c64", "u8 pred"),
        ("negate", "s8 u8 bf16 c128", "pred"),
        ("sign", "s32 f8e5m2 c64", "u32 pred"),
        ("not", "pred u4 s64", "f32 c64"),
        ("is-finite", "f32 f8e4m3fn", "s32 c64 pred"),
        ("count-leading-zeros", "s8 u64", "f32 pred"),
        ("popcnt", "s4 u8", "f32 pred c64"),
        ("real", "f32 c64", "s32 pred"),
        ("imag", "f32 c64", "s32 pred"),
        ("ceil", "f32 bf16", "s32 c64"),
        ("floor", "f32 bf16", "s32 c64"),
        ("round-nearest-afz", "f64", "u8 c64"),
        ("round-nearest-even", "f64", "u8 c64"),
    ],
)
def test_element_types(opcode: str, accepted: str, rejected: str) -> None:
    name = opcode.replace("-", "_")
    for element_type in accepted.split():
        result_of(opcode, f"{element_type}[2,<=3]")
    for element_type in rejected.split():
        assert_rejected(f"{name}_c2", opcode, f"{element_type}[2]")
    assert_rejected(f"{name}_c1", opcode, "token")


def test_result_types() -> None:
    assert result_of("abs", "c64[2,<=3]") == "f32[2,<=3]"
    assert result_of("real", "c128[]") == "f64[]"
    assert result_of("imag", "f32[4]") == "f32[4]"
    assert result_of("is-finite", "bf16[5]") == "pred[5]"


@pytest.mark.parametrize("element_type", INTEGERS, ids=str)
def test_every_small_integer(element_type: dt.PrimitiveType) -> None:
    x = every(element_type)
    values, mask = as_ints(x), (1 << element_type.bits) - 1
    assert as_ints(run("negate", x)) == [wrapped(-v, element_type) for v in values]
    assert as_ints(run("not", x)) == [wrapped(~v, element_type) for v in values]
    ones = [(v & mask).bit_count() for v in values]
    assert as_ints(run("popcnt", x)) == [wrapped(n, element_type) for n in ones]
    zeros = [element_type.bits - (v & mask).bit_length() for v in values]
    assert as_ints(run("count-leading-zeros", x)) == [wrapped(n, element_type) for n in zeros]
    if element_type.is_signed:
        assert as_ints(run("abs", x)) == [wrapped(abs(v), element_type) for v in values]
        signs = [wrapped((v > 0) - (v < 0), element_type) for v in values]
        assert as_ints(run("sign", x)) == signs


@pytest.mark.parametrize("element_type", SMALL_FLOATS, ids=str)
def test_every_small_float(element_type: dt.PrimitiveType) -> None:
    x = every(element_type)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(run("abs", x).astype(np.float64), np.abs(wide))
    np.testing.assert_array_equal(run("is-finite", x), np.isfinite(wide))
    if element_type is not dt.F8E8M0FNU:
        np.testing.assert_array_equal(run("negate", x).astype(np.float64), -wide)
        np.testing.assert_array_equal(run("sign", x).astype(np.float64), np.sign(wide))


def test_rounding() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.2, np.inf, 8388609.0], np.float32)
    up, down = [1, -0.0, 2, 3, -2, 1, -0.0], [0, -1, 1, 2, -3, 0, -1]
    away, even = [1, -1, 2, 3, -3, 0, -0.0], [0, -0.0, 2, 2, -2, 0, -0.0]
    for opcode, want in (
        ("ceil", up),
        ("floor", down),
        ("round-nearest-afz", away),
        ("round-nearest-even", even),
    ):
        got = run(opcode, x)
        np.testing.assert_array_equal(got, np.array([*want, np.inf, 8388609.0], np.float32))
        np.testing.assert_array_equal(np.signbit(got[:7]), np.signbit(np.array(want)))


def test_sign_keeps_zero_and_nan() -> None:
    got = run("sign", np.array([0.0, -0.0, np.nan, -3, np.inf], np.float32))
    np.testing.assert_array_equal(got, np.array([0, -0.0, np.nan, -1, 1], np.float32))
    assert list(np.signbit(got[:2])) == [False, True]
    assert run("sign", np.complex64(3 - 4j)) == np.complex64(0.6 - 0.8j)
    assert run("sign", np.complex64(0)) == 0


def test_complex_magnitude_does_not_overflow() -> None:
    assert run("abs", np.complex64(2e38 + 2e38j)) == np.float32(np.hypot(2e38, 2e38))
    assert run("abs", np.complex128(3e300 + 4e300j)) == 5e300
    assert run("abs", np.complex64(complex(np.inf, np.nan))) == np.inf
