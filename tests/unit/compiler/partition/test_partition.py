import random

import pytest

from tests.tools.growth import growth
from tests.tools.profiled_calls import calls
from tests.unit.compiler.sample_programs import CROSSING, LOOP_AND_BRANCH
from xladev.compiler.partition.assignment import SDK, STRUCTURAL_OPCODES
from xladev.compiler.partition.partition import (
    Region,
    needs,
    partition,
    region_outputs,
)
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module
from xladev.passes.effects import computations_with_effects


def real(computation):
    return [i for i in computation.instructions if i.opcode not in STRUCTURAL_OPCODES]


def instructions(step):
    return step.instructions if isinstance(step, Region) else (step,)


def random_dag(chance, size):
    b = HloBuilder("dag")
    made = [b.parameter(array(dt.F32, (2,)))]
    for _ in range(size):
        made.append(b.op("add", chance.choice(made[-8:]), chance.choice(made)))
    return b.build(made[-1])


@pytest.mark.parametrize("round", range(30))
def test_steps_run_everything_needed_once_and_in_order(round, seed):
    chance = random.Random(f"{seed} {round}")
    computation = random_dag(chance, chance.randrange(1, 120))
    devices = {i: chance.choice(["a", "b", "c", SDK]) for i in real(computation)}
    done = set()
    for step in partition(computation, devices):
        ran = instructions(step)
        if isinstance(step, Region):
            assert {devices[i] for i in ran} == {step.device}
        for i in ran:
            assert needs(i) <= done | set(ran)
        assert not done & set(ran)
        done.update(ran)
    assert computation.root in done


def test_dead_instructions_are_left_out():
    b = HloBuilder("dead")
    x = b.parameter(array(dt.F32, (2,)))
    b.op("sine", x)
    computation = b.build(b.op("cosine", x))
    (region,) = partition(computation, dict.fromkeys(real(computation), "a"))
    assert [i.opcode for i in region.instructions] == ["cosine"]


def test_side_effects_are_kept_wherever_they_are():
    module = parse_module("""
HloModule effects
log {
  x = f32[] parameter(0)
  ROOT y = f32[] custom-call(x), custom_call_target="print", custom_call_has_side_effect=true
}
ENTRY main {
  x = f32[] parameter(0)
  unused = f32[] call(x), to_apply=log
  ROOT r = f32[] negate(x)
}
""")
    effects = computations_with_effects(module)
    assert {c.name for c in effects} == {"log", "main"}
    devices = dict.fromkeys(real(module.entry), "a")
    (region,) = partition(module.entry, devices, effects)
    assert [i.name for i in region.instructions] == ["unused", "r"]
    (region,) = partition(module.entry, devices)
    assert [i.name for i in region.instructions] == ["r"]


def test_control_predecessors_order_regions():
    module = parse_module("""
HloModule ordered
ENTRY main {
  x = f32[] parameter(0)
  first = f32[] sine(x)
  second = f32[] cosine(x), control-predecessors={first}
  ROOT r = (f32[], f32[]) tuple(second, first)
}
""")
    first, second = real(module.entry)
    steps = partition(module.entry, {first: "b", second: "a"})
    assert [step.device for step in steps] == ["b", "a"]


def test_outputs_are_what_others_need():
    module = parse_module(CROSSING)
    devices = {i: "host" if i.opcode == "sine" else "npu" for i in real(module.entry)}
    steps = partition(module.entry, devices)
    assert [step.device for step in steps] == ["host", "npu", "host", "npu"]
    outputs = region_outputs(steps, module.entry.root)
    names = [[leaf.producer.name for leaf in outputs[step]] for step in steps]
    assert names == [["s"], ["p"], ["q"], ["u"]]


def test_a_shared_deep_nest_of_calls_takes_no_time():
    text = ["HloModule nest", "f0 {\n x = f32[] parameter(0)\n ROOT y = f32[] negate(x)\n}"]
    for n in range(1, 60):
        text.append(
            f"f{n} {{\n x = f32[] parameter(0)\n a = f32[] call(x), to_apply=f{n - 1}\n"
            f" ROOT b = f32[] call(a), to_apply=f{n - 1}\n}}"
        )
    text.append("ENTRY main {\n x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=f59\n}")
    module = parse_module("\n".join(text))
    assert calls(lambda: computations_with_effects(module)) < 10_000
    assert computations_with_effects(module) == frozenset()


def test_growth_is_near_linear():
    def placed(size):
        computation = random_dag(random.Random(size), size)
        return computation, {i: random.Random(i.name).choice("ab") for i in real(computation)}

    assert growth(lambda made: partition(*made), placed, 1000, 10000) < 1.5


def test_while_parts_are_found_through_nested_tuples():
    module = parse_module(LOOP_AND_BRANCH)
    devices = {i: SDK if i.called and i.opcode != "reduce" else "a" for i in real(module.entry)}
    steps = partition(module.entry, devices)
    kinds = [step.device if isinstance(step, Region) else step.opcode for step in steps]
    assert kinds == ["while", "conditional", "call", "a"]
