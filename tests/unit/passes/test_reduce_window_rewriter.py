"""Cumulative reductions become a few steps over blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter


def text(dims: str, window: str, opcode: str = "add", init: str = "0", t: str = "f32") -> str:
    return f"""
    HloModule m
    f {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT c = {t}[] {opcode}(a, b) }}
    ENTRY e {{ x = {t}[{dims}] parameter(0)  z = {t}[] constant({init})
      ROOT r = reduce-window(x, z), window={{{window}}}, to_apply=f }}
    """


CUMULATIVE = [
    ("64", "size=64 pad=63_0"),
    ("65", "size=65 pad=0_64"),
    ("3,1500", "size=1x1500 pad=0_0x1499_0"),
    ("1100,2", "size=1100x1 pad=0_1099x0_0"),
]


@pytest.mark.parametrize(("dims", "window"), CUMULATIVE)
@pytest.mark.parametrize(
    ("opcode", "init"), [("add", "0"), ("maximum", "-inf"), ("minimum", "inf")]
)
def test_values_stay(dims: str, window: str, opcode: str, init: str, seed: int) -> None:
    source = text(dims, window, opcode, init)
    module = run(ReduceWindowRewriter(), source)
    verify(module)
    assert "reduce-window" not in opcodes(module)
    assert module.instruction_count < 80

    def near(want: np.ndarray, got: np.ndarray) -> None:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)

    assert_same_values(parse_module(source), module, seed, compare=near)


def test_integers_stay_exact(seed: int) -> None:
    source = text("300", "size=300 pad=299_0", t="s32")
    assert_same_values(parse_module(source), run(ReduceWindowRewriter(), source), seed)


@pytest.mark.parametrize(
    "source",
    [
        text("32", "size=32 pad=31_0"),
        text("100", "size=100 pad=99_0", init="5"),
        text("100", "size=99 pad=98_0"),
        text("100", "size=100 pad=50_49"),
        text("100", "size=100 pad=99_0 stride=2"),
        text("100", "size=100 pad=99_0", "subtract"),
    ],
)
def test_other_windows_are_left_alone(source: str) -> None:
    assert_unchanged(ReduceWindowRewriter(), source)


def test_what_is_spared_is_left_alone() -> None:
    spared = ReduceWindowRewriter(spares=lambda i: i.opcode == "reduce-window")
    assert_unchanged(spared, text("70", "size=70 pad=69_0"))
