"""Values computed again to keep to a limit of memory: fewer bytes, the same results."""

import logging

import numpy as np
import pytest

from xladev import client
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.fusion.instruction_fusion import Fusion
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.kernel_plan import KernelPlan, RunKernel
from xladev.compiler.plan.kernel_table import ProgramKernels
from xladev.compiler.plan.memory_plan import plan_memory, total_nbytes
from xladev.compiler.schedule.rematerialization import Rematerialization
from xladev.compiler.support import YES
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

BLOCK = 4096  # bytes of f32[1024]
COUNT = 8

ADD = """add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = f32[] add(p, q) }
"""
LESS = """lt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=LT }
"""


def forward_and_back(value: str = "cosine(x{n})", entry: str = "ENTRY e") -> str:
    """Blocks that are summed up, and needed again when their sum is known: as in training."""
    lines = ["x = f32[1024] parameter(0)", "z = f32[] constant(0)"]
    for n in range(COUNT):
        lines.append(f"c{n} = f32[] constant({n})")
        lines.append(f"b{n} = f32[1024] broadcast(c{n}), dimensions={{}}")
        lines.append(f"x{n} = f32[1024] add(x, b{n})")
        lines.append(f"v{n} = f32[1024] {value.format(n=n)}")
        lines.append(f"s{n} = f32[] reduce(v{n}, z), dimensions={{0}}, to_apply=add")
    lines.append("t0 = f32[] add(s0, s0)")
    lines += [f"t{n} = f32[] add(t{n - 1}, s{n})" for n in range(1, COUNT)]
    lines.append(f"m = f32[1024] broadcast(t{COUNT - 1}), dimensions={{}}")
    lines.append("r0 = f32[] constant(0)")
    for n in range(COUNT):
        lines.append(f"w{n} = f32[1024] multiply(v{n}, m)")
        lines.append(f"o{n} = f32[1024] sort(w{n}), dimensions={{0}}, to_apply=lt")
        lines.append(f"r{n + 1} = f32[] reduce(o{n}, r{n}), dimensions={{0}}, to_apply=add")
    lines.append(f"ROOT result = f32[] negate(r{COUNT})")
    return f"{entry} {{\n" + "\n".join(lines) + "\n}"


def fused(text: str) -> HloModule:
    module = parse_module(f"HloModule m\n{ADD}{LESS}{text}")
    return Fusion(lambda a, b: YES).run(module)


def assign(module: HloModule) -> KernelPlan:
    return assign_buffers(module, ProgramKernels())


X = np.linspace(0, 3, 1024, dtype=np.float32)


def evaluated(module: HloModule) -> np.ndarray:
    return np.asarray(HloEvaluator().run(module, X))


def test_the_plan_falls_below_the_limit() -> None:
    module = fused(forward_and_back())
    free = plan_memory(module, ProgramKernels())
    assert free.scratch_nbytes >= COUNT * BLOCK
    limit = total_nbytes(free) - free.scratch_nbytes + 4 * BLOCK
    plan = plan_memory(module, ProgramKernels(), limit_nbytes=limit)
    assert total_nbytes(plan) <= limit
    assert len(plan.steps) > len(free.steps)
    assert len(plan.kernels) == len(free.kernels)


def test_what_is_computed_again_is_the_same() -> None:
    module = fused(forward_and_back())
    changed = Rematerialization(4 * BLOCK).run(module)
    assert changed.instruction_count > module.instruction_count
    verify(changed)
    np.testing.assert_array_equal(evaluated(changed), evaluated(module))


def test_a_limit_that_is_kept_changes_nothing() -> None:
    module = fused(forward_and_back())
    assert Rematerialization(2 * COUNT * BLOCK).run(module) is module


@pytest.mark.parametrize(
    "value",
    [
        "rng(z, c{n}), distribution=rng_uniform",
        'custom-call(x{n}), custom_call_target="f", custom_call_has_side_effect=true',
        "all-reduce(x{n}), to_apply=add",
        "sort(x{n}), dimensions={{0}}, to_apply=lt",
        "cosine(x), control-predecessors={{z}}",
    ],
)
def test_what_must_or_should_run_once_runs_once(value: str) -> None:
    module = fused(forward_and_back(value))
    opcode = value.partition("(")[0]
    assert runs(Rematerialization(0).run(module), opcode) == runs(module, opcode) > 0


