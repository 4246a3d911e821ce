"""All-reduce combiner: what is combined, what is not, and that values stay."""

import numpy as np

from xladev.hlo.ir import HloModule
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.collectives.all_reduce_combiner import AllReduceCombiner

SUM = ", channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=add"


def program(lines: str) -> HloModule:
    return parse_module(f"""HloModule m, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY e {{
  x = f32[3] parameter(0)
  y = f32[2,2] parameter(1)
{lines}
}}""")


def counts(module: HloModule) -> list[int]:
    """Operands of each all-reduce."""
    return [len(i.operands) for i in module.entry.instructions if i.opcode == "all-reduce"]


def check(module: HloModule, wanted: list[int]) -> None:
    made = AllReduceCombiner().run(module)
    verify(made)
    assert sorted(counts(made)) == wanted
    rows = [[np.full(3, d, np.float32), np.full((2, 2), 2 * d, np.float32)] for d in range(4)]
    before, after = (evaluate_replicated(m, rows) for m in (module, made))
    for one, other in zip(before, after, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert AllReduceCombiner().run(made) is made


def test_independent_ones_become_one() -> None:
    check(program(f"""  a = f32[3] all-reduce(x){SUM}
  b = f32[2,2] all-reduce(y){SUM}
  n = f32[3] negate(x)
  c = f32[3] all-reduce(n){SUM}
  ROOT t = (f32[3], f32[2,2], f32[3]) tuple(a, b, c)"""), [3])  # fmt: skip


def test_one_that_needs_another_does_not_join() -> None:
    check(program(f"""  a = f32[3] all-reduce(x){SUM}
  n = f32[3] negate(a)
  b = f32[3] all-reduce(n){SUM}
  c = f32[2,2] all-reduce(y){SUM}
  ROOT t = (f32[3], f32[2,2]) tuple(b, c)"""), [1, 2])  # fmt: skip


def test_batches_that_need_each_other_crosswise() -> None:
    """Combined two and two, each of the two would need the other."""
    most = SUM.replace("to_apply=add", "to_apply=max")
    check(program(f"""  a = f32[3] all-reduce(x){SUM}
  b = f32[3] all-reduce(x){most}
  n = f32[3] negate(b)
  c = f32[3] all-reduce(n){SUM}
  o = f32[3] negate(a)
  d = f32[3] all-reduce(o){most}
  ROOT t = (f32[3], f32[3]) tuple(c, d)"""), [1, 1, 2])  # fmt: skip


def test_other_groups_and_large_arrays_stay() -> None:
    pairs = SUM.replace("{{0,1,2,3}}", "{{0,1},{2,3}}")
    check(program(f"""  a = f32[3] all-reduce(x){SUM}
  b = f32[2,2] all-reduce(y){pairs}
  ROOT t = (f32[3], f32[2,2]) tuple(a, b)"""), [1, 1])  # fmt: skip
    module = program(f"""  a = f32[3] all-reduce(x){SUM}
  b = f32[2,2] all-reduce(y){SUM}
  ROOT t = (f32[3], f32[2,2]) tuple(a, b)""")
    assert AllReduceCombiner(most_bytes=12).run(module) is module
    assert AllReduceCombiner(most_total=27).run(module) is module
