"""convert, bitcast-convert, reduce-precision and stochastic-convert."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run
from tests.unit.hlo.ops.test_unary import every
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array

INF, NAN = np.inf, np.nan


def convert(values: np.ndarray, target: str) -> np.ndarray:
    return run("convert", values, shape=array(dt.by_name(target), values.shape))


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ("s8", [-128, -128, -3, 0, 0, 2, 127, 127, 0]),
        ("u8", [0, 0, 0, 0, 0, 2, 255, 255, 0]),
        ("s4", [-8, -8, -3, 0, 0, 2, 7, 7, 0]),
        ("s64", [-(2**63), -1000, -3, 0, 0, 2, 1000, 2**63 - 1, 0]),
        ("u64", [0, 0, 0, 0, 0, 2, 1000, 2**64 - 1, 0]),
        ("pred", [1, 1, 1, 1, 0, 1, 1, 1, 1]),
    ],
)
def test_floats_become_integers(target: str, want: list[int]) -> None:
    x = np.array([-INF, -1000.7, -3.9, -0.5, -0.0, 2.9, 1000.2, INF, NAN], np.float32)
    assert [int(v) for v in convert(x, target)] == want


def test_limits_of_integers_saturate_exactly() -> None:
    assert list(convert(np.float32([127, 128, -128, -129]), "s8")) == [127, 127, -128, -128]
    top = np.float64([2.0**63, -(2.0**63), 2.0**63 - 1024])
    assert list(convert(top, "s64")) == [2**63 - 1, -(2**63), 2**63 - 1024]
    assert list(convert(np.float64([2.0**64, 2.0**63]), "u64")) == [2**64 - 1, 2**63]


def test_integers_wrap() -> None:
    x = np.int64([300, -129, 2**32 + 5, 9, -9])
    assert [int(v) for v in convert(x, "s8")] == [44, 127, 5, 9, -9]
    assert [int(v) for v in convert(x, "u4")] == [12, 15, 5, 9, 7]
    assert [int(v) for v in convert(x, "s4")] == [-4, -1, 5, -7, 7]
    assert [int(v) for v in convert(np.int64([0, 2, 256]), "pred")] == [0, 1, 1]


@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64", "f8e5m2", "f8e3m4"])
@pytest.mark.parametrize("source", ["s64", "u64", "s32"])
def test_integers_are_rounded_once(source: str, target: str, seed: int) -> None:
    element_type, rng = dt.by_name(source), np.random.default_rng(seed)
    info = np.iinfo(element_type.np)
    x = rng.integers(info.min, info.max, 60, dtype=element_type.np, endpoint=True)
    x = x >> rng.integers(0, element_type.bits - 1, 60).astype(element_type.np)
    got = convert(x, target)
    wide = got.astype(np.float64)
    for value, near, result in zip(x, got, wide, strict=True):
        if np.isfinite(result):
            _assert_nearest(Fraction(int(value)), near)


def test_integers_just_past_a_tie() -> None:
    x = np.int64([2**62 + 2**54 + 1, -(2**62) - 2**54 - 1, 2**62 + 2**54 - 1])
    want = [2.0**62 + 2.0**55, -(2.0**62) - 2.0**55, 2.0**62]
    assert convert(x, "bf16").astype(np.float64).tolist() == want


def _assert_nearest(exact: Fraction, got: np.generic) -> None:
    with np.errstate(all="ignore"):
        around = [np.nextafter(got, got.dtype.type(limit)) for limit in (-1e30, 1e30)]
    distance = abs(Fraction(float(got)) - exact)
    for neighbour in (float(n) for n in around):
        if np.isfinite(neighbour):
            assert distance <= abs(Fraction(neighbour) - exact)


@pytest.mark.parametrize("target", ["bf16", "f16", "f8e4m3fn", "f8e5m2", "f4e2m1fn"])
def test_f64_is_rounded_once(target: str) -> None:
    element_type = dt.by_name(target)
    step = float(ml_dtypes.finfo(element_type.np).eps)
    just_above_tie = np.float64([1 + step / 2 + 2.0**-40, -1 - step / 2 - 2.0**-40])
    assert [float(v) for v in convert(just_above_tie, target)] == [1 + step, -1 - step]


def test_overflow_of_fp8() -> None:
    x = np.float32([464, 465, 1e9, -1e9])
    np.testing.assert_array_equal(
        convert(x, "f8e4m3fn").astype(np.float32), np.float32([448, NAN, NAN, NAN])
    )
    np.testing.assert_array_equal(
        convert(x * 1000, "f8e5m2").astype(np.float32), np.float32([INF, INF, INF, -INF])
    )
    np.testing.assert_array_equal(convert(x, "f4e2m1fn").astype(np.float32), [6, 6, 6, -6])
    assert np.signbit(convert(np.float32([NAN]), "f4e2m1fn").astype(np.float32))[0]


def test_complex() -> None:
    z = np.complex64([1.5 + 2j, complex(NAN, 1), 3j])
    np.testing.assert_array_equal(convert(z, "f32"), np.float32([1.5, NAN, 0]))
    assert list(convert(z, "pred")) == [True, True, True]
    assert convert(np.int32([3]), "c128")[0] == 3
    assert convert(z, "c128").dtype == np.complex128


@pytest.mark.parametrize("source", [t for t in dt.FLOATS if t.bits <= 8], ids=str)
def test_every_small_float_survives_f32(source: dt.PrimitiveType) -> None:
    x = every(source)
    back = convert(convert(x, "f32"), source.name)
    np.testing.assert_array_equal(back.astype(np.float64), x.astype(np.float64))


def test_bitcast_same_width() -> None:
    got = run("bitcast-convert", np.float32([1, -0.0]), shape=of("u32[2]"))
    assert list(got) == [0x3F800000, 0x80000000]
    assert run("bitcast-convert", np.uint8([1, 0]), shape=of("pred[2]")).dtype == np.bool_


def test_bitcast_other_widths() -> None:
    x = np.uint32([[0x04030201, 0x08070605]])
    narrow = run("bitcast-convert", x, shape=of("u8[1,2,4]"))
    assert narrow.tolist() == [[[1, 2, 3, 4], [5, 6, 7, 8]]]
    assert run("bitcast-convert", narrow, shape=of("u32[1,2]")).tolist() == x.tolist()
    nibbles = run("bitcast-convert", np.uint8([0xF1]), shape=of("s4[1,2]"))
    assert [int(v) for v in nibbles[0]] == [1, -1]
    assert list(run("bitcast-convert", nibbles, shape=of("u8[1]"))) == [0xF1]
    halves = run("bitcast-convert", np.complex128([1 + 2j]), shape=of("c64[1,2]"))
    assert run("bitcast-convert", halves, shape=of("c128[1]"))[0] == 1 + 2j


def test_reduce_precision_is_a_round_trip_where_there_is_a_type() -> None:
    x = np.random.default_rng(0).normal(size=2000).astype(np.float32) * np.float32(1e3)
    x = np.concatenate([x, np.float32([INF, -INF, NAN, 65519, 65520, 1e-6, 0, -0.0])])
    for bits, narrow in (((8, 7), ml_dtypes.bfloat16), ((5, 10), np.float16)):
        got = run("reduce-precision", x, exponent_bits=bits[0], mantissa_bits=bits[1])
        with np.errstate(all="ignore"):
            want = x.astype(narrow).astype(np.float32)
        least = np.float32(ml_dtypes.finfo(narrow).smallest_normal)
        want = np.where(np.abs(want) < least, np.copysign(0, want), want)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[:2000]), np.signbit(want[:2000]))


def test_reduce_precision_of_narrow_types() -> None:
    x = np.array([1.75, 3.5, NAN], ml_dtypes.float8_e4m3fn)
    got = run("reduce-precision", x, exponent_bits=4, mantissa_bits=1)
    np.testing.assert_array_equal(got.astype(np.float32), np.float32([2, 4, NAN]))
    same = run("reduce-precision", np.float16([1.2345]), exponent_bits=8, mantissa_bits=23)
    assert same[0] == np.float16(1.2345)


@pytest.mark.parametrize(
    ("target", "x", "low", "high"),
    [
        ("s8", 2.25, 2, 3),
        ("s8", -2.25, -2, -3),
        ("s8", 4.0, 4, 4),
        ("bf16", 1.001953125, 1, 1.0078125),
        ("f8e4m3fn", 1.03125, 1, 1.125),  # types without infinities have neighbours, too
        ("f8e4m3fnuz", -1.03125, -1, -1.125),
        ("f8e4m3fn", 2.0**-11, 0, 2.0**-9),
    ],
)
def test_stochastic_convert(target: str, x: float, low: float, high: float) -> None:
    random = np.arange(0, 2**32, 2**24, dtype=np.uint64).astype(np.uint32)
    values = np.full(random.size, x, np.float32)
    got = run("stochastic-convert", values, random, shape=of(f"{target}[{random.size}]"))
    assert {float(v) for v in got} <= {low, high}
    share = np.mean(got.astype(np.float64) == high)
    assert low == high or abs(share - 0.25) < 0.01


def test_stochastic_convert_of_specials() -> None:
    x = np.float32([NAN, INF, -INF, 1e9])
    got = run("stochastic-convert", x, np.uint32([0, 0, 0, 0]), shape=of("s8[4]"))
    assert list(got) == [0, 127, -128, 127]


def test_stochastic_convert_at_the_edges() -> None:
    """As XLA: saturates at the range's end; a fraction below the last random bit is none."""
    x = np.float16([127.5, 126.5, 6e-8, -128.5])
    got = run("stochastic-convert", x, np.zeros(4, np.uint16), shape=of("s8[4]"))
    assert list(got) == [127, 127, 0, -128]


