"""Which windows accumulate, and which are worth steps over blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, run
from tests.unit.passes.windows.test_combiner import FIRST_GREATEST, LOG_ADD
from xladev.hlo.attributes import WindowDim
from xladev.hlo.text import parse_module
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter
from xladev.passes.windows.sliding import direction_of


@pytest.mark.parametrize(
    ("w", "wanted"),
    [
        (WindowDim(100, pad_low=99), False),
        (WindowDim(100, pad_high=99), True),
        (WindowDim(100, pad_low=100, pad_high=-1), False),
        (WindowDim(100, pad_low=-1, pad_high=100), True),
        (WindowDim(150, pad_low=149), False),
        (WindowDim(100, pad_low=98), False),
        (WindowDim(100, pad_low=97, pad_high=2), None),
        (WindowDim(100, pad_low=50, pad_high=49), None),
        (WindowDim(99, pad_low=98), None),
        (WindowDim(100, stride=2, pad_low=99), None),
        (WindowDim(100), None),
    ],
)
def test_the_direction_of_an_accumulation(w: WindowDim, wanted: bool | None) -> None:
    assert direction_of(w, 100) is wanted


def _near(want: np.ndarray, got: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("w", ["size=300 pad=299_0", "size=300 pad=0_299", "size=100 pad=7_9"])
def test_a_reducer_of_several_instructions(w: str, seed: int) -> None:
    source = (
        f"HloModule m\n{LOG_ADD}\nENTRY e {{ x = f32[300] parameter(0)\n"
        f"z = f32[] constant(-inf)  ROOT r = reduce-window(x, z), window={{{w}}}, to_apply=f }}"
    )
    module = run(ReduceWindowRewriter(), source)
    assert "reduce-window" not in {i.opcode for i in module.entry.instructions}
    assert_same_values(parse_module(source), module, seed, compare=_near)


@pytest.mark.parametrize("w", ["size=500 pad=499_0", "size=40 pad=20_19", "size=50 rhs_dilate=2"])
def test_several_arrays_keep_the_first_of_equals(w: str, seed: int) -> None:
    count = 500 - 98 if "dilate" in w else 500
    source = (
        f"HloModule m\n{FIRST_GREATEST}\nENTRY e {{ x = f32[500] parameter(0)\n"
        "y = s32[500] iota(), iota_dimension=0  u = f32[] constant(-inf)\n"
        f"v = s32[] constant(2147483647)  ROOT r = (f32[{count}], s32[{count}]) "
        f"reduce-window(x, y, u, v), window={{{w}}}, to_apply=f }}"
    )
    x = np.random.default_rng(seed).integers(0, 5, 500).astype(np.float32)
    module = run(ReduceWindowRewriter(), source)
    assert "reduce-window" not in {i.opcode for i in module.entry.instructions}
    assert_same_values(parse_module(source), module, seed, given=[x])


FIRST_NONZERO = """
f { a = s32[] parameter(0)  b = s32[] parameter(1)  z = s32[] constant(0)
  p = pred[] compare(a, z), direction=NE  ROOT c = select(p, a, b) }
"""


@pytest.mark.parametrize("w", ["size=300 pad=299_0", "size=300 pad=0_299", "size=100 pad=7_9"])
def test_elements_keep_their_order(w: str, seed: int) -> None:
    source = (
        f"HloModule m\n{FIRST_NONZERO}\nENTRY e {{ x = s32[300] parameter(0)\n"
        f"z = s32[] constant(0)  ROOT r = reduce-window(x, z), window={{{w}}}, to_apply=f }}"
    )
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 99, 300).astype(np.int32) * (rng.random(300) < 0.1)
    module = run(ReduceWindowRewriter(), source)
    assert "reduce-window" not in {i.opcode for i in module.entry.instructions}
    assert_same_values(parse_module(source), module, seed, given=[x.astype(np.int32)])
