"""Patterns match what they say, and say why they do not."""

from __future__ import annotations

import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.passes import pattern as m


def instructions(body: str) -> dict[str, HloInstruction]:
    """Instructions by name of an entry with parameters x and y: f32[2]."""
    text = f"HloModule m\nENTRY e {{ x = f32[2] parameter(0)  y = f32[2] parameter(1)\n{body} }}"
    return {i.name: i for i in parse_module(text).entry.instructions}


def test_captures_and_order() -> None:
    found = instructions("z = f32[] constant(0)  b = f32[2] broadcast(z)  r = f32[2] add(b, x)")
    match = m.Add(m.Op("v"), m.All(0)).match(found["r"])
    assert match is not None
    assert match["v"] is found["x"]


def test_operands_that_do_not_commute_keep_their_order() -> None:
    found = instructions(
        "z = f32[] constant(0)  b = f32[2] broadcast(z)  r = f32[2] subtract(b, x)"
    )
    assert m.Subtract(m.Op(), m.All(0)).match(found["r"]) is None
    assert m.Subtract(m.All(0), m.Op()).match(found["r"]) is not None


def test_one_capture_is_one_instruction() -> None:
    found = instructions("a = f32[2] subtract(x, x)  b = f32[2] subtract(x, y)")
    pattern = m.Subtract(m.Op("v"), m.Op("v"))
    assert pattern.match(found["a"]) is not None
    assert pattern.match(found["b"]) is None
    assert pattern.explain(found["b"]) == "y is not x, captured as the same"


def test_captures_of_a_failed_order_are_forgotten() -> None:
    found = instructions("n = f32[2] negate(x)  r = f32[2] add(x, n)")
    match = m.Add(m.Negate(m.Op("v")), m.Op("w")).match(found["r"])
    assert match is not None
    assert (match["v"], match["w"]) == (found["x"], found["x"])


def test_both_orders_are_tried_with_all_that_follows() -> None:
    found = instructions("s = f32[2] add(x, y)  r = f32[2] subtract(s, x)")
    match = m.Subtract(m.Add(m.Op("v"), m.Op("w")), m.Op("w")).match(found["r"])
    assert match is not None
    assert (match["v"], match["w"]) == (found["y"], found["x"])


def test_instructions_between_are_seen_through() -> None:
    found = instructions(
        "n = f32[2] negate(x)  a = f32[1,2] reshape(n)  b = f32[2,1] transpose(a), "
        "dimensions={1,0}  c = f32[2] reshape(b)  r = f32[2] add(y, c)"
    )
    pattern = m.Add(m.Op("y"), m.Negate(m.Op(), capture="n").behind("reshape", "transpose"))
    match = pattern.match_all(found["r"])
    assert match is not None
    assert match[0]["n"] is found["n"]
    assert set(match[1]) == {found[name] for name in "rcban"}
    shallow = m.Add(m.Op("y"), m.Negate(m.Op()).behind("reshape"))
    assert shallow.match(found["r"]) is None
    assert "b is transpose, not negate" in shallow.explain(found["r"])
    assert m.Negate(m.Op()).behind("reshape", "transpose").match(found["c"]) is not None


def test_zero_is_not_minus_zero() -> None:
    found = instructions("a = f32[] constant(0)  b = f32[] constant(-0)  c = f32[] constant(1)")
    assert m.ConstantScalar(0).match(found["a"]) is not None
    assert m.ConstantScalar(0).match(found["b"]) is None
    assert m.ConstantScalar(-0.0).match(found["b"]) is not None
    assert m.ConstantScalar().match(found["c"]) is not None


def test_a_value_that_the_type_cannot_hold_matches_nothing() -> None:
    found = instructions("a = u8[] constant(0)  b = s32[] constant(2)")
    assert m.All(256).match(found["a"]) is None
    assert m.All(2.5).match(found["b"]) is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (m.Subtract(m.Op(), m.Op()), "r is add, not subtract"),
        (m.Opcode("add").typed(dt.F64), "r is add, not of type f64"),
        (m.Opcode("add").shaped(3), "r is add, not of [3]"),
        (m.Opcode("add").ranked(2), "r is add, not of rank 2"),
        (m.Add(m.Negate(m.Op()), m.Op()), "x is parameter, not negate; or y is parameter, not"),
        (m.Add(m.Op().one_use(), m.Op().one_use()), "x has 2 uses, not one"),
    ],
)
def test_refusals_are_explained(pattern: m.Pattern, reason: str) -> None:
    found = instructions("n = f32[2] negate(x)  r = f32[2] add(x, y)")
    uses = {found["x"]: 2, found["y"]: 1, found["r"]: 1}
    assert pattern.match(found["r"], uses.__getitem__) is None
    assert reason in pattern.explain(found["r"], uses.__getitem__)


def test_attributes_are_matched() -> None:
    found = instructions("a = pred[2] compare(x, y), direction=LT")
    assert m.Compare(m.Op(), m.Op()).having(direction="LT").match(found["a"]) is not None
    assert m.Compare(m.Op(), m.Op()).having(direction="GT").match(found["a"]) is None
