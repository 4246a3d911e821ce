"""Rules of logic."""

import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.passes.algebra import logic as g

CASES = (
    Case(g.bits_of_itself, "x: u8[4] | ROOT r = u8[4] and(x, x)", "x"),
    Case(
        g.and_zero,
        "x: pred[4] | z = pred[] constant(false)  b = pred[4] broadcast(z)  "
        "ROOT r = pred[4] and(b, x)",
        "z = pred[] constant(false)  ROOT b = pred[4] broadcast(z)",
    ),
    Case(g.or_zero, "x: s8[] | z = s8[] constant(0)  ROOT r = s8[] xor(x, z)", "x"),
    Case(g.and_ones, "x: s8[] | o = s8[] constant(-1)  ROOT r = s8[] and(x, o)", "x"),
    Case(g.and_ones, "x: u4[] | o = u4[] constant(15)  ROOT r = u4[] and(x, o)", "x"),
    Case(g.and_ones, "x: u8[] | o = u8[] constant(15)  ROOT r = u8[] and(x, o)"),
    Case(
        g.or_ones,
        "x: pred[] | o = pred[] constant(true)  ROOT r = pred[] or(x, o)",
        "ROOT o = pred[] constant(true)",
    ),
    Case(
        g.xor_ones,
        "x: u16[] | o = u16[] constant(65535)  ROOT r = u16[] xor(o, x)",
        "ROOT r = u16[] not(x)",
    ),
    Case(
        g.xor_itself,
        "x: s32[2] | ROOT r = s32[2] xor(x, x)",
        "z = s32[] constant(0)  ROOT r = s32[2] broadcast(z)",
    ),
    Case(g.xor_again, "x: s8[]; y: s8[] | i = s8[] xor(y, x)  ROOT r = s8[] xor(i, x)", "y"),
    Case(
        g.absorb,
        "x: s8[]; y: s8[] | i = s8[] and(y, x)  ROOT r = s8[] and(x, i)",
        "ROOT i = s8[] and(y, x)",
    ),
    Case(g.absorb, "x: s8[]; y: s8[] | i = s8[] or(y, x)  ROOT r = s8[] and(x, i)", "x"),
    Case(g.not_twice, "x: pred[2] | i = pred[2] not(x)  ROOT r = pred[2] not(i)", "x"),
    Case(
        g.shift_by_nothing,
        "x: s8[] | z = s8[] constant(0)  ROOT r = s8[] shift-right-arithmetic(x, z)",
        "x",
    ),
    Case(
        g.shift_of_nothing,
        "x: s8[] | z = s8[] constant(0)  ROOT r = s8[] shift-left(z, x)",
        "ROOT z = s8[] constant(0)",
    ),
    Case(
        g.shift_everything_out,
        "x: s8[] | n = s8[] constant(-1)  ROOT r = s8[] shift-left(x, n)",
        "ROOT z = s8[] constant(0)",
    ),
    Case(
        g.shift_everything_out,
        "x: u4[] | n = u4[] constant(4)  ROOT r = u4[] shift-right-logical(x, n)",
        "ROOT z = u4[] constant(0)",
    ),
    Case(
        g.shift_everything_out,
        "x: u8[] | n = u8[] constant(7)  ROOT r = u8[] shift-right-logical(x, n)",
    ),
    Case(
        g.compare_with_itself,
        "x: s8[3] | ROOT r = pred[3] compare(x, x), direction=LE",
        "t = pred[] constant(true)  ROOT r = pred[3] broadcast(t)",
    ),
    Case(
        g.compare_with_itself,
        "x: pred[] | ROOT r = pred[] compare(x, x), direction=NE",
        "ROOT r = pred[] constant(false)",
    ),
    Case(g.compare_with_itself, "x: f32[] | ROOT r = pred[] compare(x, x), direction=EQ"),
    Case(
        g.compare_unsigned_with_zero,
        "x: u8[] | z = u8[] constant(0)  ROOT r = pred[] compare(x, z), direction=GE",
        "ROOT r = pred[] constant(true)",
    ),
    Case(
        g.compare_unsigned_with_zero,
        "x: u8[] | z = u8[] constant(0)  ROOT r = pred[] compare(z, x), direction=GT",
        "ROOT r = pred[] constant(false)",
    ),
    Case(
        g.compare_unsigned_with_zero,
        "x: u8[] | z = u8[] constant(0)  ROOT r = pred[] compare(x, z), direction=GT",
    ),
    Case(
        g.compare_unsigned_with_zero,
        "x: s8[] | z = s8[] constant(0)  ROOT r = pred[] compare(x, z), direction=GE",
    ),
    Case(
        g.compare_pred,
        "x: pred[] | t = pred[] constant(true)  ROOT r = pred[] compare(t, x), direction=EQ",
        "x",
    ),
    Case(
        g.compare_pred,
        "x: pred[] | t = pred[] constant(true)  ROOT r = pred[] compare(x, t), direction=NE",
        "ROOT r = pred[] not(x)",
    ),
    Case(
        g.compare_pred,
        "x: pred[] | t = pred[] constant(true)  ROOT r = pred[] compare(x, t), direction=LT",
    ),
    Case(
        g.not_compare,
        "x: s8[]; y: s8[] | c = pred[] compare(x, y), direction=LT  ROOT r = pred[] not(c)",
        "ROOT r = pred[] compare(x, y), direction=GE",
    ),
    Case(
        g.not_compare,
        "x: f32[]; y: f32[] | c = pred[] compare(x, y), direction=EQ  ROOT r = pred[] not(c)",
        "ROOT r = pred[] compare(x, y), direction=NE",
    ),
    Case(
        g.not_compare,
        "x: f32[]; y: f32[] | c = pred[] compare(x, y), direction=LE, type=TOTALORDER  "
        "ROOT r = pred[] not(c)",
        "ROOT r = pred[] compare(x, y), direction=GT, type=TOTALORDER",
    ),
    Case(
        g.not_compare,
        "x: f32[]; y: f32[] | c = pred[] compare(x, y), direction=LT  ROOT r = pred[] not(c)",
    ),
    Case(
        g.select_known,
        "x: f32[2]; y: f32[2] | p = pred[] constant(false)  q = pred[2] broadcast(p)  "
        "ROOT r = f32[2] select(q, x, y)",
        "y",
    ),
    Case(
        g.select_known,
        "x: f32[2]; y: f32[2] | p = pred[2] constant({true, false})  "
        "ROOT r = f32[2] select(p, x, y)",
    ),
    Case(g.select_same, "p: pred[2]; x: f32[2] | ROOT r = f32[2] select(p, x, x)", "x"),
    Case(
        g.select_not,
        "p: pred[2]; x: f32[2]; y: f32[2] | n = pred[2] not(p)  ROOT r = f32[2] select(n, x, y)",
        "ROOT r = f32[2] select(p, y, x)",
    ),
    Case(
        g.select_true,
        "p: pred[] | t = pred[] constant(true)  f = pred[] constant(false)  "
        "ROOT r = pred[] select(p, t, f)",
        "p",
    ),
    Case(
        g.select_true,
        "p: pred[] | t = s8[] constant(1)  f = s8[] constant(0)  ROOT r = s8[] select(p, t, f)",
    ),
    Case(
        g.select_false,
        "p: pred[] | t = pred[] constant(true)  f = pred[] constant(false)  "
        "ROOT r = pred[] select(p, f, t)",
        "ROOT r = pred[] not(p)",
    ),
    Case(
        g.select_else_again,
        "p: pred[]; x: f32[]; y: f32[]; z: f32[] | s = f32[] select(p, z, y)  "
        "ROOT r = f32[] select(p, x, s)",
        "ROOT r = f32[] select(p, x, y)",
    ),
    Case(
        g.select_then_again,
        "p: pred[]; x: f32[]; y: f32[]; z: f32[] | s = f32[] select(p, x, z)  "
        "ROOT r = f32[] select(p, s, y)",
        "ROOT r = f32[] select(p, x, y)",
    ),
    Case(
        g.clamp_again,
        "x: s8[3] | a = s8[] constant(-3)  b = s8[] constant(3)  c = s8[3] clamp(a, x, b)  "
        "ROOT r = s8[3] clamp(a, c, b)",
        "a = s8[] constant(-3)  b = s8[] constant(3)  ROOT c = s8[3] clamp(a, x, b)",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {c.rule for c in CASES if c.after} == set(g.LOGIC)
