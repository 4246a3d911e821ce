"""Expensive values are not computed again for each element of a broadcast."""

from __future__ import annotations

import pytest

from tests.unit.compiler.fusion.test_instruction_fusion import fused, fusions
from xladev.compiler.fusion.repeated_values import LEAST_REPEATED

MANY = LEAST_REPEATED // 8 + 1
SPREAD = """v = f32[8] parameter(0)  x = f32[{dims}] parameter(1)
  s = f32[1,8] reshape({value})  r = f32[8] reshape(s)
  b = f32[{dims}] broadcast(r), dimensions={{{places}}}
  ROOT m = f32[{dims}] multiply(b, {other})"""


def spread(value: str, made: str, rows: int = MANY) -> str:
    text = SPREAD.format(value=value, dims=f"{rows},8", places="1", other="x")
    first, rest = text.split("\n", 1)
    return f"{first}\n{made}\n{rest}"


def test_a_sigmoid_behind_a_reshape_is_a_kernel_of_its_own() -> None:
    module = fused(spread("l", "a = f32[8] add(v, v)  l = f32[8] logistic(a)"))
    assert sorted(fusions(module)) == [2, 4]  # the sum and the sigmoid; reshapes and the rest


def test_so_is_one_behind_cheap_steps() -> None:
    module = fused(spread("n", "l = f32[8] logistic(v)  n = f32[8] negate(l)"))
    assert sorted(fusions(module)) == [5]
    assert "logistic" in [i.opcode for i in module.entry.instructions]


def test_values_that_are_repeated_a_few_times_join() -> None:
    """A kernel takes longer to begin than they take."""
    text = spread("l", "l = f32[8] logistic(v)", MANY - 1)
    assert fusions(fused(text)) == [5]


def test_cheap_values_join() -> None:
    assert fusions(fused(spread("a", "a = f32[8] add(v, v)"))) == [5]


@pytest.mark.parametrize("dims", ["1,8", "8"])
def test_a_broadcast_that_repeats_nothing_is_no_reason(dims: str) -> None:
    module = fused(f"""v = f32[8] parameter(0)  x = f32[{dims}] parameter(1)
      l = f32[8] logistic(v)  s = f32[2,4] reshape(l)  r = f32[8] reshape(s)
      b = f32[{dims}] broadcast(r), dimensions={{{dims.count(",")}}}
      ROOT m = f32[{dims}] multiply(b, x)""")
    assert fusions(module) == [5]
