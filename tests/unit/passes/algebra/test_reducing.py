"""Rules of reductions."""

import numpy as np
import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.hlo import dtype as dt
from xladev.hlo.ops import binary
from xladev.passes.algebra import reducing as d

SUM = 2e-6
"""Sums of a few f32 in another order."""

CASES = (
    Case(
        d.reduce_ones,
        "x: f32[3,1]; i: f32[] | ROOT r = f32[3] reduce(x, i), dimensions={1}, to_apply=odd",
        "b = f32[3] broadcast(i)  v = f32[3] reshape(x)  s = f32[3] subtract(b, v)  "
        "ROOT r = f32[3] negate(s)",
    ),
    Case(
        d.reduce_ones,
        "x: f32[3]; i: f32[] | ROOT r = f32[3] reduce(x, i), dimensions={}, to_apply=add",
        "b = f32[3] broadcast(i)  ROOT r = f32[3] add(b, x)",
    ),
    Case(
        d.reduce_ones,
        "x: bf16[3,1]; i: f32[] | ROOT r = f32[3] reduce(x, i), dimensions={1}, to_apply=add",
    ),
    Case(
        d.reduce_nothing,
        "x: f32[3,0]; i: f32[] | ROOT r = f32[3] reduce(x, i), dimensions={1}, to_apply=add",
        "ROOT b = f32[3] broadcast(i)",
    ),
    Case(
        d.reduce_reshape,
        "x: f32[3,2]; i: f32[] | m = f32[3,1,2] reshape(x)  "
        "ROOT r = f32[3] reduce(m, i), dimensions={1,2}, to_apply=odd",
        "ROOT r = f32[3] reduce(x, i), dimensions={1}, to_apply=odd",
    ),
    Case(
        d.reduce_reshape,
        "x: f32[3,1,2]; i: f32[] | m = f32[3,2] reshape(x)  "
        "ROOT r = f32[3] reduce(m, i), dimensions={1}, to_apply=odd",
        "r = f32[3,1] reduce(x, i), dimensions={2}, to_apply=odd  ROOT s = f32[3] reshape(r)",
    ),
    Case(
        d.reduce_reshape,
        "x: f32[6]; i: f32[] | m = f32[3,2] reshape(x)  "
        "ROOT r = f32[3] reduce(m, i), dimensions={1}, to_apply=add",
    ),
    Case(
        d.reduce_transpose,
        "x: f32[2,3,4]; i: f32[] | m = f32[3,2,4] transpose(x), dimensions={1,0,2}  "
        "ROOT r = f32[2,4] reduce(m, i), dimensions={0}, to_apply=add",
        "ROOT r = f32[2,4] reduce(x, i), dimensions={1}, to_apply=add",
        rtol=SUM,
    ),
    Case(
        d.reduce_transpose,
        "x: f32[2,3,4]; i: f32[] | m = f32[3,2,4] transpose(x), dimensions={1,0,2}  "
        "ROOT r = f32[3,2] reduce(m, i), dimensions={2}, to_apply=add",
    ),
    Case(
        d.reduce_transpose,
        "x: f32[2,3]; i: f32[] | m = f32[3,2] transpose(x), dimensions={1,0}  "
        "ROOT r = f32[] reduce(m, i), dimensions={0,1}, to_apply=odd",
    ),
    Case(
        d.reduce_broadcast,
        "x: f32[3]; i: f32[] | m = f32[2,3,4] broadcast(x), dimensions={1}  "
        "ROOT r = f32[2] reduce(m, i), dimensions={1,2}, to_apply=max",
        "m = f32[2,3] broadcast(x), dimensions={1}  "
        "ROOT r = f32[2] reduce(m, i), dimensions={1}, to_apply=max",
    ),
    Case(
        d.reduce_broadcast,
        "x: f32[3]; i: f32[] | m = f32[3,4] broadcast(x), dimensions={0}  "
        "ROOT r = f32[3] reduce(m, i), dimensions={1}, to_apply=add",
    ),
    Case(
        d.reduce_twice,
        "x: f32[2,3,4]; i: f32[] | z = f32[] constant(0)  "
        "m = f32[2,4] reduce(x, z), dimensions={1}, to_apply=add  "
        "ROOT r = f32[2] reduce(m, i), dimensions={1}, to_apply=add",
        "ROOT r = f32[2] reduce(x, i), dimensions={1,2}, to_apply=add",
        rtol=SUM,
    ),
    Case(
        d.reduce_twice,
        "x: s32[2,3]; i: s32[] | z = s32[] constant(1)  "
        "m = s32[2] reduce(x, z), dimensions={1}, to_apply=plus  "
        "ROOT r = s32[] reduce(m, i), dimensions={0}, to_apply=plus",
    ),
    Case(
        d.reduce_twice,
        "x: f32[2,3]; i: f32[] | z = f32[] constant(0)  "
        "m = f32[2] reduce(x, z), dimensions={1}, to_apply=add  "
        "ROOT r = f32[] reduce(m, i), dimensions={0}, to_apply=max",
    ),
    Case(
        d.reduce_window_ones,
        "x: f32[3,2]; i: f32[] | "
        "ROOT r = f32[3,2] reduce-window(x, i), window={size=1x1}, to_apply=odd",
        "b = f32[3,2] broadcast(i)  s = f32[3,2] subtract(b, x)  ROOT r = f32[3,2] negate(s)",
    ),
    Case(
        d.reduce_whole_windows,
        "x: f32[3,2]; i: f32[] | "
        "ROOT r = f32[1,2] reduce-window(x, i), window={size=3x1}, to_apply=max",
        "m = f32[2] reduce(x, i), dimensions={0}, to_apply=max  ROOT r = f32[1,2] reshape(m)",
    ),
    Case(
        d.reduce_whole_windows,
        "x: f32[3,2]; i: f32[] | "
        "ROOT r = f32[2,2] reduce-window(x, i), window={size=3x1 pad=1_0x0_0}, to_apply=max",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {c.rule for c in CASES if c.after} == set(d.REDUCING)


FUNCTIONS = {
    "add": binary.add,
    "multiply": binary.multiply,
    "maximum": binary.maximum,
    "minimum": binary.minimum,
}


@pytest.mark.parametrize("opcode", FUNCTIONS)
@pytest.mark.parametrize("element_type", (dt.F32, dt.BF16, dt.S8, dt.U4, dt.S4, dt.PRED), ids=str)
def test_identities_change_nothing(opcode: str, element_type: dt.PrimitiveType) -> None:
    candidates = np.array([0, 1, -1, 7, -8, 15, -16, 127, -128, np.inf, -np.inf])
    values = candidates[np.isfinite(candidates)] if not element_type.is_float else candidates
    values = np.unique(values.astype(np.float64).astype(element_type.np))
    found = [v for v in values if d.is_identity(np.asarray(v), opcode, element_type)]
    assert len(found) == 1
    np.testing.assert_array_equal(FUNCTIONS[opcode](values, np.full_like(values, found[0])), values)
