"""Sums kept apart: linear operations leave them so, others add them up first."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import run
from xladev.hlo.ir import HloModule
from xladev.hlo.multi_device import evaluate
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.spmd.program import PartitionedProgram, partition

SUM = (
    ', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}], unreduced={\\"x\\"}>"}'
)
WHOLE = "sharding={replicated}"
X = np.arange(16, dtype=np.float32).reshape(4, 4)


def program(lines: str, more: str = "") -> HloModule:
    """A program on two sums of two devices each; its result is one, too."""
    return parse_module(f"""HloModule m, num_partitions=2, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2]>}}}}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
{more}
ENTRY e {{
  u = f32[4,4] parameter(0){SUM}
  v = f32[4,4] parameter(1){SUM}
  s = f32[4,4] parameter(2), {WHOLE}
  z = f32[] constant(3)
  {lines}
  ROOT r = f32[4,4] custom-call(y), custom_call_target="xla.sdy.FuncResultSharding"{SUM}
}}""")  # noqa: E501


def checked(module: HloModule) -> PartitionedProgram:
    """Parts of sums go in, and what comes out adds up to the result of the whole."""
    made = partition(module, 2)
    verify(made.module)
    wholes = [X, X.T + 1, X / 8 + 1]
    first = [X - 5, X.T - 2, X / 8 + 1]
    second = [np.full_like(X, 5), np.full_like(X, 3), X / 8 + 1]

    class Given:
        unreduced = ()  # the summands are as given

        def __init__(self, cut, number: int) -> None:
            self.number = number

        def cut(self, _: np.ndarray, device: int, fill: object = 0) -> np.ndarray:
            return (first, second)[device][self.number]

    given = PartitionedProgram(
        made.module, tuple(Given(c, n) for n, c in enumerate(made.parameters)), made.results,  # type: ignore[arg-type]
        made.report,
    )  # fmt: skip
    found = run(given, wholes)
    wanted = np.asarray(evaluate(module, *wholes))
    np.testing.assert_allclose(found[0][0] + found[1][0], wanted, rtol=1e-6)
    return made


def collectives(made: PartitionedProgram) -> list[str]:
    return [i.opcode for i in made.module.entry.instructions if i.op.category == "collective"]


@pytest.mark.parametrize(
    "lines",
    [
        "y = f32[4,4] add(u, v)",
        "y = f32[4,4] subtract(u, s)",
        "y = f32[4,4] multiply(s, u)",
        "y = f32[4,4] transpose(u), dimensions={1,0}",
        "y = f32[4,4] dot(u, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "t = f32[4] reduce(u, z), dimensions={1}, to_apply=add\n"
        "  y = f32[4,4] broadcast(t), dimensions={0}",
        "y = f32[4,4] pad(u, z), padding=1_-1x0_0",
    ],
)
def test_linear_operations(lines: str) -> None:
    last = lines.count("\n")
    made = checked(program(lines))
    if not last:
        assert "all-reduce" not in collectives(made)


def test_loops_carry_sums() -> None:
    """Nothing is added up in the loop, in which each step adds a sum to a sum."""
    constraint = f'custom-call(t), custom_call_target="Sharding"{SUM}'
    more = f"""body {{ p = (s32[], f32[4,4], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  c = f32[4,4] get-tuple-element(p), index=1  d = f32[4,4] get-tuple-element(p), index=2
  t = f32[4,4] add(c, d)  n = f32[4,4] {constraint}
  one = s32[] constant(1)  j = s32[] add(i, one)
  ROOT q = (s32[], f32[4,4], f32[4,4]) tuple(j, n, d) }}
test {{ p = (s32[], f32[4,4], f32[4,4]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)  ROOT c = pred[] compare(i, n), direction=LT }}
"""
    lines = """k = s32[] constant(0)
  a = (s32[], f32[4,4], f32[4,4]) tuple(k, u, v)
  w = (s32[], f32[4,4], f32[4,4]) while(a), condition=test, body=body
  y = f32[4,4] get-tuple-element(w), index=1"""
    made = checked(program(lines, more))
    every = [i.opcode for c in made.module.computations for i in c.instructions]
    assert "all-reduce" not in every


@pytest.mark.parametrize(
    "lines",
    [
        "y = f32[4,4] multiply(u, v)",
        "y = f32[4,4] divide(u, s)",
        "y = f32[4,4] sine(u)",
        "y = f32[4,4] maximum(u, s)",
    ],
)
def test_others_add_up_first(lines: str) -> None:
    assert "all-reduce" in collectives(checked(program(lines)))
