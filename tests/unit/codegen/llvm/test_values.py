"""Spelling of types and constants."""

from __future__ import annotations

import math
import struct

import pytest

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I64,
    PTR,
    IrType,
    Value,
    constant,
    from_bits,
    vector,
)
from xladev.errors import CompileError


def test_types_are_spelled_as_llvm_does() -> None:
    assert str(FLOAT) == "float"
    assert str(vector(FLOAT, 16)) == "<16 x float>"
    assert vector(FLOAT, 1) == FLOAT


def test_mangled_names() -> None:
    assert [t.mangled for t in (FLOAT, DOUBLE, I8, vector(I1, 4))] == ["f32", "f64", "i8", "v4i1"]
    assert IrType("bfloat").mangled == "bf16"


def test_of_keeps_the_lane_count() -> None:
    assert vector(FLOAT, 8).of(I1) == vector(I1, 8)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.25, 1e-310, math.pi, math.inf, -math.inf])
def test_double_constants_are_exact(number: float) -> None:
    pattern = int(constant(DOUBLE, number).text, 16)
    assert struct.pack("<Q", pattern) == struct.pack("<d", number)


def test_float_constants_are_rounded_then_spelled_as_doubles() -> None:
    assert constant(FLOAT, 0.1).text == "0x3FB99999A0000000"
    assert constant(FLOAT, 1e39).text == "0x7FF0000000000000"
    assert constant(HALF, 1.0).text == "0xH3C00"


def test_nan_constant() -> None:
    assert math.isnan(
        struct.unpack("<d", struct.pack("<Q", int(constant(FLOAT, math.nan).text, 16)))[0]
    )
    assert from_bits(FLOAT, 0x7F800000).text == "0x7FF0000000000000"


def test_integers_wrap_to_the_width() -> None:
    assert constant(I8, 255).text == "-1"
    assert constant(I8, -129).text == "127"
    assert constant(I64, 1 << 63).text == str(-(1 << 63))
    assert constant(I1, 1).text == "true"


def test_vectors_are_splats() -> None:
    assert constant(vector(I8, 4), 3).text == "splat (i8 3)"


def test_no_constants_of_other_types() -> None:
    with pytest.raises(CompileError, match="bfloat"):
        constant(IrType("bfloat"), 1.0)
    with pytest.raises(CompileError, match="not an integer"):
        constant(I8, 1.5)


@pytest.mark.parametrize("number", [0, 1, 42, -7, (1 << 63) - 1, -(1 << 63)])
def test_a_constant_knows_its_number(number: int) -> None:
    assert constant(I64, number).number == number


def test_null_and_truth_are_numbers() -> None:
    values = Value("null", PTR), constant(I1, 1), constant(I1, 0)
    assert [v.number for v in values] == [0, 1, 0]


@pytest.mark.parametrize("text", ["%v1", "%12", "@xladev.table.t", "poison", "0x4000000000000000"])
def test_other_values_have_no_number(text: str) -> None:
    assert Value(text, I64).number is None
    assert constant(vector(I64, 2), 0).number is None


def test_the_address_of_a_global_has_its_name() -> None:
    assert Value("@xladev.table.t", PTR).symbol == "xladev.table.t"
    assert [Value(text, PTR).symbol for text in ("%p0", "null")] == ["", ""]
