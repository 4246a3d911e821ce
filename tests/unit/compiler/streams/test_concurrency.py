"""Plans on several streams: memory is kept or ordered, loops and effects stay where they are."""

from dataclasses import replace
from functools import partial

import pytest

from tests.unit.compiler.streams.test_stream_choice import GPU
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.plan.kernel_plan import Copy, Loop, Parallel
from xladev.compiler.plan.kernel_table import ProgramKernels, no_code
from xladev.compiler.plan.memory_plan import plan_memory, total_nbytes
from xladev.compiler.streams.concurrency import Concurrency
from xladev.compiler.streams.stream_choice import StreamSpread
from xladev.compiler.streams.stream_hazards import MemoryAccess, MemoryRange
from xladev.compiler.streams.stream_waits import Waits, check_order
from xladev.errors import CompileError
from xladev.hlo.text import parse_module
from xladev.instrument import collect_decisions

FORCED = StreamSpread(4, is_forced=True, device=GPU)
CHAINS = """
ENTRY e {
  x = f32[1000] parameter(0)
  a = f32[1000] exponential(x)
  b = f32[1000] reverse(a), dimensions={0}
  c = f32[1000] exponential(b)
  d = f32[1000] reverse(x), dimensions={0}
  e = f32[1000] tanh(d)
  f = f32[1000] reverse(e), dimensions={0}
  g = f32[1000] add(c, f)
  ROOT h = f32[1000] reverse(g), dimensions={0}
}"""
LOOP = """
body {
  s = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  y = f32[8] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  u = f32[8] exponential(x)
  v = f32[8] tanh(y)
  ROOT t = (s32[], f32[8], f32[8]) tuple(j, u, v)
}
condition {
  s = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY e {
  s = (s32[], f32[8], f32[8]) parameter(0)
  ROOT w = (s32[], f32[8], f32[8]) while(s), condition=condition, body=body
}"""


def spread(text, concurrency=None, lower=no_code):
    """The plan of a module on several streams."""
    chosen = concurrency or Concurrency(FORCED)
    return assign_buffers(parse_module(text), ProgramKernels(lower), (), chosen)


def check(plan, step, waits=None):
    """Checks the order of parallel steps by the places that they touch."""

    def access(inner):
        if isinstance(inner, Copy):
            return MemoryAccess((place(inner.source),), (place(inner.destination),))
        read = len(plan.kernels[inner.kernel].operands)
        places = list(map(place, inner.buffers))
        return MemoryAccess(tuple(places[:read]), tuple(places[read:]))

    def place(s):
        return MemoryRange((s.space, s.index), s.offset, s.offset + s.nbytes)

    found = Waits(step.waits, step.joins) if waits is None else waits
    check_order(list(map(access, step.steps)), step.streams, found)


def test_chains_run_at_once():
    plan = spread(CHAINS)
    (step,) = plan.steps
    assert isinstance(step, Parallel)
    assert len(set(step.streams)) == 2
    assert sum(map(len, step.waits)) + len(step.joins) == 3
    check(plan, step)
    assert "stream 1 after" in str(plan)


def test_a_dropped_wait_is_caught():
    plan = spread(CHAINS)
    (step,) = plan.steps
    for number, row in enumerate(step.waits):
        if row:
            fewer = (*step.waits[:number], (), *step.waits[number + 1 :])
            with pytest.raises(CompileError, match="does not wait"):
                check(plan, step, Waits(fewer, step.joins))


def test_memory_is_kept_for_other_streams_or_its_use_is_ordered():
    wide, tight = (spread(CHAINS, Concurrency(FORCED, keeps)) for keeps in (True, False))
    one = assign_buffers(parse_module(CHAINS), ProgramKernels())
    assert wide.scratch_nbytes > tight.scratch_nbytes == one.scratch_nbytes
    for plan in (wide, tight):
        check(plan, plan.steps[0])


