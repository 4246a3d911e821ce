"""f8e8m0fnu has no zero: what sums over a dimension that is cut does without one."""

import ml_dtypes
import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.text import parse_module

ROWS, COLUMNS = "sharding={devices=[4,1]<=[4]}", "sharding={devices=[1,4]<=[4]}"
SCALES = 2.0 ** np.arange(-9, 9).reshape(3, 6)
PROGRAMS = {
    "dot": f"""HloModule m, num_partitions=4
ENTRY e {{ x = f8e8m0fnu[3,6] parameter(0), {COLUMNS}
  y = bf16[6,3] constant({{{{1,2,3}},{{4,5,6}},{{1,2,3}},{{4,5,6}},{{1,1,1}},{{2,2,2}}}})
  ROOT r = f32[3,3] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""",
    "dot of two": f"""HloModule m, num_partitions=4
ENTRY e {{ x = f8e8m0fnu[3,6] parameter(0), {COLUMNS}
  ROOT r = f32[3,3] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}""",
    "scaled-dot": f"""HloModule m, num_partitions=4
ENTRY e {{ x = f8e8m0fnu[3,6] parameter(0), {COLUMNS}
  y = bf16[6,2] constant({{{{1,2}},{{4,5}},{{1,2}},{{4,5}},{{1,1}},{{2,2}}}}), {ROWS}
  h = bf16[] constant(0.5)  s = bf16[3,6] broadcast(h), dimensions={{}}
  t = bf16[6,2] broadcast(h), dimensions={{}}
  ROOT r = bf16[3,2] scaled-dot(x, y, s, t), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}} }}""",
    "reduce": f"""HloModule m, num_partitions=4
sum {{ a = f8e8m0fnu[] parameter(0)  b = f8e8m0fnu[] parameter(1)
  ROOT s = f8e8m0fnu[] add(a, b) }}
ENTRY e {{ x = f8e8m0fnu[3,6] parameter(0), {COLUMNS}
  z = f8e8m0fnu[] constant(1)
  ROOT r = f8e8m0fnu[3] reduce(x, z), dimensions={{1}}, to_apply=sum }}""",
    "gather": f"""HloModule m, num_partitions=4
ENTRY e {{ x = f8e8m0fnu[3,6] parameter(0), {ROWS}
  i = s32[2] constant({{2, 0}})
  ROOT r = f8e8m0fnu[2,6] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,6}} }}""",
    "convolution": f"""HloModule m, num_partitions=4
ENTRY e {{ x = f8e8m0fnu[3,6] parameter(0), {COLUMNS}
  i = f8e8m0fnu[3,6,1] reshape(x)
  k = f32[3,1,1] constant({{{{{{1}}}},{{{{2}}}},{{{{3}}}}}})
  ROOT r = f32[3,6,1] convolution(i, k), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f }}""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_give_what_the_whole_gives(name: str) -> None:
    check(parse_module(PROGRAMS[name]), [SCALES.astype(ml_dtypes.float8_e8m0fnu)], 4)
