"""Programs that meet a difference on record are not compared with XLA; others are."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.hlo.text import parse_module
from xladev.testing.xla_differences import known_difference


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = f32[2] parameter(0)\nROOT r = f32[2] sine(x)", ""),
        ("x = c64[2] parameter(0)\nROOT r = c64[2] sine(x)", "sine"),
        ("x = s4[2] parameter(0)\nROOT r = s4[2] popcnt(x)", "popcnt"),
        ("x = f32[2] parameter(0)\nROOT r = f4e2m1fn[2] convert(x)", "zero or NaN in f4e2m1fn"),
        ("x = f32[2,3]{1,0} parameter(0)\nROOT r = f32[6] bitcast(x)", ""),
        ("x = f32[2,3]{0,1} parameter(0)\nROOT r = f32[6] bitcast(x)", "bitcast"),
        ("x = f32[2] constant({1e-40, 1})\nROOT r = f32[2] negate(x)", "subnormal numbers"),
        ("x = f8e3m4[2] constant({1, 0.5})\nROOT r = f8e3m4[2] round-nearest-afz(x)", "round-"),
        ("x = u1[2] parameter(0)\nROOT r = u1[2] reverse(x), dimensions={0}", "integers of one"),
    ],
)
def test_known_difference(code: str, reason: str) -> None:
    found = known_difference(parse_module(f"HloModule m\nENTRY e {{ {code} }}"), [])
    assert found.startswith(reason) if reason else found == ""


COMBINERS = """
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
g { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
h { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
    ROOT r = (f32[], f32[]) tuple(a, d) }
"""


@pytest.mark.parametrize(
    ("sizes", "window", "differs"),
    [
        ((4, 4), "size=2x2 pad=1_0x1_2", True),  # the last window of a row: padding alone
        ((4, 4), "size=2x2 pad=1_0x2_1", True),
        ((2, 1), "size=2x2 stride=2x2", False),
        ((4, 2), "size=2x2 pad=1_0x0_1", False),
        ((2, 1), "size=2x2 stride=3x2 pad=1_0x0_0", True),  # rows 1 and 4 are in no window
        ((3, 1), "size=2x2 pad=0_0x0_0", False),
    ],
)
def test_selection_of_windows_that_miss_the_array(
    sizes: tuple[int, int], window: str, differs: bool
) -> None:
    module = parse_module(f"""HloModule m
{COMBINERS}
ENTRY e {{
  x = f32[4,2] parameter(0)
  y = f32[{sizes[0]},{sizes[1]}] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[4,2] select-and-scatter(x, y, z), window={{{window}}}, select=g, scatter=f
}}""")
    assert known_difference(module, []) == ("select-and-scatter" if differs else "")


@pytest.mark.parametrize("several", [False, True])
def test_scatter_into_several_operands(several: bool) -> None:
    operands, updates, combiner = ("x, x", "u, u", "h") if several else ("x", "u", "f")
    result = "(f32[4], f32[4])" if several else "f32[4]"
    module = parse_module(f"""HloModule m
{COMBINERS}
ENTRY e {{
  x = f32[4] parameter(0)
  i = s32[3,1] parameter(1)
  u = f32[3] parameter(2)
  ROOT r = {result} scatter({operands}, i, {updates}), update_window_dims={{}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply={combiner}
}}""")
    assert known_difference(module, []) == ("scatter" if several else "")


def test_special_values_count_for_complex_functions() -> None:
    text = "HloModule m\nENTRY e { x = c64[1] parameter(0)\nROOT r = c64[1] tanh(x) }"
    module = parse_module(text)
    assert known_difference(module, [np.array([1 + 1j], np.complex64)]) == ""
    assert "special values" in known_difference(module, [np.array([np.inf], np.complex64)])
