"""Rules of conversions."""

import numpy as np
import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.numerics.casts import convert
from xladev.hlo.shape import array
from xladev.passes.algebra import conversion as c
from xladev.testing.random_inputs import wild_array

CASES = (
    Case(c.convert_to_same, "x: f32[2] | ROOT r = f32[2] convert(x)", "x"),
    Case(
        c.convert_twice,
        "x: bf16[5] | m = f32[5] convert(x)  ROOT r = f16[5] convert(m)",
        "ROOT r = f16[5] convert(x)",
    ),
    Case(c.convert_twice, "x: f32[5] | m = f64[5] convert(x)  ROOT r = f32[5] convert(m)", "x"),
    Case(
        c.convert_twice,
        "x: s8[5] | m = f16[5] convert(x)  ROOT r = s32[5] convert(m)",
        "ROOT r = s32[5] convert(x)",
    ),
    Case(
        c.convert_twice,
        "x: pred[5] | m = s32[5] convert(x)  ROOT r = f32[5] convert(m)",
        "ROOT r = f32[5] convert(x)",
    ),
    Case(c.convert_twice, "x: f32[5] | m = bf16[5] convert(x)  ROOT r = f32[5] convert(m)"),
    Case(c.convert_twice, "x: s8[5] | m = u32[5] convert(x)  ROOT r = f32[5] convert(m)"),
    Case(c.convert_twice, "x: s8[5] | m = f32[5] convert(x)  ROOT r = u32[5] convert(m)"),
    Case(c.convert_twice, "x: s32[5] | m = f32[5] convert(x)  ROOT r = f64[5] convert(m)"),
    Case(c.convert_twice, "x: f32[5] | m = pred[5] convert(x)  ROOT r = f32[5] convert(m)"),
    Case(c.bitcast_to_same, "x: f32[2] | ROOT r = f32[2] bitcast-convert(x)", "x"),
    Case(
        c.bitcast_twice,
        "x: f32[2] | m = u32[2] bitcast-convert(x)  ROOT r = s32[2] bitcast-convert(m)",
        "ROOT r = s32[2] bitcast-convert(x)",
    ),
    Case(
        c.bitcast_twice,
        "x: f32[2] | m = u8[2,4] bitcast-convert(x)  ROOT r = s32[2] bitcast-convert(m)",
    ),
    Case(
        c.keep_precision,
        "x: f32[5] | ROOT r = f32[5] reduce-precision(x), exponent_bits=8, mantissa_bits=23",
        "x",
    ),
    Case(
        c.keep_precision,
        "x: f32[5] | ROOT r = f32[5] reduce-precision(x), exponent_bits=8, mantissa_bits=22",
    ),
    Case(
        c.real_of_complex,
        "x: f32[]; y: f32[] | z = c64[] complex(x, y)  ROOT r = f32[] real(z)",
        "x",
    ),
    Case(
        c.imag_of_complex,
        "x: f32[]; y: f32[] | z = c64[] complex(x, y)  ROOT r = f32[] imag(z)",
        "y",
    ),
    Case(
        c.complex_of_parts,
        "z: c64[] | x = f32[] real(z)  y = f32[] imag(z)  ROOT r = c64[] complex(x, y)",
        "z",
    ),
    Case(
        c.complex_of_parts,
        "z: f32[] | x = f32[] real(z)  y = f32[] imag(z)  ROOT r = c64[] complex(x, y)",
    ),
    Case(c.real_of_real, "x: f32[] | ROOT r = f32[] real(x)", "x"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {case.rule for case in CASES if case.after} == set(c.CONVERSION)


def samples(element_type: PrimitiveType) -> Array:
    """Every value of a type of at most 16 bits; many of a larger one, its limits included."""
    if element_type is dt.PRED:
        return np.array([False, True])
    if element_type.bits <= 16 and element_type.host_nbytes * 8 == element_type.bits:
        codes = np.arange(1 << element_type.bits, dtype=f"u{element_type.host_nbytes}")
        return codes.view(element_type.np)
    if element_type.bits < 8:
        signed = element_type.is_signed
        numbers = np.arange(1 << element_type.bits) - (1 << element_type.bits - 1 if signed else 0)
        return numbers.astype(element_type.np)
    return wild_array(np.random.default_rng(0), array(element_type, (5000,)))


@pytest.mark.parametrize("source", dt.ARRAY_TYPES, ids=str)
def test_a_type_that_holds_another_gives_every_value_back(source: PrimitiveType) -> None:
    values = samples(source)
    with np.errstate(invalid="ignore"):
        ordered = values == values
        for target in dt.ARRAY_TYPES:
            if c.holds_exactly(source, target):
                back = convert(convert(values, target), source)
                assert ((back == values) == ordered).all(), f"{source} through {target}"
                if source.is_float:
                    assert (np.signbit(back) == np.signbit(values))[ordered].all()


def test_what_loses_values_is_not_said_to_hold_them() -> None:
    lossy = ((dt.S8, dt.U32), (dt.S32, dt.F32), (dt.F16, dt.BF16), (dt.F32, dt.F16), (dt.U8, dt.S8))
    for source, target in lossy:
        assert not c.holds_exactly(source, target)
