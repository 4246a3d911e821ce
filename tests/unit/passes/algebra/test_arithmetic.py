"""Rules of arithmetic."""

import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.passes.algebra import arithmetic as a

CASES = (
    Case(
        a.add_zero,
        "x: f32[4] | z = f32[] constant(-0)  b = f32[4] broadcast(z)  ROOT r = f32[4] add(b, x)",
        "x",
    ),
    Case(a.add_zero, "x: f32[4] | b = f32[4] constant({0,0,0,0})  ROOT r = f32[4] add(x, b)"),
    Case(a.add_zero, "x: s8[4] | b = s8[4] constant({0,0,0,0})  ROOT r = s8[4] add(x, b)", "x"),
    Case(
        a.add_zero,
        "x: f8e4m3fnuz[] | b = f8e4m3fnuz[] constant(0)  ROOT r = f8e4m3fnuz[] add(x, b)",
    ),
    Case(a.subtract_zero, "x: f32[] | z = f32[] constant(0)  ROOT r = f32[] subtract(x, z)", "x"),
    Case(a.subtract_zero, "x: f32[] | z = f32[] constant(-0)  ROOT r = f32[] subtract(x, z)"),
    Case(a.subtract_zero, "x: f32[] | z = f32[] constant(0)  ROOT r = f32[] subtract(z, x)"),
    Case(
        a.subtract_itself,
        "x: u8[3] | ROOT r = u8[3] subtract(x, x)",
        "z = u8[] constant(0)  ROOT r = u8[3] broadcast(z)",
    ),
    Case(a.subtract_itself, "x: f32[3] | ROOT r = f32[3] subtract(x, x)"),
    Case(
        a.add_negated,
        "x: f32[3]; y: f32[3] | n = f32[3] negate(y)  ROOT r = f32[3] add(n, x)",
        "ROOT r = f32[3] subtract(x, y)",
    ),
    Case(
        a.subtract_negated,
        "x: s32[3]; y: s32[3] | n = s32[3] negate(y)  ROOT r = s32[3] subtract(x, n)",
        "ROOT r = s32[3] add(x, y)",
    ),
    Case(
        a.subtract_addend,
        "x: s32[3]; y: s32[3] | n = s32[3] add(y, x)  ROOT r = s32[3] subtract(n, y)",
        "x",
    ),
    Case(
        a.subtract_addend,
        "x: f32[3]; y: f32[3] | n = f32[3] add(y, x)  ROOT r = f32[3] subtract(n, y)",
    ),
    Case(
        a.add_subtrahend,
        "x: u8[3]; y: u8[3] | n = u8[3] subtract(x, y)  ROOT r = u8[3] add(y, n)",
        "x",
    ),
    Case(a.multiply_one, "x: bf16[] | o = bf16[] constant(1)  ROOT r = bf16[] multiply(x, o)", "x"),
    Case(a.multiply_one, "x: c64[] | o = c64[] constant((1,0))  ROOT r = c64[] multiply(x, o)"),
    Case(
        a.multiply_zero,
        "x: s4[] | z = s4[] constant(0)  ROOT r = s4[] multiply(x, z)",
        "ROOT z = s4[] constant(0)",
    ),
    Case(a.multiply_zero, "x: f32[] | z = f32[] constant(0)  ROOT r = f32[] multiply(x, z)"),
    Case(
        a.multiply_minus_one,
        "x: f16[] | z = f16[] constant(-1)  ROOT r = f16[] multiply(z, x)",
        "ROOT r = f16[] negate(x)",
    ),
    Case(
        a.multiply_negated,
        "x: f64[]; y: f64[] | n = f64[] negate(x)  k = f64[] negate(y)  "
        "ROOT r = f64[] multiply(n, k)",
        "ROOT r = f64[] multiply(x, y)",
    ),
    Case(a.divide_one, "x: f32[] | o = f32[] constant(1)  ROOT r = f32[] divide(x, o)", "x"),
    Case(
        a.divide_minus_one,
        "x: s32[] | o = s32[] constant(-1)  ROOT r = s32[] divide(x, o)",
        "ROOT r = s32[] negate(x)",
    ),
    Case(
        a.divide_power_of_two,
        "x: f32[9] | o = f32[] constant(-8)  b = f32[9] broadcast(o)  ROOT r = f32[9] divide(x, b)",
        "o = f32[] constant(-0.125)  b = f32[9] broadcast(o)  ROOT r = f32[9] multiply(x, b)",
    ),
    Case(
        a.divide_power_of_two,
        "x: bf16[9] | o = bf16[] constant(0.25)  b = bf16[9] broadcast(o)  "
        "ROOT r = bf16[9] divide(x, b)",
        "o = bf16[] constant(4)  b = bf16[9] broadcast(o)  ROOT r = bf16[9] multiply(x, b)",
    ),
    Case(a.divide_power_of_two, "x: f32[] | o = f32[] constant(3)  ROOT r = f32[] divide(x, o)"),
    Case(a.divide_power_of_two, "x: f32[] | o = f32[] constant(0)  ROOT r = f32[] divide(x, o)"),
    Case(a.divide_power_of_two, "x: f32[] | o = f32[] constant(inf)  ROOT r = f32[] divide(x, o)"),
    Case(
        a.divide_power_of_two,
        "x: f32[] | o = f32[] constant(1.7014118346046923e+38)  ROOT r = f32[] divide(x, o)",
    ),
    Case(
        a.divide_unsigned,
        "x: u16[] | o = u16[] constant(8)  ROOT r = u16[] divide(x, o)",
        "o = u16[] constant(3)  ROOT r = u16[] shift-right-logical(x, o)",
    ),
    Case(a.divide_unsigned, "x: s16[] | o = s16[] constant(8)  ROOT r = s16[] divide(x, o)"),
    Case(a.divide_unsigned, "x: u16[] | o = u16[] constant(0)  ROOT r = u16[] divide(x, o)"),
    Case(a.divide_unsigned, "x: u16[] | o = u16[] constant(6)  ROOT r = u16[] divide(x, o)"),
    Case(
        a.remainder_unsigned,
        "x: u8[] | o = u8[] constant(32)  ROOT r = u8[] remainder(x, o)",
        "o = u8[] constant(31)  ROOT r = u8[] and(x, o)",
    ),
    Case(
        a.remainder_one,
        "x: s64[] | o = s64[] constant(1)  ROOT r = s64[] remainder(x, o)",
        "ROOT o = s64[] constant(0)",
    ),
    Case(
        a.power_of_small_integer,
        "x: f32[] | o = f32[] constant(2)  ROOT r = f32[] power(x, o)",
        "ROOT r = f32[] multiply(x, x)",
    ),
    Case(
        a.power_of_small_integer,
        "x: f32[] | o = f32[] constant(3)  ROOT r = f32[] power(x, o)",
        "s = f32[] multiply(x, x)  ROOT r = f32[] multiply(s, x)",
        rtol=3e-7,
    ),
    Case(
        a.power_of_small_integer,
        "x: s32[] | o = s32[] constant(0)  ROOT r = s32[] power(x, o)",
        "ROOT r = s32[] constant(1)",
    ),
    Case(
        a.power_of_small_integer,
        "x: f32[] | o = f32[] constant(-1)  ROOT r = f32[] power(x, o)",
        "o = f32[] constant(1)  ROOT r = f32[] divide(o, x)",
        rtol=2e-7,
    ),
    Case(a.power_of_small_integer, "x: s8[] | o = s8[] constant(-1)  ROOT r = s8[] power(x, o)"),
    Case(
        a.power_of_small_integer, "x: f32[] | o = f32[] constant(0.5)  ROOT r = f32[] power(x, o)"
    ),
    Case(a.power_of_small_integer, "x: f16[] | o = f16[] constant(3)  ROOT r = f16[] power(x, o)"),
    Case(a.negate_twice, "x: f32[] | n = f32[] negate(x)  ROOT r = f32[] negate(n)", "x"),
    Case(
        a.negate_twice,
        "x: f8e8m0fnu[] | n = f8e8m0fnu[] negate(x)  ROOT r = f8e8m0fnu[] negate(n)",
    ),
    Case(
        a.negate_difference,
        "x: s8[]; y: s8[] | n = s8[] subtract(x, y)  ROOT r = s8[] negate(n)",
        "ROOT r = s8[] subtract(y, x)",
    ),
    Case(
        a.negate_difference,
        "x: f32[]; y: f32[] | n = f32[] subtract(x, y)  ROOT r = f32[] negate(n)",
    ),
    Case(
        a.abs_of_sign,
        "x: f32[] | n = f32[] negate(x)  ROOT r = f32[] abs(n)",
        "ROOT r = f32[] abs(x)",
    ),
    Case(
        a.round_twice,
        "x: f32[] | n = f32[] ceil(x)  ROOT r = f32[] floor(n)",
        "ROOT r = f32[] ceil(x)",
    ),
    Case(a.round_twice, "x: f32[] | ROOT r = f32[] floor(x)"),
    Case(a.extreme_of_itself, "x: f32[] | ROOT r = f32[] maximum(x, x)", "x"),
    Case(
        a.extreme_of_limit,
        "x: f32[] | i = f32[] constant(-inf)  ROOT r = f32[] maximum(i, x)",
        "x",
    ),
    Case(a.extreme_of_limit, "x: f32[] | i = f32[] constant(inf)  ROOT r = f32[] maximum(i, x)"),
    Case(
        a.extreme_of_limit,
        "x: u8[] | i = u8[] constant(255)  ROOT r = u8[] maximum(i, x)",
        "ROOT r = u8[] constant(255)",
    ),
    Case(
        a.extreme_of_limit,
        "x: s8[] | i = s8[] constant(127)  ROOT r = s8[] minimum(i, x)",
        "x",
    ),
    Case(a.extreme_of_limit, "x: s8[] | i = s8[] constant(0)  ROOT r = s8[] minimum(i, x)"),
    Case(
        a.maximum_again,
        "x: f32[]; y: f32[] | i = f32[] maximum(y, x)  ROOT r = f32[] maximum(i, x)",
        "ROOT r = f32[] maximum(y, x)",
    ),
    Case(
        a.minimum_again,
        "x: f32[]; y: f32[] | i = f32[] minimum(y, x)  ROOT r = f32[] minimum(i, x)",
        "ROOT r = f32[] minimum(y, x)",
    ),
    Case(
        a.join_constants,
        "x: s32[] | i = s32[] constant(3)  j = s32[] constant(4)  s = s32[] add(i, x)  "
        "ROOT r = s32[] add(s, j)",
        "i = s32[] constant(3)  j = s32[] constant(4)  s = s32[] add(i, j)  "
        "ROOT r = s32[] add(x, s)",
    ),
    Case(
        a.join_constants,
        "x: s32[] | i = s32[] constant(3)  j = s32[] constant(4)  s = s32[] multiply(i, x)  "
        "ROOT r = s32[] add(s, j)",
    ),
    Case(
        a.join_constants,
        "x: f32[] | i = f32[] constant(3)  j = f32[] constant(4)  s = f32[] add(i, x)  "
        "ROOT r = f32[] add(s, j)",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {c.rule for c in CASES if c.after} == set(a.ARITHMETIC)
