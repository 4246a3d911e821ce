"""All-reduce reassociate: what is added before it is summed over the devices, and what is not."""

import numpy as np
import pytest

from xladev.hlo.ir import HloModule
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.collectives.all_reduce_reassociate import AllReduceReassociate

GROUPS = ", channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}"
PAIRS = ", channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3}}"
SUM, MOST = f"{GROUPS}, to_apply=add", f"{GROUPS}, to_apply=max"


def program(lines: str) -> HloModule:
    return parse_module(f"""HloModule m, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY e {{
  x = f32[4,2] parameter(0)
  y = f32[4,2] parameter(1)
  z = f32[4,2] parameter(2)
{lines}
}}""")


def check(lines: str, wanted: int) -> HloModule:
    """Counts sums over the devices afterwards; compares values, which are small integers."""
    module = program(lines)
    made = AllReduceReassociate().run(module)
    verify(made)
    kinds = ("all-reduce", "reduce-scatter")
    assert sum(i.opcode in kinds for i in made.entry.instructions) == wanted
    rng = np.random.default_rng(0)
    rows = [[rng.integers(0, 9, (4, 2)).astype(np.float32) for _ in "xyz"] for _ in range(4)]
    before, after = (evaluate_replicated(m, rows) for m in (module, made))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert AllReduceReassociate().run(made) is made
    return made


XY = f"a = f32[4,2] all-reduce(x){SUM}  b = f32[4,2] all-reduce(y){SUM}"


def test_two_sums_become_one() -> None:
    check(f"{XY}  ROOT r = f32[4,2] add(a, b)", 1)


def test_layouts_that_are_stated_on_one_side() -> None:
    check(f"{XY}  ROOT r = f32[4,2]{{1,0}} add(a, b)", 1)


def test_three_sums_become_one() -> None:
    check(f"""{XY}  c = f32[4,2] all-reduce(z){SUM}
  ab = f32[4,2] add(a, b)  ROOT r = f32[4,2] add(c, ab)""", 1)  # fmt: skip


@pytest.mark.parametrize("pair", ["a, z", "z, a"])
@pytest.mark.parametrize("last", ["first, b", "b, first"])
def test_what_is_no_sum_may_stand_between(pair: str, last: str) -> None:
    check(f"{XY}  first = f32[4,2] add({pair})  ROOT r = f32[4,2] add({last})", 1)


def test_sums_that_were_moved() -> None:
    check(f"""{XY}  t = f32[2,4] transpose(a), dimensions={{1,0}}
  u = f32[2,4] transpose(b), dimensions={{1,0}}  w = f32[2,2,2] reshape(u)
  v = f32[2,2,2] reshape(t)  ROOT r = f32[2,2,2] add(v, w)""", 1)  # fmt: skip


def test_other_operations_than_sums() -> None:
    check(f"""a = f32[4,2] all-reduce(x){MOST}  b = f32[4,2] all-reduce(y){MOST}
  ROOT r = f32[4,2] maximum(a, b)""", 1)  # fmt: skip


def test_scattered_sums() -> None:
    scatter = f"dimensions={{0}}{SUM}"
    made = check(f"""a = f32[1,2] reduce-scatter(x), {scatter}
  b = f32[1,2] reduce-scatter(y), {scatter}  ROOT r = f32[1,2] add(a, b)""", 1)  # fmt: skip
    assert made.entry.root.opcode == "reduce-scatter"
    assert made.entry.root.operands[0].shape.dims == (4, 2)


@pytest.mark.parametrize(
    "lines",
    [
        f"{XY}  ROOT r = f32[4,2] multiply(a, b)",
        f"{XY}  ROOT r = f32[4,2] subtract(a, b)",
        f"{XY}  s = f32[4,2] add(a, b)  ROOT r = f32[4,2] multiply(s, a)",
        f"a = f32[4,2] all-reduce(x){SUM}  b = f32[4,2] all-reduce(y){MOST}"
        "  ROOT r = f32[4,2] add(a, b)",
        f"a = f32[4,2] all-reduce(x){SUM}  b = f32[4,2] all-reduce(y){PAIRS}, to_apply=add"
        "  ROOT r = f32[4,2] add(a, b)",
    ],
    ids=["product", "difference", "read twice", "reducers", "groups"],
)
def test_what_stays(lines: str) -> None:
    module = program(lines)
    assert AllReduceReassociate().run(module) is module


def test_one_sum_that_is_added_to_itself_stays() -> None:
    check(f"a = f32[4,2] all-reduce(x){SUM}  ROOT r = f32[4,2] add(a, a)", 1)
