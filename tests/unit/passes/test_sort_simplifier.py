"""Sorts of nothing, and arrays moved along for nobody."""

from tests.unit.passes.checks import assert_becomes, assert_same_values, assert_unchanged, run
from xladev.hlo.text import parse_module
from xladev.passes.sort_simplifier import SortSimplifier

LESS = """
HloModule m
less { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)
  d = s32[] parameter(3)  e = s8[] parameter(4)  f = s8[] parameter(5)
  unused = pred[] compare(c, d), direction=LT
  ROOT l = pred[] compare(a, b), direction=LT }
"""


def sort(after: str) -> str:
    """A module that sorts three arrays by the first of them."""
    return f"""{LESS}
    ENTRY main {{ x = f32[9] parameter(0)  y = s32[9] parameter(1)  z = s8[9] parameter(2)
      s = (f32[9], s32[9], s8[9]) sort(x, y, z), dimensions={{0}}, is_stable=true, to_apply=less
      {after} }}
    """


def test_arrays_that_nobody_reads_go() -> None:
    text = sort("ROOT r = s8[9] get-tuple-element(s), index=2")
    after = run(SortSimplifier(), text)
    smaller = after.entry.root.operands[0]
    assert [o.name for o in smaller.operands] == ["x", "z"]
    assert len(smaller["to_apply"].parameters) == 4
    assert_same_values(parse_module(text), after, 1)


def test_one_array_left_is_no_tuple() -> None:
    after = run(SortSimplifier(), sort("ROOT r = f32[9] get-tuple-element(s), index=0"))
    assert after.entry.root.opcode == "sort"
    assert len(after.entry.root.operands) == 1


def test_what_is_read_or_compared_stays() -> None:
    parts = "p = s32[9] get-tuple-element(s), index=1  q = s8[9] get-tuple-element(s), index=2\n"
    assert_unchanged(SortSimplifier(), sort(parts + "ROOT r = (s32[9], s8[9]) tuple(p, q)"))
    assert_unchanged(SortSimplifier(), sort("ROOT r = (f32[9], s32[9], s8[9]) opt-barrier(s)"))


def test_one_element_is_sorted() -> None:
    assert_becomes(
        SortSimplifier(),
        """
        HloModule m
        less { a = f32[] parameter(0)  b = f32[] parameter(1)
          ROOT l = pred[] compare(a, b), direction=LT }
        ENTRY main { x = f32[5,1] parameter(0)
          s = f32[5,1] sort(x), dimensions={1}, to_apply=less
          ROOT r = f32[5,1] negate(s) }
        """,
        "HloModule m\nENTRY main { x = f32[5,1] parameter(0)  ROOT r = f32[5,1] negate(x) }",
    )


def test_a_tuple_of_sorted_elements() -> None:
    text = sort("ROOT r = (f32[9], s32[9], s8[9]) opt-barrier(s)").replace("[9]", "[1]")
    assert run(SortSimplifier(), text).entry.root.operands[0].opcode == "tuple"