def test_places_that_streams_share_without_order_are_caught():
    """The waits of a plan that keeps memory, planted into one that uses it again."""
    wide, tight = (spread(CHAINS, Concurrency(FORCED, keeps)) for keeps in (True, False))
    (kept,), (step,) = wide.steps, tight.steps
    assert kept.streams == step.streams
    with pytest.raises(CompileError, match="whose memory it uses"):
        check(tight, step, Waits(kept.waits, kept.joins))


def test_loops_end_a_run_and_have_their_own():
    plan = spread(LOOP)
    (loop,) = [s for s in plan.steps if isinstance(s, Loop)]
    (inner,) = [s for s in loop.body if isinstance(s, Parallel)]
    assert len(set(inner.streams)) > 1
    check(plan, inner)


def test_control_dependencies_stay_in_order():
    text = CHAINS.replace("reverse(x), dimensions={0}", "reverse(x), dimensions={0}, WAITS")
    text = text.replace("WAITS", "control-predecessors={c}")
    assert not any(isinstance(s, Parallel) and len(s.steps) > 3 for s in spread(text).steps)


def test_launches_that_share_a_librarys_memory_never_run_at_once():
    def lower(spec: KernelSpec) -> KernelCode:
        return KernelCode(spec.name, b"", shares="library")

    shared = [MemoryAccess((), (MemoryRange("library", 0, 1),))] * 8
    assert not any(isinstance(s, Parallel) for s in spread(CHAINS, lower=lower).steps)
    (step,) = spread(CHAINS).steps
    with pytest.raises(CompileError, match="does not wait"):
        check_order(shared, step.streams, Waits(step.waits, step.joins))


def test_without_room_uses_of_memory_are_ordered():
    module = parse_module(CHAINS)
    plan = partial(plan_memory, module, ProgramKernels(), spread=FORCED)
    narrow = total_nbytes(plan_memory(module, ProgramKernels()))
    assert total_nbytes(plan(limit_nbytes=narrow)) == narrow < total_nbytes(plan())
    check(plan(limit_nbytes=narrow), plan(limit_nbytes=narrow).steps[0])


def test_nothing_changes_where_it_is_not_worth_it():
    spread = StreamSpread(4, is_forced=False, device=GPU)
    plan = plan_memory(parse_module(CHAINS), ProgramKernels(), spread=spread)
    alone = plan_memory(parse_module(CHAINS), ProgramKernels())
    assert (plan.steps, plan.scratch_nbytes) == (alone.steps, alone.scratch_nbytes)


def test_decisions_say_why_one_stream_was_kept():
    with collect_decisions() as decisions:
        plan = spread(CHAINS, Concurrency(StreamSpread(4, is_forced=False, device=GPU)))
    assert not any(isinstance(step, Parallel) for step in plan.steps)
    ((step, name, why),) = decisions
    assert (step, name) == ("concurrency", "a")
    assert why.startswith("streams: 1, because 4 are estimated to save")


def test_decisions_say_how_much_memory_several_streams_would_take():
    roomy = StreamSpread(4, is_forced=False, device=replace(GPU, cores=10**6))
    lines = ["x = f32[4000000] parameter(0)"]
    for chain in "abcd":
        lines.append(f"{chain}0 = f32[4000000] exponential(x)")
        for n in range(3):
            lines.append(f"{chain}{n + 1} = f32[4000000] reverse({chain}{n}), dimensions={{0}}")
        lines.append(f"{chain} = f32[1] slice({chain}3), slice={{[0:1]}}")
    lines.append("ROOT t = (f32[1], f32[1], f32[1], f32[1]) tuple(a, b, c, d)")
    module = parse_module("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}")
    with collect_decisions() as decisions:
        plan_memory(module, ProgramKernels(), spread=roomy)
    first, second = decisions
    assert first.why.startswith("streams: 4, because they are estimated to save")
    narrow = total_nbytes(plan_memory(module, ProgramKernels()))
    wide = total_nbytes(plan_memory(module, ProgramKernels(), spread=FORCED))
    told = f"{wide:,} bytes of memory, and {narrow * 5 // 4:,} are allowed"
    assert second == ("concurrency", "m", f"streams: 1, because several take {told}")
