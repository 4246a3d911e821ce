"""Window reductions and reductions of any reducer, against their direct definitions."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, assert_near, expanded
from xladev.hlo.text import parse_module

ADD = "f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
WINDOWS = [
    "size=3x2 stride=2x1 pad=1_1x0_1",
    "size=3x2 lhs_dilate=2x3 rhs_dilate=2x1 pad=0_2x1_0",
    "size=2x2 pad=-1_0x0_-2",
    "size=9x8 pad=8_0x0_7",
]


@pytest.mark.parametrize("window", WINDOWS)
def test_reduce_window(window: str, seed: int) -> None:
    text = (
        f"HloModule m\n{ADD}\nENTRY e {{ x = f32[9,8] parameter(0)  z = f32[] parameter(1)\n"
        f"ROOT r = reduce-window(x, z), window={{{window}}}, to_apply=f }}"
    )
    assert_near(text, seed, eps=200)


ARGMAX = """
HloModule m
f { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
    p = pred[] compare(a, b), direction=GE
    v = f32[] select(p, a, b)  k = s32[] select(p, i, j)  ROOT t = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[5,7,3] parameter(0)  y = s32[5,7,3] parameter(1)  u = f32[] parameter(2)
  w = s32[] parameter(3)
  ROOT r = (f32[7], s32[7]) reduce(x, y, u, w), dimensions={0,2}, to_apply=f }
"""


def test_reduce_of_several_operands_takes_few_steps(seed: int) -> None:
    assert len(expanded(parse_module(ARGMAX)).instructions) < 80
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((5, 7, 3)).astype(np.float32)
    numbers = np.arange(105, dtype=np.int32).reshape(5, 7, 3)
    assert_exact(ARGMAX, 0, values, numbers, np.array(-np.inf, np.float32), np.array(0, np.int32))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64])
def test_reduce_uses_the_initial_value_once(count: int, seed: int) -> None:
    text = (
        f"HloModule m\n{ADD}\nENTRY e {{ x = f32[{count},3] parameter(0)  z = f32[] parameter(1)\n"
        "ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=f }"
    )
    assert_near(text, seed)


def test_select_and_scatter_chooses_the_first_of_equals(seed: int) -> None:
    text = """
    HloModule m
    ge { a = s32[] parameter(0)  b = s32[] parameter(1)
         ROOT c = pred[] compare(a, b), direction=GE }
    f { d = s32[] parameter(0)  e.1 = s32[] parameter(1)  ROOT g = s32[] add(d, e.1) }
    ENTRY e { x = s32[6,7] parameter(0)  s = s32[3,4] parameter(1)  z = s32[] parameter(2)
      ROOT r = s32[6,7] select-and-scatter(x, s, z), window={size=3x2 stride=2x2 pad=1_0x1_0},
        select=ge, scatter=f }
    """
    assert_exact(text, seed)
