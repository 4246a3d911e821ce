"""Reducers that may combine in any grouping, by their opcode or by trial."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.passes.windows.combiner import combiner_of

LOG_ADD = """
f { a = f32[] parameter(0)  b = f32[] parameter(1)  m = maximum(a, b)  d = subtract(a, b)
  n = pred[] compare(d, d), direction=NE  s = add(a, b)  l = abs(d)  g = negate(l)
  x = exponential(g)  p = log-plus-one(x)  t = add(m, p)  ROOT c = select(n, s, t) }
"""
FIRST_GREATEST = """
f { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT  n = pred[] compare(a, a), direction=NE
  e = pred[] compare(a, b), direction=EQ  l = pred[] compare(i, j), direction=LT
  first = pred[] or(g, n)  tie = pred[] and(e, l)  both = pred[] or(first, tie)
  v = select(first, a, b)  k = select(both, i, j)  ROOT t = (f32[], s32[]) tuple(v, k) }
"""


def opcode(name: str, t: str = "f32") -> str:
    return f"f {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT c = {t}[] {name}(a, b) }}"


def window(reducer: str, init: str = "0", t: str = "f32") -> HloInstruction:
    text = (
        f"HloModule m\n{reducer}\nENTRY e {{ x = {t}[9] parameter(0)  z = {t}[] constant({init})\n"
        "ROOT r = reduce-window(x, z), window={size=2}, to_apply=f }"
    )
    return parse_module(text).entry.root


@pytest.mark.parametrize(
    ("name", "t", "init", "neutral"),
    [("add", "f32", "0", 0.0), ("multiply", "s8", "1", 1), ("maximum", "bf16", "7", -np.inf),
     ("minimum", "u8", "0", 255), ("maximum", "s16", "3", -32768), ("and", "u8", "1", 255),
     ("or", "pred", "false", False), ("add", "c64", "(0, 0)", 0)],
)  # fmt: skip
def test_what_an_opcode_is_neutral_with(name: str, t: str, init: str, neutral: object) -> None:
    found = combiner_of(window(opcode(name, t), init, t))
    assert found is not None
    assert found.opcode == name
    assert found.neutral[0] == neutral


@pytest.mark.parametrize(
    ("name", "init", "neutral", "starts"),
    [("add", "0", True, True), ("add", "5", False, True), ("maximum", "-inf", True, False),
     ("maximum", "0", False, True)],
)  # fmt: skip
def test_when_the_initial_value_must_be_combined(
    name: str, init: str, neutral: bool, starts: bool
) -> None:
    found = combiner_of(window(opcode(name), init))
    assert found is not None
    assert (found.starts_neutral, found.starts) == (neutral, starts)


def test_a_logarithm_of_a_sum_is_associative() -> None:
    found = combiner_of(window(LOG_ADD, "-inf"))
    assert found is not None
    assert not found.opcode
    assert combiner_of(window(LOG_ADD, "1")) is None


@pytest.mark.parametrize("name", ["subtract", "divide", "power", "atan2"])
def test_what_is_not_associative_is_left_alone(name: str) -> None:
    assert combiner_of(window(opcode(name))) is None


def test_several_arrays() -> None:
    text = """
    HloModule m
    %s
    ENTRY e { x = f32[9] parameter(0)  y = s32[9] parameter(1)  u = f32[] constant(-inf)
      w = s32[] constant(2147483647)
      ROOT r = (f32[8], s32[8]) reduce-window(x, y, u, w), window={size=2}, to_apply=f }
    """
    found = combiner_of(parse_module(text % FIRST_GREATEST).entry.root)
    assert found is not None
    assert len(found.neutral) == 2
    last = FIRST_GREATEST.replace("i, j), direction=LT", "i, j), direction=GT")
    assert combiner_of(parse_module(text % last).entry.root) is None  # the start wins ties


def test_narrow_floats_are_combined_in_f32() -> None:
    found = combiner_of(window(opcode("add", "bf16"), t="bf16"))
    assert found is not None
    assert [p.shape.element_type.name for p in found.computation().parameters] == ["f32"] * 2
