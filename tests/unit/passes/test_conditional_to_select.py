"""Cheap conditionals on scalars become selects."""

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from xladev.hlo.text import parse_module
from xladev.passes.conditional_to_select import ConditionalToSelect

BRANCHES = """
HloModule m
one { a = (f32[], f32[]) parameter(0)  b = f32[] get-tuple-element(a), index=0
      c = f32[] get-tuple-element(a), index=1  d = f32[] add(b, c)
      ROOT t = (f32[], f32[]) tuple(d, b) }
two { e = f32[] parameter(0)  f = f32[] negate(e)  ROOT u = (f32[], f32[]) tuple(f, e) }
"""
ENTRY = """
ENTRY main {{ p = {selector} parameter(0)  x = f32[] parameter(1)
  y = (f32[], f32[]) tuple(x, x)
  ROOT r = (f32[], f32[]) conditional(p, y, x{more}), {branches} }}
"""


@pytest.mark.parametrize("selector", [True, False])
def test_two_branches(selector: bool, seed: int) -> None:
    text = BRANCHES + ENTRY.format(
        selector="pred[]", more="", branches="true_computation=one, false_computation=two"
    )
    module = run(ConditionalToSelect(), text)
    assert "conditional" not in opcodes(module)
    given = [np.array(selector), np.array(1.5, np.float32)]
    assert_same_values(parse_module(text), module, seed, given=given)


@pytest.mark.parametrize("selector", [-1, 0, 1, 2, 7])
def test_an_index_out_of_range_takes_the_last_branch(selector: int, seed: int) -> None:
    text = BRANCHES + ENTRY.format(
        selector="s32[]", more=", y", branches="branch_computations={one, two, one}"
    )
    module = run(ConditionalToSelect(), text)
    given = [np.array(selector, np.int32), np.array(1.5, np.float32)]
    assert_same_values(parse_module(text), module, seed, given=given)


def test_branches_on_arrays_stay() -> None:
    assert_unchanged(
        ConditionalToSelect(),
        """
        HloModule m
        one { a = f32[9] parameter(0)  ROOT b = f32[9] sine(a) }
        two { c = f32[9] parameter(0)  ROOT d = f32[9] cosine(c) }
        ENTRY main { p = pred[] parameter(0)  x = f32[9] parameter(1)
          ROOT r = f32[9] conditional(p, x, x), true_computation=one, false_computation=two }
        """,
    )
