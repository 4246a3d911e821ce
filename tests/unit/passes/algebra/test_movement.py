"""Rules of reshapes, transposes, broadcasts, reversals and copies."""

import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.passes.algebra import movement as v

CASES = (
    Case(v.reshape_to_same, "x: f32[2,3] | ROOT r = f32[2,3] reshape(x)", "x"),
    Case(
        v.reshape_twice,
        "x: f32[2,3] | m = f32[6] reshape(x)  ROOT r = f32[3,2] reshape(m)",
        "ROOT r = f32[3,2] reshape(x)",
    ),
    Case(v.reshape_twice, "x: f32[2,3] | m = f32[6] reshape(x)  ROOT r = f32[2,3] reshape(m)", "x"),
    Case(
        v.reshape_scalar,
        "x: f32[] | ROOT r = f32[1,1] reshape(x)",
        "ROOT r = f32[1,1] broadcast(x)",
    ),
    Case(v.reshape_scalar, "x: f32[1] | ROOT r = f32[] reshape(x)"),
    Case(
        v.reshape_broadcast,
        "x: f32[] | m = f32[6] broadcast(x)  ROOT r = f32[3,2] reshape(m)",
        "ROOT r = f32[3,2] broadcast(x)",
    ),
    Case(
        v.reshape_broadcast,
        "x: f32[3] | m = f32[1,3,2] broadcast(x), dimensions={1}  ROOT r = f32[3,1,2] reshape(m)",
        "ROOT r = f32[3,1,2] broadcast(x), dimensions={0}",
    ),
    Case(
        v.reshape_broadcast,
        "x: f32[1,3] | m = f32[1,3,2] broadcast(x), dimensions={0,1}  ROOT r = f32[3,2] reshape(m)",
        "y = f32[3] reshape(x)  ROOT r = f32[3,2] broadcast(y), dimensions={0}",
    ),
    Case(
        v.reshape_broadcast,
        "x: f32[3] | m = f32[3,2] broadcast(x), dimensions={0}  ROOT r = f32[6] reshape(m)",
    ),
    Case(
        v.reshape_iota,
        "m = s32[3,2] iota(), iota_dimension=1  ROOT r = s32[1,3,2] reshape(m)",
        "ROOT r = s32[1,3,2] iota(), iota_dimension=2",
    ),
    Case(v.reshape_iota, "m = s32[3,2] iota(), iota_dimension=1  ROOT r = s32[6] reshape(m)"),
    Case(
        v.transpose_nothing,
        "x: f32[2,3] | ROOT r = f32[2,3] transpose(x), dimensions={0,1}",
        "x",
    ),
    Case(
        v.transpose_nothing,
        "x: f32[1,3,2] | ROOT r = f32[3,1,2] transpose(x), dimensions={1,0,2}",
        "ROOT r = f32[3,1,2] reshape(x)",
    ),
    Case(v.transpose_nothing, "x: f32[2,3] | ROOT r = f32[3,2] transpose(x), dimensions={1,0}"),
    Case(
        v.transpose_twice,
        "x: f32[2,3,4] | m = f32[4,2,3] transpose(x), dimensions={2,0,1}  "
        "ROOT r = f32[2,4,3] transpose(m), dimensions={1,0,2}",
        "ROOT r = f32[2,4,3] transpose(x), dimensions={0,2,1}",
    ),
    Case(
        v.transpose_broadcast,
        "x: f32[2,3] | m = f32[2,4,3] broadcast(x), dimensions={0,2}  "
        "ROOT r = f32[3,4,2] transpose(m), dimensions={2,1,0}",
        "t = f32[3,2] transpose(x), dimensions={1,0}  "
        "ROOT r = f32[3,4,2] broadcast(t), dimensions={0,2}",
    ),
    Case(
        v.transpose_iota,
        "m = f32[3,2] iota(), iota_dimension=1  ROOT r = f32[2,3] transpose(m), dimensions={1,0}",
        "ROOT r = f32[2,3] iota(), iota_dimension=0",
    ),
    Case(
        v.broadcast_nothing,
        "x: f32[3] | ROOT r = f32[1,3] broadcast(x), dimensions={1}",
        "ROOT r = f32[1,3] reshape(x)",
    ),
    Case(
        v.broadcast_nothing,
        "x: f32[2,3] | ROOT r = f32[3,2] broadcast(x), dimensions={1,0}",
        "ROOT r = f32[3,2] transpose(x), dimensions={1,0}",
    ),
    Case(v.broadcast_nothing, "x: f32[] | ROOT r = f32[1] broadcast(x)"),
    Case(
        v.broadcast_twice,
        "x: f32[3] | m = f32[2,3] broadcast(x), dimensions={1}  "
        "ROOT r = f32[3,4,2] broadcast(m), dimensions={2,0}",
        "ROOT r = f32[3,4,2] broadcast(x), dimensions={0}",
    ),
    Case(
        v.broadcast_reshape,
        "x: f32[3] | m = f32[1,3] reshape(x)  ROOT r = f32[4,1,3] broadcast(m), dimensions={1,2}",
        "ROOT r = f32[4,1,3] broadcast(x), dimensions={2}",
    ),
    Case(
        v.broadcast_reshape,
        "x: f32[4] | m = f32[2,2] reshape(x)  ROOT r = f32[4,2,2] broadcast(m), dimensions={1,2}",
    ),
    Case(
        v.shrink_constant,
        "ROOT r = f32[3] constant({nan, nan, nan})",
        "c = f32[] constant(nan)  ROOT r = f32[3] broadcast(c)",
    ),
    Case(v.shrink_constant, "ROOT r = f32[3] constant({0, 0, -0})"),
    Case(v.shrink_constant, "ROOT r = f32[1] constant({1})"),
    Case(v.reverse_nothing, "x: f32[2,1] | ROOT r = f32[2,1] reverse(x), dimensions={1}", "x"),
    Case(
        v.reverse_nothing,
        "x: f32[2,1] | ROOT r = f32[2,1] reverse(x), dimensions={0,1}",
        "ROOT r = f32[2,1] reverse(x), dimensions={0}",
    ),
    Case(v.reverse_nothing, "x: f32[2] | ROOT r = f32[2] reverse(x), dimensions={}", "x"),
    Case(
        v.reverse_twice,
        "x: f32[2,3] | m = f32[2,3] reverse(x), dimensions={0,1}  "
        "ROOT r = f32[2,3] reverse(m), dimensions={1}",
        "ROOT r = f32[2,3] reverse(x), dimensions={0}",
    ),
    Case(
        v.reverse_broadcast,
        "x: f32[3] | m = f32[2,3] broadcast(x), dimensions={1}  "
        "ROOT r = f32[2,3] reverse(m), dimensions={0,1}",
        "m = f32[3] reverse(x), dimensions={0}  ROOT r = f32[2,3] broadcast(m), dimensions={1}",
    ),
    Case(v.copy_nothing, "x: f32[2,3] | ROOT r = f32[2,3] copy(x)", "x"),
    Case(v.copy_nothing, "x: f32[2,3]{0,1} | ROOT r = f32[2,3]{1,0} copy(x)"),
    Case(v.bitcast_nothing, "x: f32[2,3] | ROOT r = f32[2,3]{1,0} bitcast(x)", "x"),
    Case(v.bitcast_nothing, "x: f32[2,2]{0,1} | ROOT r = f32[2,2] bitcast(x)"),
    Case(
        v.bitcast_twice,
        "x: f32[2,3]{0,1} | m = s32[6] bitcast(x)  ROOT r = f32[3,2] bitcast(m)",
        "ROOT r = f32[3,2] bitcast(x)",
    ),
    Case(
        v.compute_before_broadcast,
        "x: f32[]; y: f32[] | a = f32[3] broadcast(x)  b = f32[3] broadcast(y)  "
        "ROOT r = pred[3] compare(a, b), direction=LT",
        "c = pred[] compare(x, y), direction=LT  ROOT r = pred[3] broadcast(c)",
    ),
    Case(
        v.compute_before_broadcast,
        "x: f32[2]; y: f32[] | a = f32[2,3] broadcast(x), dimensions={0}  "
        "b = f32[2,3] broadcast(y)  ROOT r = f32[2,3] add(b, a)",
        "b = f32[2] broadcast(y)  c = f32[2] add(b, x)  "
        "ROOT r = f32[2,3] broadcast(c), dimensions={0}",
    ),
    Case(
        v.compute_before_broadcast,
        "x: f32[2]; y: f32[] | a = f32[2,3] broadcast(x), dimensions={0}  "
        "ROOT r = f32[2,3] clamp(y, a, y)",
        "c = f32[2] clamp(y, x, y)  ROOT r = f32[2,3] broadcast(c), dimensions={0}",
    ),
    Case(
        v.compute_before_broadcast,
        "x: f32[2]; y: f32[3] | a = f32[2,3] broadcast(x), dimensions={0}  "
        "b = f32[2,3] broadcast(y), dimensions={1}  ROOT r = f32[2,3] add(b, a)",
    ),
    Case(
        v.compute_before_broadcast,
        "x: f32[2]; y: f32[2,3] | a = f32[2,3] broadcast(x), dimensions={0}  "
        "ROOT r = f32[2,3] add(y, a)",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {c.rule for c in CASES if c.after} == set(v.MOVEMENT)
