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


def test_special_values_count_for_complex_functions() -> None:
    text = "HloModule m\nENTRY e { x = c64[1] parameter(0)\nROOT r = c64[1] tanh(x) }"
    module = parse_module(text)
    assert known_difference(module, [np.array([1 + 1j], np.complex64)]) == ""
    assert "special values" in known_difference(module, [np.array([np.inf], np.complex64)])
