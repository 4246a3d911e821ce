"""Branches that are known, equal or compute what nobody reads."""

import pytest

from tests.unit.passes.checks import assert_same_values, assert_unchanged, opcodes, run
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.conditional_simplifier import ConditionalSimplifier

BRANCHES = """
HloModule m
f { p = (f32[2], f32[2]) parameter(0)  a = f32[2] get-tuple-element(p), index=0
  b = f32[2] get-tuple-element(p), index=1
  c = f32[2] add(a, b)  s = f32[2] sine(b)  ROOT r = (f32[2], f32[2]) tuple(c, s) }
g { q = (f32[2], f32[2]) parameter(0)  d = f32[2] get-tuple-element(q), index=0
  e = f32[2] negate(d)  o = f32[2] cosine(d)  ROOT t = (f32[2], f32[2]) tuple(e, o) }
"""


def switch(selector: str, branches: str, operands: str, rest: str) -> str:
    return f"""{BRANCHES}
    ENTRY main {{ x = f32[2] parameter(0)  y = f32[2] parameter(1)  n = s32[] parameter(2)
      k = {selector}  v = (f32[2], f32[2]) tuple(x, y)
      w = (f32[2], f32[2]) conditional(k, {operands}), branch_computations={{{branches}}}
      {rest} }}
    """


WHOLE = "ROOT z = (f32[2], f32[2]) opt-barrier(w)"
FIRST = "ROOT z = f32[2] get-tuple-element(w), index=0"


@pytest.mark.parametrize(
    ("number", "taken"), [(0, "sine"), (1, "cosine"), (-1, "cosine"), (9, "cosine")]
)
def test_a_known_branch_is_called(number: int, taken: str) -> None:
    text = switch(f"s32[] constant({number})", "f, g", "v, v", WHOLE)
    after = run(ConditionalSimplifier(), text)
    verify(after)
    assert "conditional" not in opcodes(after)
    assert taken in opcodes(after)
    assert_same_values(parse_module(text), after, 1)


def test_the_only_branch_and_equal_branches_are_called() -> None:
    for branches, operands in (("f", "v"), ("f, f", "v, v")):
        text = switch("s32[] copy(n)", branches, operands, WHOLE)
        assert "conditional" not in opcodes(run(ConditionalSimplifier(), text))


def test_pred_selects_the_first_branch_if_true() -> None:
    text = switch("s32[] copy(n)", "f, g", "v, v", WHOLE).replace(
        "branch_computations={f, g}", "true_computation=f, false_computation=g"
    )
    for value, taken in (("true", "sine"), ("false", "cosine")):
        after = run(
            ConditionalSimplifier(), text.replace("s32[] copy(n)", f"pred[] constant({value})")
        )
        assert taken in opcodes(after)


def test_unread_results_and_arguments_go() -> None:
    text = switch("s32[] copy(n)", "f, g", "v, v", FIRST)
    after = run(ConditionalSimplifier(), text)
    verify(after)
    assert not {"sine", "cosine"} & opcodes(after)
    (found,) = (i for i in after.entry.instructions if i.opcode == "conditional")
    assert [len(o.shape.tuple_shapes) for o in found.operands[1:]] == [2, 1]
    for seed in range(3):
        assert_same_values(parse_module(text), after, seed)


def test_whole_results_and_whole_arguments_stay() -> None:
    text = switch("s32[] copy(n)", "f, f", "v, u", WHOLE)
    assert_unchanged(
        ConditionalSimplifier(), text.replace("w =", "u = (f32[2], f32[2]) tuple(y, x)\nw =")
    )
