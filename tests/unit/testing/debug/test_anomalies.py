"""The first NaN, infinity or window out of bounds is traced to the instruction that made it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.loops import around, counted
from xladev.hlo.literal import Value
from xladev.hlo.text import parse_module
from xladev.testing.debug.anomalies import first_anomaly

TURN = """o = f32[] constant(1)
  ob = f32[4] broadcast(o), dimensions={}
  y = f32[4] subtract(x, ob)
  l = f32[4] sqrt(y)
  unused = f32[4] multiply(l, ob)"""
LOOP = counted("f32[4]", TURN, 5) + around("f32[4]")


def _module(text: str) -> str:
    return f"HloModule m\nadd {{ a = f32[] parameter(0)\nb = f32[] parameter(1)\n{text}"


def test_a_nan_is_found_in_its_turn_of_the_loop() -> None:
    module = parse_module(LOOP)
    first, count = first_anomaly(module, [np.array([9, 8, 5, 3.5], np.float32)], "nan")
    assert first is not None
    assert first.instruction.opcode == "sqrt"
    assert [(c.name, iteration) for c, iteration in first.path] == [("e", 1), ("body", 4)]
    assert first.detail == "1 of 4 elements are NaN, first at [3]"
    assert first.operands == ("y: f32[4] from -0.5 to 5",)
    assert count == 2


def test_infinity_is_no_nan_and_operands_that_have_it_are_not_blamed() -> None:
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[3] parameter(0)\ny = f32[3] exponential(x)\n"
        "ROOT r = f32[3] negate(y) }"
    )
    values: list[Value] = [np.array([1, 200, 3], np.float32)]
    first, count = first_anomaly(module, values, "inf")
    assert first is not None
    assert first.instruction.opcode == "exponential"
    assert count == 1
    assert first_anomaly(module, values, "nan") == (None, 0)
    assert first_anomaly(module, [np.array([1, np.inf, 3], np.float32)], "inf") == (None, 0)


def test_constants_are_not_blamed_but_what_lets_them_through() -> None:
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[3] parameter(0)\nn = f32[] constant(nan)\n"
        "f = f32[3] broadcast(n), dimensions={}\nz = f32[] constant(0)\n"
        "zs = f32[3] broadcast(z), dimensions={}\np = pred[3] compare(x, zs), direction=GE\n"
        "ROOT r = f32[3] select(p, x, f) }"
    )
    assert first_anomaly(module, [np.ones(3, np.float32)], "nan") == (None, 0)
    first, _ = first_anomaly(module, [np.array([1, -1, 2], np.float32)], "nan")
    assert first is not None
    assert first.instruction.name == "r"
    assert first.detail == "1 of 3 elements are NaN, first at [1]"


@pytest.mark.parametrize(
    ("text", "arguments", "wanted"),
    [
        (
            "i = s32[] parameter(1)\nROOT r = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}",
            [np.int32(3)],
            "1 of 1 starts in dimension 0 are not in 0 to 2, such as 3: those windows are moved",
        ),
        (
            "u = f32[1] parameter(1)\ni = s32[] parameter(2)\n"
            "ROOT r = f32[4] dynamic-update-slice(x, u, i)",
            [np.zeros(1, np.float32), np.int32(-1)],
            "1 of 1 starts in dimension 0 are not in 0 to 3, such as -1",
        ),
        (
            "i = s32[3] parameter(1)\nROOT r = f32[3] gather(x, i), offset_dims={}, "
            "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
            [np.array([0, 7, 9], np.int32)],
            "2 of 3 starts in dimension 0 are not in 0 to 3, such as 7",
        ),
        (
            "i = s32[3] parameter(1)\nu = f32[3] parameter(2)\nROOT r = f32[4] scatter(x, i, u), "
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
            "index_vector_dim=1, to_apply=add",
            [np.array([0, 4, 1], np.int32), np.zeros(3, np.float32)],
            "1 of 3 starts in dimension 0 are not in 0 to 3, such as 4: those windows are skipped",
        ),
    ],
    ids=["dynamic-slice", "dynamic-update-slice", "gather", "scatter"],
)
def test_windows_out_of_bounds(text: str, arguments: list[Value], wanted: str) -> None:
    head = _module(f"ROOT c = f32[] add(a, b) }}\nENTRY e {{ x = f32[4] parameter(0)\n{text} }}")
    module = parse_module(head)
    first, _ = first_anomaly(module, [np.zeros(4, np.float32), *arguments], "bounds")
    assert first is not None
    assert first.detail.startswith(wanted)
    inside = [np.zeros_like(a) for a in arguments]
    assert first_anomaly(module, [np.zeros(4, np.float32), *inside], "bounds") == (None, 0)
