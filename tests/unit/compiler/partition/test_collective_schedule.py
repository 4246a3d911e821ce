"""Collectives begin when their operands are there, and end before their results are needed."""

import random
from dataclasses import dataclass

import pytest

from xladev.compiler.partition.assignment import SDK, STRUCTURAL_OPCODES
from xladev.compiler.partition.collective_schedule import DoneStep, StartStep, pieces
from xladev.compiler.partition.partition import (
    Region,
    instructions_of,
    needs,
    partition,
    region_outputs,
)
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module


@dataclass(frozen=True)
class Costs:
    """A product takes a second, all else a hundredth, a collective as long as it says."""

    exchange: float = 1.0
    least_s: float = 0.5

    def work_s(self, instruction):
        return 1.0 if instruction.opcode == "dot" else 0.01

    def exchange_s(self, instruction):
        return self.exchange


HEAD = """HloModule m
sum { left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT both = f32[] add(left, right) }
"""
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def shown(text, costs=None):
    """Names of what runs, one group for each step."""
    entry = parse_module(f"{HEAD}ENTRY e {{ x = f32[4,4] parameter(0)\n{text} }}").entry
    found = []
    for step in partition(entry, devices_of(entry), overlap=costs or Costs()):
        names = " ".join(i.name for i in instructions_of(step))
        found.append({StartStep: f"start {names}"}.get(type(step), names))
        if isinstance(step, DoneStep):
            found[-1] = f"done {step.instruction.name}"
    return found


def devices_of(computation):
    real = [i for i in computation.instructions if i.opcode not in STRUCTURAL_OPCODES]
    return {i: SDK if i.op.category == "collective" else "a" for i in real}


def line(name, opcode, *operands, more=""):
    more = {"dot": f", {DOT}", "all-reduce": ", to_apply=sum"}.get(opcode, more)
    return f"  {name} = f32[4,4] {opcode}({', '.join(operands)}){more}\n"


def test_each_sum_of_a_backward_pass_is_hidden_under_the_next_product():
    text = "".join(
        line(f"d{n}", "dot", f"d{n - 1}" if n else "x", "x") + line(f"g{n}", "all-reduce", f"d{n}")
        for n in range(3)
    ) + "".join(line(f"u{n}", "subtract", "x", f"g{n}") for n in range(3))
    found = shown(text + "  ROOT r = (f32[4,4], f32[4,4], f32[4,4]) tuple(u0, u1, u2)\n")
    assert found == [
        "d0", "start g0", "d1", "start g1", "d2", "g2", "u2", "done g0", "done g1", "u0 u1",
    ]  # fmt: skip


def test_long_sums_are_waited_for_one_by_one_where_there_is_work_for_each():
    text = "".join(
        line(f"d{n}", "dot", f"d{n - 1}" if n else "x", "x") + line(f"g{n}", "all-reduce", f"d{n}")
        for n in range(3)
    ) + "".join(line(f"u{n}", "dot", "x", f"g{n}") for n in range(3))
    root = "  ROOT r = (f32[4,4], f32[4,4], f32[4,4]) tuple(u0, u1, u2)\n"
    found = shown(text + root, Costs(exchange=3.0))
    assert found[6:] == ["done g0", "u0", "done g1", "u1", "done g2", "u2"]


def test_other_work_fills_the_time_that_a_chain_would_wait():
    text = (
        line("a", "dot", "x", "x") + line("s", "all-reduce", "a") + line("b", "dot", "s", "x")
        + line("t", "all-reduce", "b") + line("c", "dot", "t", "x")
        + line("f", "dot", "x", "x") + line("g", "dot", "f", "x") + line("h", "dot", "g", "x")
    )  # fmt: skip
    found = shown(text + "  ROOT r = (f32[4,4], f32[4,4]) tuple(c, h)\n")
    assert found == ["a", "start s", "f", "done s", "b", "start t", "g h", "done t", "c"]


@pytest.mark.parametrize(
    ("costs", "why"),
    [(Costs(exchange=0.1), "short"), (Costs(least_s=2.0), "little to hide it under")],
)
def test_what_hides_little_is_not_cut(costs, why):
    text = line("a", "dot", "x", "x") + line("s", "all-reduce", "a") + line("b", "dot", "x", "x")
    found = shown(text + "  ROOT r = (f32[4,4], f32[4,4]) tuple(s, b)\n", costs)
    assert not any(step.startswith("start") for step in found)


def test_what_everything_depends_on_is_not_cut():
    text = line("a", "dot", "x", "x") + line("s", "all-reduce", "a") + line("b", "dot", "s", "x")
    found = shown(text + "  ROOT r = f32[4,4] tanh(b)\n")
    assert found == ["a", "s", "b r"]


def test_cheap_values_are_made_where_they_are_used():
    text = (
        line("a", "dot", "x", "x") + line("s", "all-reduce", "a") + line("old", "cosine", "x")
        + line("b", "dot", "a", "x") + line("near", "negate", "b") + line("u", "add", "old", "s")
    )  # fmt: skip
    found = shown(text + "  ROOT r = (f32[4,4], f32[4,4]) tuple(u, near)\n")
    assert found == ["a", "start s", "b near", "done s", "old u"]


def random_program(chance, size):
    b = HloBuilder("dag")
    made = [b.parameter(array(dt.F32, (4, 4)))]
    pairs = ((0, 1),)
    for _ in range(size):
        x = chance.choice(made[-6:])
        kind = chance.choice(["exchange", "dot", "add", "sine"])
        if kind == "exchange":
            made.append(b.op("collective-permute", x, source_target_pairs=pairs))
        elif kind == "dot":
            y = chance.choice(made)
            contracted = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
            made.append(b.op("dot", x, y, **contracted))
        else:
            made.append(b.op(kind, *([x] if kind == "sine" else [x, chance.choice(made)])))
    return b.build(b.op("tuple", *made[-4:]))


@pytest.mark.parametrize("round", range(40))
def test_nothing_runs_before_what_it_needs_is_there(round, seed):
    chance = random.Random(f"{seed} {round}")
    computation = random_program(chance, chance.randrange(2, 80))
    devices, exchange = devices_of(computation), chance.choice([0.6, 1.5, 5.0])
    there, under_way, ran = set(), set(), set()
    steps = partition(computation, devices, overlap=Costs(exchange))
    for step in steps:
        if isinstance(step, DoneStep):
            under_way.remove(step.instruction)
            there.add(step.instruction)
            continue
        own = instructions_of(step)
        assert not ran & set(own)
        ran.update(own)
        for i in own:
            assert needs(i) <= there | (set(own) if isinstance(step, Region) else set())
        (under_way if isinstance(step, StartStep) else there).update(own)
    assert not under_way
    in_order = partition(computation, devices)
    assert ran == {i for step in in_order for i in instructions_of(step)}
    assert all(region_outputs(steps, computation.root).values())


def test_of_very_many_the_largest_begin_early():
    chain = HloBuilder("chain")
    x = made = chain.parameter(array(dt.F32, (4, 4)))
    sums = []
    for _ in range(400):
        made = chain.op("dot", made, x, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
        sums.append(chain.op("collective-permute", made, source_target_pairs=((0, 1),)))
    computation = chain.build(chain.op("tuple", *sums))
    live = {i: needs(i) for i in devices_of(computation)}
    found = pieces(live, devices_of(computation), Costs())
    assert sum(isinstance(p, StartStep) for p in found) == 256
