"""Rules of reads and writes at run-time indices."""

import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.passes.algebra import indexing as n

CASES = (
    Case(
        n.dynamic_slice_all,
        "x: f32[4]; i: s32[] | ROOT r = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}",
        "x",
    ),
    Case(
        n.dynamic_slice_broadcast,
        "v: f32[]; i: s32[] | m = f32[9] broadcast(v)  "
        "ROOT r = f32[4] dynamic-slice(m, i), dynamic_slice_sizes={4}",
        "ROOT r = f32[4] broadcast(v)",
    ),
    Case(
        n.dynamic_slice_at_constant,
        "x: f32[9,2]; j: s32[] | i = s32[] constant(7)  "
        "ROOT r = f32[4,2] dynamic-slice(x, i, j), dynamic_slice_sizes={4,2}",
        "ROOT r = f32[4,2] slice(x), slice={[5:9], [0:2]}",
    ),
    Case(
        n.dynamic_slice_at_constant,
        "x: f32[9,2]; j: s32[] | i = s32[] constant(-7)  "
        "ROOT r = f32[4,1] dynamic-slice(x, i, j), dynamic_slice_sizes={4,1}",
    ),
    Case(
        n.update_all,
        "x: f32[4]; u: f32[4]; i: s32[] | ROOT r = f32[4] dynamic-update-slice(x, u, i)",
        "u",
    ),
    Case(
        n.update_all,
        "x: f32[4]; u: f32[0]; i: s32[] | ROOT r = f32[4] dynamic-update-slice(x, u, i)",
        "x",
    ),
    Case(
        n.update_with_itself,
        "x: f32[4]; i: s32[] | m = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}  "
        "ROOT r = f32[4] dynamic-update-slice(x, m, i)",
        "x",
    ),
    Case(
        n.update_with_itself,
        "x: f32[4]; i: s32[]; j: s32[] | m = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}  "
        "ROOT r = f32[4] dynamic-update-slice(x, m, j)",
    ),
    Case(
        n.update_constant,
        "u: f32[2] | z = f32[] constant(0)  x = f32[7] broadcast(z)  i = s32[] constant(9)  "
        "ROOT r = f32[7] dynamic-update-slice(x, u, i)",
        "z = f32[] constant(0)  ROOT r = f32[7] pad(u, z), padding=5_0",
    ),
    Case(
        n.update_constant,
        "x: f32[7]; u: f32[2] | i = s32[] constant(9)  "
        "ROOT r = f32[7] dynamic-update-slice(x, u, i)",
    ),
    Case(
        n.gather_one,
        "x: f32[4,5]; i: s32[1] | ROOT r = f32[1,5] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}",
        "s = s32[] reshape(i)  z = s32[] constant(0)  "
        "ROOT r = f32[1,5] dynamic-slice(x, s, z), dynamic_slice_sizes={1,5}",
    ),
    Case(
        n.gather_one,
        "x: f32[4,5]; i: s32[2] | ROOT r = f32[2] gather(x, i), offset_dims={0}, "
        "collapsed_slice_dims={0}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={1,2}",
        "s = s32[1] slice(i), slice={[0:1]}  a = s32[] reshape(s)  "
        "t = s32[1] slice(i), slice={[1:2]}  b = s32[] reshape(t)  "
        "m = f32[1,2] dynamic-slice(x, b, a), dynamic_slice_sizes={1,2}  "
        "ROOT r = f32[2] reshape(m)",
    ),
    Case(
        n.gather_one,
        "x: f32[4,5]; i: s32[2,1] | ROOT r = f32[2,5] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}",
    ),
    Case(
        n.gather_all,
        "x: f32[1,5]; i: s32[3,1] | ROOT r = f32[3,5] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}",
        "m = f32[5] reshape(x)  ROOT r = f32[3,5] broadcast(m), dimensions={1}",
    ),
    Case(
        n.gather_all,
        "x: f32[0,2]; i: s32[3] | ROOT r = f32[3,2] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,2}",
    ),
    Case(
        n.scatter_nothing,
        "x: f32[4]; i: s32[0,1]; u: f32[0] | ROOT r = f32[4] scatter(x, i, u), "
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=add",
        "x",
    ),
    Case(
        n.add_scattered,
        "x: f32[9,2]; i: s32[4,1]; u: f32[4,2] | v = f32[] constant(0)  z = f32[9,2] broadcast(v)  "
        "s = f32[9,2] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add  "
        "ROOT r = f32[9,2] add(x, s)",
        "ROOT r = f32[9,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        rtol=1e-5,
    ),
    Case(
        n.add_scattered,
        "x: f32[9,2]; i: s32[4,1]; u: f32[4,2] | v = f32[] constant(0)  z = f32[9,2] broadcast(v)  "
        "s = f32[9,2] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add  "
        "ROOT r = f32[9,2] add(s, x)",
        "ROOT r = f32[9,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        rtol=1e-5,
    ),
    Case(
        n.add_scattered,
        "x: f32[9,2]; i: s32[4,1]; u: f32[4,2] | v = f32[] constant(1)  z = f32[9,2] broadcast(v)  "
        "s = f32[9,2] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add  "
        "ROOT r = f32[9,2] add(x, s)",
    ),
    Case(
        n.add_scattered,
        "x: f32[9,2]; i: s32[4,1]; u: f32[4,2] | v = f32[] constant(0)  z = f32[9,2] broadcast(v)  "
        "s = f32[9,2] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max  "
        "ROOT r = f32[9,2] add(x, s)",
    ),
    Case(
        n.add_scattered,
        "x: bf16[9,2]; i: s32[4,1]; u: bf16[4,2] | v = bf16[] constant(0)  "
        "z = bf16[9,2] broadcast(v)  "
        "s = bf16[9,2] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=halves  "
        "ROOT r = bf16[9,2] add(x, s)",
    ),
    Case(
        n.size_of_static,
        "x: f32[4,3] | ROOT r = s32[] get-dimension-size(x), dimensions={1}",
        "ROOT r = s32[] constant(3)",
    ),
    Case(
        n.iota_of_one,
        "ROOT r = s32[4,1] iota(), iota_dimension=1",
        "z = s32[] constant(0)  ROOT r = s32[4,1] broadcast(z)",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {c.rule for c in CASES if c.after} == set(n.INDEXING)
