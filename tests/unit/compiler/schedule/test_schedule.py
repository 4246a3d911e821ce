"""Schedules: fewer bytes at once, the same program, and nothing moved that must not be."""

import random

import numpy as np
import pytest

from tests.unit.loops import counted
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.plan.kernel_table import ProgramKernels
from xladev.compiler.schedule.schedule import Schedule, WorkGraphs, best_order
from xladev.compiler.schedule.schedule_orders import backward, depth_first, forward
from xladev.compiler.schedule.work_graph import live_bytes
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

BLOCK = 4096  # bytes of f32[1024]

ADD = """add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = f32[] add(p, q) }
"""


def entry(body: str, more: str = "") -> HloModule:
    return parse_module(f"HloModule m\n{more}ENTRY e {{\n{body}\n}}")


def names(module: HloModule) -> list[str]:
    return [i.name for i in module.entry.instructions]


def scratch(module: HloModule) -> int:
    return assign_buffers(module, ProgramKernels()).scratch_nbytes


def wide(count: int) -> HloModule:
    """Many large sorts, all made before the first of them is summed up."""
    lines = ["x = f32[1024] parameter(0)", "z = f32[] constant(0)"]
    lines += [f"c{n} = f32[] constant({n})" for n in range(count)]
    lines += [f"b{n} = f32[1024] broadcast(c{n}), dimensions={{}}" for n in range(count)]
    lines += [f"r{n} = f32[1024] reverse(b{n}), dimensions={{0}}" for n in range(count)]
    lines += [f"s{n} = f32[] reduce(r{n}, z), dimensions={{0}}, to_apply=add" for n in range(count)]
    lines += ["t0 = f32[] add(s0, z)"]
    lines += [f"t{n} = f32[] add(t{n - 1}, s{n})" for n in range(1, count)]
    return entry("\n".join(lines), ADD)


def test_what_is_made_early_is_made_where_it_is_read() -> None:
    module = wide(20)
    assert scratch(module) >= 20 * BLOCK
    scheduled = Schedule().run(module)
    verify(scheduled)
    assert scratch(scheduled) < 3 * BLOCK


def test_a_fork_is_left_by_its_costly_side_first() -> None:
    """The small branch waits as eight bytes, the large one would wait as blocks."""
    module = entry(
        """x = f32[1024] parameter(0)
  z = f32[] constant(0)
  a = f32[1024] reverse(x), dimensions={0}
  b = f32[1024] sort(a), dimensions={0}, to_apply=lt
  c = f32[1024] reverse(b), dimensions={0}
  d = f32[1024] sort(c), dimensions={0}, to_apply=lt
  e = f32[1024] reverse(x), dimensions={0}
  f = f32[] reduce(e, z), dimensions={0}, to_apply=add
  g = f32[1024] broadcast(f), dimensions={}
  h = f32[1024] sort(g), dimensions={0}, to_apply=lt
  s = f32[] reduce(d, z), dimensions={0}, to_apply=add
  u = f32[] reduce(h, z), dimensions={0}, to_apply=add
  ROOT r = f32[] add(s, u)""",
        ADD
        + """lt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=LT }
""",
    )
    assert scratch(module) >= 3 * BLOCK
    assert scratch(Schedule().run(module)) < 3 * BLOCK


def test_control_dependencies_are_kept() -> None:
    lines = """x = f32[1024] parameter(0)
  z = f32[] constant(0)
  a = f32[1024] reverse(x), dimensions={0}
  b = f32[1024] negate(x)
  sa = f32[] reduce(a, z), dimensions={0}, to_apply=addCONTROL
  sb = f32[] reduce(b, z), dimensions={0}, to_apply=add
  ROOT s = f32[] add(sa, sb)"""
    free = names(Schedule().run(entry(lines.replace("CONTROL", ""), ADD)))
    assert free.index("sa") < free.index("b")
    kept = entry(lines.replace("CONTROL", ", control-predecessors={b}"), ADD)
    order = names(Schedule().run(kept))
    assert order.index("b") < order.index("sa")