def test_rules() -> None:
    assert result_of("convert", "f32[<=2]", to="s8[2]") == "s8[2]"
    assert_rejected("convert_c1", "convert", "token", to="f32[]")
    assert_rejected("convert_shape", "convert", "f32[]", to="token")
    assert_rejected("convert_shape", "convert", "f32[]")
    assert_rejected("bitcast_convert_c1", "bitcast-convert", "token", to="f32[]")
    assert_rejected("bitcast_convert_c2", "bitcast-convert", "f64[]", to="c64[]")
    assert_rejected("bitcast_convert_c3", "bitcast-convert", "f6e3m2fn[]", to="u8[]")
    assert_rejected("bitcast_convert_c4", "bitcast-convert", "u8[3]", to="u32[]")
    assert_rejected("bitcast_convert_c4", "bitcast-convert", "u8[]", to="u32[]")


def test_precision_rules() -> None:
    bits = {"exponent_bits": 5, "mantissa_bits": 10}
    assert_rejected("reduce_precision_c1", "reduce-precision", "token", **bits)
    assert_rejected("reduce_precision_c2", "reduce-precision", "s32[2]", **bits)
    assert_rejected(
        "reduce_precision_c3", "reduce-precision", "f32[2]", exponent_bits=0, mantissa_bits=1
    )
    assert_rejected(
        "reduce_precision_c4", "reduce-precision", "f32[2]", exponent_bits=1, mantissa_bits=-1
    )


def test_stochastic_rules() -> None:
    opcode, name = "stochastic-convert", "stochastic_convert"
    assert_rejected(f"{name}_c1", opcode, "f32[2]", "token", to="s8[2]")
    assert_rejected(f"{name}_c2", opcode, "s32[2]", "u32[2]", to="s8[2]")
    assert_rejected(f"{name}_c3", opcode, "f32[2]", "s32[2]", to="s8[2]")
    assert_rejected(f"{name}_c4", opcode, "f32[2]", "u16[2]", to="s8[2]")
    assert_rejected(f"{name}_c5", opcode, "f32[2]", "u32[2]", to="c64[2]")
    assert_rejected(f"{name}_c6", opcode, "f32[2]", "u32[3]", to="s8[2]")


def test_reduce_precision_keeps_the_digits_of_subnormals_of_narrow_formats() -> None:
    """7/512 is a subnormal of f8e4m3, and 1.75 * 2**-7 in a format with five exponent bits."""
    x = np.array([7 / 512, -7 / 512, 15 / 512], ml_dtypes.float8_e4m3)
    got = run("reduce-precision", x, exponent_bits=5, mantissa_bits=2)
    assert got.astype(np.float64).tolist() == [7 / 512, -7 / 512, 16 / 512]
