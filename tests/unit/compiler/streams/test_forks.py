"""Which loops become parts of a fork, what stays before and after, and that memory is apart."""

import random

import pytest

from tests.tools.fork_programs import TWO, conflicts, forks_of, loop, random_program, run_loop
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.plan.kernel_plan import Copy, Fork, Loop, RunKernel
from xladev.compiler.plan.kernel_table import ProgramKernels, no_code
from xladev.compiler.plan.memory_plan import plan_memory
from xladev.compiler.streams import forks as forks_module
from xladev.compiler.streams.forks import ForkSpread
from xladev.hlo.text import parse_module
from xladev.instrument import collect_decisions

KERNEL_S = 20e-6
SPREAD = ForkSpread(2, lambda spec, threads: KERNEL_S)
HEAD = "ENTRY e {\n  a = f32[64] parameter(0)\n  b = f32[64] parameter(1)\n"


def plan_of(text, spread=SPREAD):
    """The plan of a module with forks."""
    return assign_buffers(parse_module(text), ProgramKernels(no_code), (), spread)


def program(loops, body):
    return f"HloModule m\n{''.join(loops)}{HEAD}{body}}}\n"


def names(steps):
    """Names of the loops among some steps."""
    return [step.name for step in steps if isinstance(step, Loop)]


def test_two_loops_that_need_nothing_of_each_other_become_a_fork():
    plan = plan_of(TWO)
    (fork,) = forks_of(plan.steps)
    assert [names(part) for part in fork.parts] == [["u.w"], ["v.w"]]
    assert not conflicts(plan)
    *before, forked, last = plan.steps
    assert forked is fork
    assert all(isinstance(step, Copy) for step in before)
    assert isinstance(last, RunKernel)
    assert "part 1:" in str(plan)


def test_a_loop_that_reads_another_ones_result_stays_behind_it():
    body = run_loop(0, "u", "a", "b") + run_loop(1, "v", "u", "a")
    plan = plan_of(program([loop(0), loop(1)], body + "  ROOT r = f32[64] negate(v)\n"))
    assert not list(forks_of(plan.steps))
    assert names(plan.steps) == ["u.w", "v.w"]


def test_a_third_loop_that_needs_both_is_after_the_fork():
    body = run_loop(0, "u", "a", "b") + run_loop(1, "v", "b", "a") + run_loop(2, "w", "u", "v")
    plan = plan_of(program([loop(0), loop(1), loop(2)], body + "  ROOT r = f32[64] negate(w)\n"))
    (fork,) = forks_of(plan.steps)
    assert [names(part) for part in fork.parts] == [["u.w"], ["v.w"]]
    assert names(plan.steps) == ["w.w"]
    assert not conflicts(plan)


def test_steps_between_go_before_into_a_part_or_after_by_what_they_need():
    body = (
        "  p = f32[64] tanh(a)\n"
        + run_loop(0, "u", "p", "b")
        + "  q = f32[64] sine(b)\n  x = f32[64] cosine(u)\n"
        + run_loop(1, "v", "q", "p")
        + "  y = f32[64] exponential(v)\n  z = f32[64] add(x, y)\n"
        + run_loop(2, "w", "a", "q")
        + "  ROOT r = f32[64] subtract(z, w)\n"
    )
    plan = plan_of(program([loop(0), loop(1), loop(2)], body))
    (fork,) = forks_of(plan.steps)
    at = plan.steps.index(fork)

    def opcodes(steps):
        ran = [s for s in steps if isinstance(s, RunKernel)]
        return [plan.operations[step.operation].opcode for step in ran]

    assert opcodes(plan.steps[:at]) == ["tanh", "sine"]
    assert [opcodes(part) for part in fork.parts] == [["cosine"], ["exponential"], []]
    assert opcodes(plan.steps[at:]) == ["add", "subtract"]
    assert not conflicts(plan)