def runs(module: HloModule, opcode: str) -> int:
    """How often an opcode runs in the entry, alone or within a kernel."""
    return sum(
        i.opcode == opcode
        or any(inner.opcode == opcode for c in i.called for inner in c.instructions)
        for i in module.entry.instructions
    )


def test_bodies_of_loops_do_with_what_their_callers_leave() -> None:
    body = forward_and_back(entry="inner")
    loop = f"""{body}
cond {{ s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[1024] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  f = f32[] call(a), to_apply=inner
  g = f32[1024] broadcast(f), dimensions={{}}
  ROOT t = (s32[], f32[1024]) tuple(next, g) }}
ENTRY e {{ start = f32[1024] parameter(0)
  i = s32[] constant(0)
  init = (s32[], f32[1024]) tuple(i, start)
  w = (s32[], f32[1024]) while(init), condition=cond, body=step
  ROOT r = f32[1024] get-tuple-element(w), index=1 }}"""
    module = fused(loop)
    before = assign(module).scratch_nbytes
    changed = Rematerialization(5 * BLOCK).run(module)
    verify(changed)
    assert assign(changed).scratch_nbytes <= 5 * BLOCK + 10 * 64 < before
    np.testing.assert_array_equal(evaluated(changed), evaluated(module))


def test_an_operand_that_must_be_kept_instead_is_no_gain() -> None:
    """Each value is made of a block of its own that nobody else needs later."""
    lines = []
    for line in forward_and_back().splitlines():
        if line.startswith("x") and " add(" in line:
            name = line.partition(" ")[0]
            line = f"{name} = f32[1024] sort(b{name[1:]}), dimensions={{0}}, to_apply=lt"
        lines.append(line)
    module = fused("\n".join(lines))
    changed = Rematerialization(0).run(module)
    assert assign(changed).scratch_nbytes <= assign(module).scratch_nbytes


def test_a_limit_out_of_reach_is_said(caplog: pytest.LogCaptureFixture) -> None:
    module = fused(forward_and_back())
    with caplog.at_level(logging.WARNING, logger="xladev.compile"):
        plan = plan_memory(module, ProgramKernels(), limit_nbytes=10)
    assert plan.scratch_nbytes < assign(module).scratch_nbytes
    assert "more than 10" in caplog.text


def test_the_option_reaches_the_cpu() -> None:
    module = parse_module(f"HloModule m\n{ADD}{LESS}{forward_and_back()}")
    free = client.compile(module, "cpu")
    limit = BLOCK + 4 + 6 * BLOCK  # of which two are the workspace of the sort
    small = client.compile(module, "cpu", CompileOptions(memory_limit=limit))
    signatures = [c.program.executables[0].signature for c in (free, small)]
    assert signatures[0].scratch_nbytes > limit
    assert signatures[1].scratch_nbytes + BLOCK + 4 <= limit
    np.testing.assert_array_equal(small(X).numpy(), free(X).numpy())


def test_kernels_run_as_often_as_they_are_named() -> None:
    module = fused(forward_and_back())
    plan = assign(Rematerialization(4 * BLOCK).run(module))
    runs = [s.kernel for s in plan.steps if isinstance(s, RunKernel)]
    assert len(runs) > len(set(runs))


def test_programs_without_steps_are_left_alone() -> None:
    module = parse_module("HloModule m\nENTRY e { ROOT x = f32[4] parameter(0) }")
    assert Rematerialization(-1).run(module) is module


def test_tokens_need_no_kernels() -> None:
    module = parse_module("""HloModule m
ENTRY e { a = token[] after-all()
  b = token[] after-all()
  ROOT c = token[] after-all(a, b) }""")
    assert Rematerialization(-1).run(module) is module
