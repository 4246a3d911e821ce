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
    Case(
        c.dot_of_one_matrix_for_a_batch,
        "x: f32[6,2,5]; y: f32[5,3] | w = f32[6,5,3] broadcast(y), dimensions={1,2}  "
        "ROOT d = f32[6,2,3] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}, operand_precision={highest,default}",
        "ROOT d = f32[6,2,3] dot(x, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}, "
        "operand_precision={highest,default}",
        rtol=1e-5,
    ),
    Case(  # rows are transposed, so that they come in the result's order
        c.dot_of_one_matrix_for_a_batch,
        "x: f32[2,5,6]; y: f32[3,5] | w = f32[3,6,5] broadcast(y), dimensions={0,2}  "
        "ROOT d = f32[6,2,3] dot(x, w), lhs_batch_dims={2}, rhs_batch_dims={1}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={2}",
        "a = f32[6,2,5] transpose(x), dimensions={2,0,1}  "
        "ROOT d = f32[6,2,3] dot(a, y), lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        rtol=1e-5,
    ),
    Case(  # the matrix differs along the first dimension of the batch
        c.dot_of_one_matrix_for_a_batch,
        "x: f32[4,6,2,5]; y: f32[5,4] | w = f32[6,4,5,3] broadcast(y), dimensions={2,1}  "
        "ROOT d = f32[4,6,2,3] dot(x, w), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}",
        "a = f32[4,5,3] broadcast(y), dimensions={1,0}  "
        "ROOT d = f32[4,6,2,3] dot(x, a), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={1}",
        rtol=1e-5,
    ),
    Case(  # rows of the result would come before the last dimension of the batch
        c.dot_of_one_matrix_for_a_batch,
        "x: f32[6,4,2,5]; y: f32[4,5,3] | w = f32[6,4,5,3] broadcast(y), dimensions={1,2,3}  "
        "ROOT d = f32[6,4,2,3] dot(x, w), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}",
    ),
    Case(
        c.transpose_of_dot,
        "x: f32[5,16]; y: f32[5,20] | d = f32[16,20] dot(x, y), lhs_contracting_dims={0}, "
        "rhs_contracting_dims={0}, operand_precision={highest,default}  "
        "ROOT r = f32[20,16] transpose(d), dimensions={1,0}",
        "ROOT d = f32[20,16] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "operand_precision={default,highest}",
        rtol=1e-5,
    ),
    Case(
        c.transpose_of_dot,
        "x: f32[3,2,4]; y: f32[2,5,2,3] | d = f32[3,4,5,2] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={3}, lhs_contracting_dims={1}, rhs_contracting_dims={0}  "
        "ROOT r = f32[3,5,2,4] transpose(d), dimensions={0,2,3,1}",
    ),
    Case(
        c.transpose_of_dot,
        "x: f32[3,6,20]; y: f32[3,6,2,8] | d = f32[3,20,2,8] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}  "
        "ROOT r = f32[3,2,8,20] transpose(d), dimensions={0,2,3,1}",
        "ROOT d = f32[3,2,8,20] dot(y, x), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        rtol=1e-5,
    ),
    Case(  # columns would be few
        c.transpose_of_dot,
        "x: f32[5,8]; y: f32[5,20] | "
        "d = f32[8,20] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}  "
        "ROOT r = f32[20,8] transpose(d), dimensions={1,0}",
    ),
    Case(  # both operands would be read across memory
        c.transpose_of_dot,
        "x: f32[16,5]; y: f32[5,20] | "
        "d = f32[16,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}  "
        "ROOT r = f32[20,16] transpose(d), dimensions={1,0}",
    ),
    Case(  # something else wants the product as it is
        c.transpose_of_dot,
        "x: f32[5,16]; y: f32[5,20] | "
        "d = f32[16,20] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}  "
        "t = f32[20,16] transpose(d), dimensions={1,0}  "
        "ROOT r = (f32[16,20], f32[20,16]) tuple(d, t)",
    ),
    Case(  # batch dimensions move, too
        c.transpose_of_dot,
        "x: f32[3,6,20]; y: f32[3,6,20] | d = f32[3,20,20] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}  "
        "ROOT r = f32[20,20,3] transpose(d), dimensions={2,1,0}",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {case.rule for case in CASES if case.after} == set(c.CONTRACTING)