def test_memory_of_one_part_is_not_used_again_by_another():
    """Without the buffers' longer lives, places are shared: the check sees it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forks_module, "_keep", lambda steps: None)
        assert conflicts(plan_of(TWO))
    assert not conflicts(plan_of(TWO))


def test_a_short_loop_is_not_worth_a_fork():
    with collect_decisions() as decisions:
        plan = plan_of(TWO, ForkSpread(2, lambda spec, threads: 1e-7))
    assert not list(forks_of(plan.steps))
    assert any("one after the other" in d.why for d in decisions)


def test_loops_of_kernels_that_all_threads_share_are_not_worth_a_fork():
    plan = plan_of(TWO, ForkSpread(2, lambda spec, threads: KERNEL_S / threads))
    assert not list(forks_of(plan.steps))


def test_iterations_that_are_known_count():
    rare = ForkSpread(2, lambda spec, threads: 1e-6, {"u.w": 1, "v.w": 1})
    often = ForkSpread(2, lambda spec, threads: 1e-6, {"u.w": 500, "v.w": 500})
    assert not list(forks_of(plan_of(TWO, rare).steps))
    assert list(forks_of(plan_of(TWO, often).steps))


@pytest.mark.parametrize(
    "waits",
    [
        '  o = f32[64] custom-call(a), custom_call_target="x", custom_call_has_side_effect=true\n',
        "  o = f32[64] negate(a), control-predecessors={u.w}\n",
        "  z = pred[] constant(true)\n  o = f32[64] conditional(z, a, a), true_computation=same,"
        " false_computation=same, control-predecessors={u.w}\n",
    ],
)
def test_what_keeps_its_order_is_between_no_parts(waits):
    body = run_loop(0, "u", "a", "b") + waits + run_loop(1, "v", "b", "a")
    same = "same { x = f32[64] parameter(0)  ROOT n = f32[64] negate(x) }\n"
    loops = [loop(0), loop(1), same]
    text = program(loops, body + "  s = f32[64] subtract(u, v)\n  ROOT r = f32[64] add(s, o)\n")
    assert not list(forks_of(plan_of(text).steps))
    free = text.replace(waits, "  o = f32[64] negate(b)\n")
    assert list(forks_of(plan_of(free).steps))


def test_a_loop_that_must_wait_for_another_is_beside_none():
    text = TWO.replace("condition=c1", "control-predecessors={u.w}, condition=c1")
    assert not list(forks_of(plan_of(text).steps))


def test_loops_within_a_loop_have_forks_of_their_own():
    outer = """
bo { s = (s32[], f32[64], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  a = f32[64] get-tuple-element(s), index=1  b = f32[64] get-tuple-element(s), index=2
  one = s32[] constant(1)  j = s32[] add(i, one)
INNER  ROOT t = (s32[], f32[64], f32[64]) tuple(j, u, v) }
co { s = (s32[], f32[64], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT p = pred[] compare(i, n), direction=LT }
""".replace("INNER", run_loop(0, "u", "a", "a") + run_loop(1, "v", "b", "b"))
    body = (
        "  z = s32[] constant(0)  s = (s32[], f32[64], f32[64]) tuple(z, a, b)\n"
        "  ROOT w = (s32[], f32[64], f32[64]) while(s), condition=co, body=bo\n"
    )
    plan = plan_of(program([loop(0), loop(1), outer], body))
    (outside,) = (step for step in plan.steps if isinstance(step, Loop))
    assert sum(isinstance(step, Fork) for step in outside.body) == 1
    assert not conflicts(plan)


def test_a_fork_that_takes_too_much_memory_is_not_made(monkeypatch):
    module = parse_module(TWO)
    plain = plan_memory(module, ProgramKernels(no_code))
    forked = plan_memory(module, ProgramKernels(no_code), spread=SPREAD)
    assert forked.scratch_nbytes > plain.scratch_nbytes
    assert list(forks_of(forked.steps))
    limit = sum(plain.argument_nbytes) + sum(plain.result_nbytes) + plain.scratch_nbytes + 8
    within = plan_memory(module, ProgramKernels(no_code), spread=SPREAD, limit_nbytes=limit)
    assert not list(forks_of(within.steps))


def test_random_programs_have_their_memory_apart(seed):
    draw = random.Random(f"{seed} forks")
    made = 0
    for _ in range(60):
        text = random_program(draw)
        plan = plan_of(text)
        assert not conflicts(plan), text
        made += sum(1 for _ in forks_of(plan.steps))
    assert made > 10
