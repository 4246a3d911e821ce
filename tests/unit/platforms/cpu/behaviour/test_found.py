"""Programs that the CPU once got wrong, found by drawing them at random."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.text import parse_module
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.noise import evaluated
from xladev.testing.random_inputs import random_arguments

FOUND = {
    "bitcast to another type of equal width": """
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  ROOT r = u32[3,2]{0,1} bitcast(x)
}""",
    "bitcast to a narrower type, in other layouts": """
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  ROOT r = s8[4,6]{0,1} bitcast(x)
}""",
    "bitcast to a wider type": """
ENTRY e {
  x = u8[4,6]{1,0} parameter(0)
  ROOT r = f16[3,4]{1,0} bitcast(x)
}""",
    "array constant within a fusion that was given": """
inner {
  p = s32[3] parameter(0)
  c = s32[3] constant({1, 2, 3})
  ROOT r = s32[3] add(p, c)
}
ENTRY e {
  x = s32[3] parameter(0)
  ROOT f = s32[3] fusion(x), kind=kLoop, calls=inner
}""",
    "fusion that was given holds what no kernel holds": """
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
inner {
  p = f32[5] parameter(0)
  s = f32[5] sort(p), dimensions={0}, to_apply=less
  ROOT r = f32[5] negate(s)
}
ENTRY e {
  x = f32[5] parameter(0)
  ROOT f = f32[5] fusion(x), kind=kLoop, calls=inner
}""",
    "total order of a type without negative zero, whose NaN comes first": """
ENTRY e {
  x = f8e5m2fnuz[6] constant({1, nan, 0, -1, nan, 2})
  y = f8e5m2fnuz[6] constant({nan, 1, nan, nan, nan, 2})
  ROOT r = pred[6] compare(x, y), direction=LT, type=TOTALORDER
}""",
    "f64 just above a tie of bf16": """
ENTRY e {
  x = f64[4] constant({1.00390625000001, -1.01171874999999, 1e-300, 1e300})
  ROOT r = bf16[4] convert(x)
}""",
    "f64 just beside ties of f8e5m2": """
ENTRY e {
  x = f64[4] constant({1.12500000000001, -1.37499999999999, 1e-300, 1e300})
  ROOT r = f8e5m2[4] convert(x)
}""",
    "integers just beside ties of bf16": """
ENTRY e {
  x = s64[6] constant({16842753, -16842753, 4629700416936869889, -4629700416936869889, 1, 3})
  ROOT r = bf16[6] convert(x)
}""",
    "f64 below all of f8e8m0fnu": """
ENTRY e {
  x = f64[2] constant({1e-300, 0})
  ROOT r = f8e8m0fnu[2] convert(x)
}""",
    "dynamic parameter that is a result beside what the CPU runs": """
ENTRY e {
  p = f32[<=2,3] parameter(0)
  q = f32[4] parameter(1)
  s = f32[4] negate(q)
  ROOT t = (f32[<=2,3], f32[4]) tuple(p, s)
}""",
    "products and quotients below all of f8e8m0fnu": """
ENTRY e {
  t = f32[2] constant({1.7014118e38, 1})
  h = f8e8m0fnu[2] convert(t)
  o = f32[2] constant({5.877472e-39, 5.877472e-39})
  l = f8e8m0fnu[2] convert(o)
  p = f8e8m0fnu[2] multiply(l, l)
  q = f8e8m0fnu[2] divide(l, h)
  ROOT r = (f8e8m0fnu[2], f8e8m0fnu[2]) tuple(p, q)
}""",
    "imaginary part in a type without zero": """
ENTRY e {
  p = f8e8m0fnu[3] parameter(0)
  ROOT r = f8e8m0fnu[3] imag(p)
}""",
    "a sign is rounded from double to half at once": """
ENTRY e {
  x = f16[1] parameter(0)
  y = f16[1] asin(x)
  ROOT r = f16[1] erf(y)
}""",
    "stochastic-convert to floats runs elsewhere": """
ENTRY e {
  x = f32[4] parameter(0)
  n = u32[4] parameter(1)
  ROOT r = bf16[4] stochastic-convert(x, n)
}""",
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
@pytest.mark.parametrize("wild", [False, True], ids=["tame", "wild"])
def test_program_once_wrong(text: str, wild: bool) -> None:
    module = parse_module(f"HloModule found\n{text}")
    arguments = random_arguments(module, 1, wild=wild)
    assert compare_with_evaluator(module, arguments, "cpu") is None


@pytest.mark.parametrize("dtype", [t for t in dt.FLOATS if t.bits in (8, 16)], ids=str)
def test_bitcast_convert_keeps_every_bit(dtype: dt.PrimitiveType) -> None:
    """Payloads of NaN too, signalling ones included."""
    bits = {8: dt.U8, 16: dt.U16}[dtype.bits]
    codes = np.arange(2**dtype.bits, dtype=bits.np)
    module = parse_module(
        f"HloModule m\nENTRY e {{ x = {dtype}[{codes.size}] parameter(0)\n"
        f"ROOT r = {bits}[{codes.size}] bitcast-convert(x) }}"
    )
    (got,) = run_on_platform(module, [codes.view(dtype.np)], "cpu")
    np.testing.assert_array_equal(got, codes)


def test_sign_of_infinite_complex_numbers() -> None:
    """As XLA: each part over the magnitude."""
    module = parse_module(
        "HloModule m\nENTRY e { x = c64[4] parameter(0)\nROOT r = c64[4] sign(x) }"
    )
    x = np.array([complex(np.inf, 1), complex(2, -np.inf), 0, 3 + 4j], np.complex64)
    (got,) = run_on_platform(module, [x], "cpu")
    want = evaluated(module, [x])[0]
    np.testing.assert_allclose(got.real, want.real, rtol=1e-6)
    np.testing.assert_allclose(got.imag, want.imag, rtol=1e-6)
