"""Cumulative reductions and long windows become a few steps over blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from xladev.hlo.evaluator import HloEvaluator
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
        text("100", "size=3 pad=1_1"),
        text("100,100", "size=2x2"),
        text("500", "size=500 pad=499_0", "subtract"),
        text("500", "size=500 pad=499_0 stride=499"),
        text("4000", "size=1000 stride=1000"),
    ],
)
def test_other_windows_are_left_alone(source: str) -> None:
    assert_unchanged(ReduceWindowRewriter(), source)


def test_what_is_spared_is_left_alone() -> None:
    spared = ReduceWindowRewriter(spares=lambda i: i.opcode == "reduce-window")
    assert_unchanged(spared, text("70", "size=70 pad=69_0"))


WINDOWS = [
    ("500", "size=100", "0"),
    ("500", "size=100", "3"),
    ("500", "size=33 pad=-2_40 lhs_dilate=2 rhs_dilate=3", "0"),
    ("500", "size=100 stride=3 pad=5_5", "0"),
    ("600", "size=600 pad=600_-1", "0"),
    ("600", "size=600 pad=-1_600", "0"),
    ("600", "size=700 pad=650_0", "0"),
    ("40,50", "size=7x9 pad=3_3x4_4", "0"),
    ("9,300,2", "size=2x40x2 pad=0_1x0_39x0_0", "0"),
    ("70,70", "size=70x70 pad=69_0x0_69", "0"),
]


@pytest.mark.parametrize(("dims", "window", "init"), WINDOWS)
@pytest.mark.parametrize(("opcode", "t"), [("add", "s32"), ("minimum", "u8"), ("xor", "s32")])
def test_windows_of_integers_stay_exact(
    dims: str, window: str, init: str, opcode: str, t: str, seed: int
) -> None:
    start = "255" if opcode == "minimum" and init == "0" else init
    source = text(dims, window, opcode, start, t)
    module = run(ReduceWindowRewriter(), source)
    verify(module)
    longest = max((w.size for i in module.entry.instructions
                   if i.opcode == "reduce-window" for w in i["window"]), default=0)  # fmt: skip
    assert longest <= 9
    assert_same_values(parse_module(source), module, seed)


def test_the_start_of_a_window_counts_where_it_is_not_neutral(seed: int) -> None:
    source = text("100", "size=100 pad=99_0", init="5", t="s32")
    assert_same_values(parse_module(source), run(ReduceWindowRewriter(), source), seed)


@pytest.mark.parametrize("opcode", ["add", "maximum"])
def test_nan_and_infinities_stay_in_their_windows(opcode: str) -> None:
    source = text("1000", "size=70 pad=10_10", opcode, "0" if opcode == "add" else "-inf")
    x = np.ones(1000, np.float32)
    x[300], x[600], x[620] = np.nan, np.inf, -np.inf
    module = run(ReduceWindowRewriter(), source)
    assert_same_values(parse_module(source), module, 0, given=[x])


def test_a_sum_is_as_near_as_one_by_one(seed: int) -> None:
    source = text("5000", "size=1000")
    x = (1e6 * np.random.default_rng(seed).standard_normal(5000)).astype(np.float32)
    x[::7] = 1e-3
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 1000)
    found = HloEvaluator().run(run(ReduceWindowRewriter(), source), x)
    roundings = 6 * 2 + 2
    bound = roundings * 2.0**-24 * np.abs(windows).sum(-1)
    assert (np.abs(found - windows.sum(-1)) <= bound).all()


PADDED = """
HloModule m
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = bf16[200] parameter(0)  z = bf16[] constant(VALUE)
  p = bf16[399] pad(x, z), padding=PAD
  w = f32[399] convert(p)  s = f32[] constant(0)
  ROOT r = f32[200] reduce-window(w, s), window={size=200}, to_apply=f }
"""


@pytest.mark.parametrize("pad", ["199_0", "0_199"])
def test_padding_before_a_conversion_is_padding_of_the_windows(pad: str, seed: int) -> None:
    source = PADDED.replace("VALUE", "0").replace("PAD", pad)
    joined = run(ReduceWindowRewriter(spares=lambda i: i.operands[0].opcode == "convert"), source)
    (window,) = (i for i in joined.entry.instructions if i.opcode == "reduce-window")
    assert window.operands[0].shape.dims == (200,)
    (dim,) = window["window"]
    assert (dim.pad_low, dim.pad_high) == tuple(map(int, pad.split("_")))
    assert_same_values(parse_module(source), joined, seed)


@pytest.mark.parametrize(("value", "pad"), [("1", "199_0"), ("0", "150_49")])
def test_other_padding_stays_an_instruction(value: str, pad: str, seed: int) -> None:
    source = PADDED.replace("VALUE", value).replace("PAD", pad)
    after = run(ReduceWindowRewriter(), source)
    assert "pad" in opcodes(after)

    def near(want: np.ndarray, got: np.ndarray) -> None:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)

    assert_same_values(parse_module(source), after, seed, compare=near)
