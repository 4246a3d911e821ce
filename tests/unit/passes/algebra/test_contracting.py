"""Rules of dots."""

import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.passes.algebra import contracting as c

CASES = (
    Case(
        c.dot_of_nothing,
        "x: f32[2,0]; y: f32[0,3] | "
        "ROOT r = f32[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "z = f32[] constant(0)  ROOT r = f32[2,3] broadcast(z)",
    ),
    Case(
        c.dot_of_single_products,
        "x: bf16[2]; y: bf16[3] | "
        "ROOT r = f32[2,3] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}",
        "a = f32[2] convert(x)  b = f32[2,3] broadcast(a), dimensions={0}  "
        "c = f32[3] convert(y)  d = f32[2,3] broadcast(c), dimensions={1}  "
        "ROOT r = f32[2,3] multiply(b, d)",
        rtol=1e-7,
    ),
    Case(
        c.dot_of_single_products,
        "x: s32[4,1,2]; y: s32[3,4,1] | ROOT r = s32[4,2,3] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={2}",
        "a = s32[4,2,1] transpose(x), dimensions={0,2,1}  b = s32[4,2] reshape(a)  "
        "c = s32[4,2,3] broadcast(b), dimensions={0,1}  "
        "d = s32[4,3,1] transpose(y), dimensions={1,0,2}  e = s32[4,3] reshape(d)  "
        "f = s32[4,2,3] broadcast(e), dimensions={0,2}  ROOT r = s32[4,2,3] multiply(c, f)",
    ),
    Case(
        c.dot_of_single_products,
        "x: f32[2,2]; y: f32[2,3] | "
        "ROOT r = f32[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    Case(
        c.dot_of_single_products,
        "x: f32[2]; y: f32[3] | "
        "ROOT r = bf16[2,3] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {case.rule for case in CASES if case.after} == set(c.CONTRACTING)
