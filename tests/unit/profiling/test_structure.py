"""Programs are compared by what they compute: names and order do not count."""

from __future__ import annotations

from tests.unit.loops import around, counted
from xladev.hlo.text import parse_module
from xladev.profiling.structure import differences

BEFORE = """p = f32[4] exponential(given)
  first = f32[4] negate(p)"""
BASE = (
    "HloModule a\n" + counted("f32[4]", "y = f32[4] sine(x)", 5) + around("f32[4]", before=BEFORE)
)


def _changed(old: str, new: str) -> tuple[list[str], list[str], int]:
    assert old in BASE
    found = differences(parse_module(BASE), parse_module(BASE.replace(old, new)))
    removed = [i.name for d in found for i in d.removed]
    added = [i.opcode for d in found for i in d.added]
    return removed, added, sum(len(d.rewired) for d in found)


def test_names_are_no_difference() -> None:
    names = {"HloModule a": "HloModule b", "p = ": "v = ", "negate(p)": "negate(v)"}
    other = BASE
    for old, new in names.items():
        other = other.replace(old, new)
    assert differences(parse_module(BASE), parse_module(other)) == ()


def test_one_opcode_is_one_difference_whatever_it_feeds() -> None:
    assert _changed("exponential(given)", "logistic(given)") == (["p"], ["logistic"], 0)


def test_a_difference_within_a_loop_is_shown_in_the_loop() -> None:
    found = differences(parse_module(BASE), parse_module(BASE.replace("sine", "cosine")))
    assert [d.first.name for d in found if not d.is_empty] == ["body"]
    assert [i.opcode for i in found[-1].removed] == ["sine"]
    assert found[0].fed == 2


def test_other_operands_are_rewiring() -> None:
    assert _changed("negate(p)", "negate(given)")[2] == 1


def test_copies_of_one_value_are_interchangeable() -> None:
    """Either copy feeds either reader: nothing that computes the same has other operands."""
    text = """HloModule m
ENTRY e {{ x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(x)
  s = f32[4] sine({0})
  c = f32[4] cosine({1})
  d = f32[4] {2}(x)
  ROOT r = (f32[4], f32[4], f32[4]) tuple(s, c, d) }}
"""
    first, second = text.format("a", "b", "sqrt"), text.format("b", "a", "cbrt")
    (found,) = differences(parse_module(first), parse_module(second))
    assert (found.same, found.fed) == (5, 1)
    assert [i.name for i in (*found.removed, *found.added)] == ["d", "d"]
    assert found.rewired == ()
