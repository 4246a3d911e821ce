"""Evaluation on several devices: results in order, failures instead of deadlocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.tools.programs import ExportedProgram
from xladev.errors import ArgumentError, EvaluationError
from xladev.hlo.devices import Topology
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.multi_device import evaluate, evaluate_replicated, topology_of
from xladev.hlo.text import parse_module

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"


def test_the_exported_program() -> None:
    folder = ROOT.parent / "shared" / "programs"
    if not folder.is_dir():
        pytest.skip("../shared/programs is not here: its collectives are not evaluated")
    program = ExportedProgram(folder, "collectives_shard_map")
    module = program.module()
    assert topology_of(module) == Topology(1, 4)
    for value, want in zip(evaluate(module, *program.inputs()), program.expected(), strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-6)


def test_devices_come_from_the_header() -> None:
    module = parse_module(
        f"HloModule m, replica_count=3\n{ADD}\n"
        "ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] all-reduce(x), to_apply=add }"
    )
    got = evaluate_replicated(module, [[np.array(i, np.float32)] for i in range(3)])
    assert [float(v) for v in got] == [3, 3, 3]


def test_collectives_in_loops_meet_turn_by_turn() -> None:
    module = parse_module(f"""HloModule m, replica_count=2
{ADD}
body {{
  t = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(t), index=0
  i = s32[] get-tuple-element(t), index=1
  s = f32[] all-reduce(x), to_apply=add
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[], s32[]) tuple(s, j)
}}
more {{
  t = (f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=1
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[] parameter(0)
  z = s32[] constant(0)
  t = (f32[], s32[]) tuple(x, z)
  w = (f32[], s32[]) while(t), condition=more, body=body
  ROOT r = f32[] get-tuple-element(w), index=0
}}""")
    got = evaluate_replicated(module, [[np.float32(1)], [np.float32(2)]])
    assert [float(v) for v in got] == [48, 48]


CONDITIONAL = f"""HloModule m, replica_count=2
{ADD}
meet {{ x = f32[] parameter(0)  ROOT r = f32[] all-reduce(x), to_apply=add }}
pass {{ ROOT x = f32[] parameter(0) }}
ENTRY e {{
  p = pred[] parameter(0)
  x = f32[] constant(1)
  ROOT r = f32[] conditional(p, x, x), true_computation=meet, false_computation=pass
}}"""


def test_a_device_that_never_comes_is_an_error_and_no_deadlock() -> None:
    module = parse_module(CONDITIONAL)
    with pytest.raises(EvaluationError, match="do not meet") as caught:
        evaluate_replicated(module, [[np.array(True)], [np.array(False)]])
    assert "1 of 2" in str(caught.value.why)


def test_the_first_cause_is_what_is_raised() -> None:
    module = parse_module(
        f"""HloModule m, replica_count=2
{ADD}
meet {{ x = f32[] parameter(0)  ROOT r = f32[] all-reduce(x), to_apply=add }}
fail {{ x = f32[] parameter(0)  ROOT r = f32[] custom-call(x), custom_call_target="no_such" }}
ENTRY e {{
  p = pred[] parameter(0)
  x = f32[] constant(1)
  ROOT r = f32[] conditional(p, x, x), true_computation=meet, false_computation=fail
}}"""
    )
    with pytest.raises(EvaluationError, match="no_such"):
        evaluate_replicated(module, [[np.array(True)], [np.array(False)]])


def test_random_numbers_differ_between_devices() -> None:
    module = parse_module("""HloModule m, replica_count=2
ENTRY e { a = f32[] constant(0)  b = f32[] constant(1)
  ROOT r = f32[8] rng(a, b), distribution=rng_uniform }""")
    first, second = evaluate_replicated(module, [[], []], seed=3)
    again = evaluate_replicated(module, [[], []], seed=3)
    assert (first != second).any()
    np.testing.assert_array_equal(first, again[0])


def test_one_list_of_arguments_per_device() -> None:
    module = parse_module("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }")
    with pytest.raises(ArgumentError, match="2 argument lists for 1"):
        evaluate_replicated(module, [[np.float32(1)]] * 2)
    with pytest.raises(ArgumentError, match="at most"):
        evaluate_replicated(module, [[]] * 1000, topology=Topology(1000, 1))


def test_partners_that_are_not_there_are_an_error_not_a_wait() -> None:
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[] parameter(0)\n"
        "ROOT r = f32[] collective-permute(x), source_target_pairs={{0,3},{3,0}} }"
    )
    with pytest.raises(EvaluationError, match="not there"):
        HloEvaluator().run(module, np.float32(1))
