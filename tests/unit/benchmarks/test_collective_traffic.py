"""Bytes that collectives move, against sums by hand."""

import pytest

from benchmarks.collective_traffic import collective_traffic
from xladev.hlo.text import parse_module

KINDS = """
HloModule kinds, num_partitions=8
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[16] parameter(0)
  y = f32[32] parameter(1)
  sums = (f32[16], f32[32]) all-reduce(x, y), channel_id=1, use_global_device_ids=true,
    replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=add
  gathered = f32[32] all-gather(x), channel_id=1, use_global_device_ids=true,
    replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0}
  scattered = f32[4] reduce-scatter(x), channel_id=1, use_global_device_ids=true,
    replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=add
  exchanged = f32[16] all-to-all(x), channel_id=1,
    replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  moved = f32[16] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT all = tuple(sums, gathered, scattered, exchanged, moved)
}
"""
LOOP = """
HloModule loop, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
body {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(n, one)
  y = f32[8] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}},
    to_apply=add
  ROOT t = tuple(next, y)
}
goes_on {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  last = s32[] constant(5)
  ROOT c = pred[] compare(n, last), direction=LT
}
ENTRY e {
  FIRST
  x = f32[8] parameter(0)
  s = tuple(zero, x)
  ROOT w = (s32[], f32[8]) while(s), condition=goes_on, body=body
}
"""


def test_each_kind_receives_what_theory_says() -> None:
    traffic = collective_traffic(parse_module(KINDS), 8)
    assert dict(traffic.nbytes) == {
        "all-reduce": 2 * 7 / 8 * 4 * (16 + 32),
        "all-gather": 1 / 2 * 4 * 32,
        "reduce-scatter": 3 / 4 * 4 * 16,
        "all-to-all": 3 / 4 * 4 * 16,
        "collective-permute": 2 / 8 * 4 * 16,
    }
    assert set(traffic.counts.values()) == {1}
    assert traffic.total_nbytes == 336 + 64 + 48 + 48 + 16


def test_a_loop_counts_as_often_as_it_runs() -> None:
    module = parse_module(LOOP.replace("FIRST", "zero = s32[] constant(0)"))
    traffic = collective_traffic(module, 2)
    assert traffic.counts == {"all-reduce": 5}
    assert traffic.total_nbytes == 5 * 2 * 1 / 2 * 32


def test_an_unknown_number_of_iterations_is_an_error() -> None:
    module = parse_module(LOOP.replace("FIRST", "zero = s32[] parameter(1)"))
    with pytest.raises(ValueError, match="how often does w run"):
        collective_traffic(module, 2)
