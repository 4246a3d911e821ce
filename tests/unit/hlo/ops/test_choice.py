"""compare, select and clamp."""

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("direction", "want"),
    [
        ("EQ", [0, 1, 0, 0, 1]),
        ("NE", [1, 0, 1, 1, 0]),
        ("LT", [1, 0, 0, 0, 0]),
        ("LE", [1, 1, 0, 0, 1]),
        ("GT", [0, 0, 1, 0, 0]),
        ("GE", [0, 1, 1, 0, 1]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_directions(direction: str, want: list[int], dtype: type) -> None:
    x, y = np.array([1, 2, 3, NAN, 0.0], dtype), np.array([2, 2, 2, NAN, -0.0], dtype)
    assert list(run("compare", x, y, direction=direction)) == [bool(v) for v in want]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_total_order(dtype: type) -> None:
    line = np.array([-NAN, -INF, -1, -0.0, 0.0, 1, INF, NAN], dtype)
    line[0] = np.copysign(line[7:], dtype(-1))[0]
    for i in range(8):
        got = run("compare", np.repeat(line[i], 8), line, direction="LT", type="TOTALORDER")
        assert list(got) == [i < j for j in range(8)]


@pytest.mark.parametrize(
    ("dtype", "line"),
    [
        (ml_dtypes.float6_e2m3fn, [-7.5, -0.125, -0.0, 0.0, 0.125, 7.5]),
        (ml_dtypes.float4_e2m1fn, [-6, -0.5, -0.0, 0.0, 0.5, 6]),
        (ml_dtypes.float8_e5m2fnuz, [NAN, -57344, -1, 0.0, 1, 57344]),
        (ml_dtypes.float8_e8m0fnu, [2.0**-127, 0.5, 1, 2, 2.0**127, NAN]),
    ],
)
def test_total_order_of_narrow_types(dtype: type, line: list[float]) -> None:
    """By the type's own sign bit; what XLA gives for all pairs of codes."""
    values = np.array(line, dtype)
    for i in range(6):
        got = run("compare", np.repeat(values[i], 6), values, direction="LT", type="TOTALORDER")
        assert list(got) == [i < j for j in range(6)]


def test_unsigned_order_and_pred() -> None:
    assert run("compare", np.uint64(2**64 - 1), np.uint64(1), direction="GT")
    assert run("compare", np.bool_(False), np.bool_(True), direction="LT")
    assert run("compare", ml_dtypes.int4(-8), ml_dtypes.int4(7), direction="LT")
    assert run("compare", np.complex64(1j), np.complex64(1j), direction="EQ")


def test_select_and_clamp() -> None:
    x, y = np.float32([1, 2]), np.float32([3, 4])
    assert list(run("select", np.array([True, False]), x, y)) == [1, 4]
    assert list(run("select", np.bool_(False), x, y)) == [3, 4]
    values = np.float32([-5, 0.5, 5, NAN])
    np.testing.assert_array_equal(
        run("clamp", np.float32(-1), values, np.float32(1)), np.float32([-1, 0.5, 1, NAN])
    )
    assert list(run("clamp", np.int32([3]), np.int32([1]), np.int32([2]))) == [2]


def test_compare_rules() -> None:
    assert result_of("compare", "f32[<=2]", "f32[2]", direction="LT") == "pred[<=2]"
    assert_rejected("compare_c1", "compare", "f32[2]", "token", direction="LT")
    assert_rejected("compare_c2", "compare", "f32[2]", "f32[2]", direction="LESS")
    assert_rejected("compare_c3", "compare", "f32[2]", "f32[2]", direction="LT", type="IEEE")
    assert_rejected("compare_c4", "compare", "f32[2]", "s32[2]", direction="LT")
    assert_rejected("compare_c5", "compare", "s32[2]", "s32[2]", direction="LT", type="TOTALORDER")
    assert_rejected("compare_c5", "compare", "u8[2]", "u8[2]", direction="LT", type="SIGNED")
    assert_rejected("compare_c6", "compare", "c64[2]", "c64[2]", direction="LT")
    assert_rejected("compare_c7", "compare", "f32[2]", "f32[3]", direction="LT")


def test_select_rules() -> None:
    assert result_of("select", "pred[2]", "f32[<=2]", "f32[2]") == "f32[<=2]"
    assert_rejected("select_c1", "select", "s32[2]", "f32[2]", "f32[2]")
    assert_rejected("select_c2", "select", "pred[]", "token", "token")
    assert_rejected("select_c3", "select", "pred[2]", "f32[2]", "f16[2]")
    assert_rejected("select_c4", "select", "pred[2]", "f32[2]", "f32[3]")
    assert_rejected("select_c4", "select", "pred[1]", "f32[2]", "f32[2]")
    assert result_of("select", "pred[]", "f32[2]", "f32[<=2]") == "f32[<=2]"


def test_clamp_rules() -> None:
    assert result_of("clamp", "f32[]", "f32[<=2]", "f32[2]") == "f32[<=2]"
    assert_rejected("clamp_c1", "clamp", "f32[]", "token", "f32[]")
    assert_rejected("clamp_c2", "clamp", "f32[]", "f32[2]", "f16[]")
    assert_rejected("clamp_c3", "clamp", "f32[3]", "f32[2]", "f32[]")