def test_a_control_dependency_may_name_a_part_of_a_result() -> None:
    module = entry(
        """x = f32[1024] parameter(0)
  z = f32[] constant(0)
  a = f32[1024] reverse(x), dimensions={0}
  b = (f32[1024], f32[1024]) sort(x, x), dimensions={0}, to_apply=lt
  b0 = f32[1024] get-tuple-element(b), index=0
  sa = f32[] reduce(a, z), dimensions={0}, to_apply=add, control-predecessors={b0}
  sb = f32[] reduce(b0, z), dimensions={0}, to_apply=add
  ROOT s = f32[] add(sa, sb)""",
        ADD
        + """lt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = f32[] parameter(2)
  t = f32[] parameter(3)
  ROOT c = pred[] compare(p, q), direction=LT }
""",
    )
    order = names(Schedule().run(module))
    assert order.index("b") < order.index("sa")


def test_effects_keep_their_order_behind_parts_that_wait() -> None:
    """The part of the tuple waits for the second effect, which must not overtake the first."""
    effect = 'custom-call(x), custom_call_target="log", custom_call_has_side_effect=true'
    module = entry(
        f"""x = f32[1024] parameter(0)
  z = f32[] constant(0)
  e0 = f32[1024] {effect}
  e1 = f32[1024] {effect}
  t = (f32[1024]) tuple(x), control-predecessors={{e1}}
  g = f32[1024] get-tuple-element(t), index=0
  r = f32[1024] reverse(g), dimensions={{0}}
  sr = f32[] reduce(r, z), dimensions={{0}}, to_apply=add
  b = f32[] reduce(e1, sr), dimensions={{0}}, to_apply=add
  ROOT a = f32[] reduce(e0, b), dimensions={{0}}, to_apply=add""",
        ADD,
    )
    order = names(Schedule().run(module))
    assert order.index("e0") < order.index("e1") < order.index("r")


@pytest.mark.parametrize(
    "step",
    [
        "rng(z, z), distribution=rng_uniform",
        'custom-call(x), custom_call_target="log", custom_call_has_side_effect=true',
        "all-reduce(x), replica_groups={}, to_apply=add",
    ],
)
def test_effects_and_communication_keep_their_order(step: str) -> None:
    count = 8
    head = ["x = f32[1024] parameter(0)", f"s{count} = f32[] constant(0)", "z = f32[] constant(1)"]
    made = [f"e{n} = f32[1024] {step}" for n in range(count)]
    # summed up from the last to the first: for memory alone, each would be made when it is read
    sums = [
        f"s{n} = f32[] reduce(e{n}, s{n + 1}), dimensions={{0}}, to_apply=add"
        for n in reversed(range(count))
    ]
    module = entry("\n".join([*head, *made, *sums]), ADD)
    order = names(Schedule().run(module))
    assert [n for n in order if n.startswith("e")] == [f"e{n}" for n in range(count)]
    pure = entry("\n".join([*head, *made, *sums]).replace(step, "reverse(x), dimensions={0}"), ADD)
    free = names(Schedule().run(pure))
    assert [n for n in free if n.startswith("e")] == [f"e{n}" for n in reversed(range(count))]


def test_calls_of_programs_with_effects_keep_their_order() -> None:
    draw = """draw { p = f32[1024] parameter(0)
  z = f32[] constant(0)
  o = f32[] constant(1)
  ROOT r = f32[1024] rng(z, o), distribution=rng_uniform }
"""
    module = entry(
        """x = f32[1024] parameter(0)
  z = f32[] constant(0)
  a = f32[1024] call(x), to_apply=draw
  b = f32[1024] rng(z, z), distribution=rng_uniform
  sb = f32[] reduce(b, z), dimensions={0}, to_apply=add
  ROOT sa = f32[] reduce(a, sb), dimensions={0}, to_apply=add""",
        ADD + draw,
    )
    order = names(Schedule().run(module))
    assert order.index("a") < order.index("b")


def random_graph(seed: int) -> HloModule:
    """Sorts, slices and sums of random sizes, in a random order that is legal."""
    source = random.Random(seed)
    lines, sizes = [], {}
    for n in range(3):
        sizes[f"p{n}"] = 64
        lines.append(f"p{n} = f32[64] parameter({n})")
    for n in range(40):
        a = source.choice(list(sizes))
        b = source.choice([k for k in sizes if sizes[k] <= sizes[a]])
        kind, name = source.choice(("reverse", "pad", "slice", "concatenate")), f"v{n}"
        if kind == "reverse":
            size, text = sizes[a], f"reverse({a}), dimensions={{0}}"
        elif kind == "pad":
            size, text = sizes[a] + 64, f"pad({a}, z), padding=0_64"
        elif kind == "slice":
            size, text = max(sizes[a] // 2, 1), f"slice({a}), slice={{[0:{max(sizes[a] // 2, 1)}]}}"
        else:
            size, text = sizes[a] + sizes[b], f"concatenate({a}, {b}), dimensions={{0}}"
        sizes[name] = size
        lines.append(f"{name} = f32[{size}] {text}")
    kept = source.sample([k for k in sizes if k.startswith("v")], 4)
    for k in kept:
        lines.append(f"sum_{k} = f32[] reduce({k}, z), dimensions={{0}}, to_apply=add")
    sums = ", ".join(f"sum_{k}" for k in kept)
    lines.append(f"ROOT t = (f32[], f32[], f32[], f32[]) tuple({sums})")
    return entry("\n".join(["z = f32[] constant(0)", *lines]), ADD)


@pytest.mark.parametrize("seed", range(25))
def test_every_order_is_legal_and_the_best_is_taken(seed: int) -> None:
    module = random_graph(seed)
    graph = WorkGraphs(module).of(module.entry)
    count = len(graph.steps)
    peaks = []
    for find in (forward, backward, depth_first):
        order = find(graph)
        assert sorted(order) == list(range(count))
        at = {step: n for n, step in enumerate(order)}
        assert all(at[need] < at[s] for s in range(count) for need in graph.needs[s])
        peaks.append(max(live_bytes(graph, order)))
    _, peak = best_order(graph)
    assert peak == min(*peaks, max(live_bytes(graph, range(count))))
    scheduled = Schedule().run(module)
    verify(scheduled)
    assert len(scheduled.entry.instructions) == len(module.entry.instructions)
    arguments = [np.arange(64, dtype=np.float32) * k for k in range(3)]
    wanted = HloEvaluator().run(module, *arguments)
    for a, b in zip(wanted, HloEvaluator().run(scheduled, *arguments), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(10))
def test_live_bytes_are_what_the_arena_needs(seed: int) -> None:
    """Never more than the arena; it may need more where holes do not fit."""
    module = random_graph(seed)
    graph = WorkGraphs(module).of(module.entry)
    peak = max(live_bytes(graph, range(len(graph.steps))))
    assert peak <= scratch(module) <= 2 * peak


def test_a_loop_counts_with_what_lives_inside() -> None:
    """The large value is made after the loop, whose body needs much itself."""
    iteration = """big = f32[4096] concatenate(x, x, x, x), dimensions={0}
  reversed = f32[4096] reverse(big), dimensions={0}
  y = f32[1024] slice(reversed), slice={[0:1024]}"""
    module = entry(
        """x = f32[1024] parameter(0)
  zero = s32[] constant(0)
  z = f32[] constant(0)
  large = f32[3072] concatenate(x, x, x), dimensions={0}
  init = (s32[], f32[1024]) tuple(zero, x)
  w = (s32[], f32[1024]) while(init), condition=cond, body=body
  r = f32[1024] get-tuple-element(w), index=1
  sr = f32[] reduce(r, z), dimensions={0}, to_apply=add
  sp = f32[] reduce(large, z), dimensions={0}, to_apply=add
  ROOT s = f32[] add(sr, sp)""",
        ADD + counted("f32[1024]", iteration, 3),
    )
    order = names(Schedule().run(module))
    assert (order.index("w") < order.index("large")) or (order.index("sp") < order.index("w"))
    assert scratch(Schedule().run(module)) < scratch(module)


def test_large_programs_are_scheduled() -> None:
    module = wide(2000)
    scheduled = Schedule().run(module)
    graph = WorkGraphs(scheduled).of(scheduled.entry)
    assert max(live_bytes(graph, range(len(graph.steps)))) < 4 * BLOCK + 64 * 2000
