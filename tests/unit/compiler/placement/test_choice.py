"""Devices chosen by estimated time: hand-made cases, and planning in near-linear time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tools.growth import growth
from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import Assignment, CompileTarget, assign
from xladev.compiler.placement.choice import DeviceChoice
from xladev.compiler.placement.devices import named_devices
from xladev.compiler.placement.estimate import Estimate
from xladev.compiler.placement.placer import Placer
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module

Takes = Callable[[HloInstruction], bool]


def device(
    name: str, *refused: str, peak: float = 1e9, nbytes: int | None = None, latency: float = 1e-5
) -> CompileTarget:
    space = MemorySpace(nbytes=nbytes, bandwidth=1e12)
    description = DeviceDescription(
        memory_spaces=(space,), peak_flops={"f32": peak}, links={"host": Link(1e10, latency)}
    )
    compiler = SubsetCompiler(Subset(lambda i: i.opcode not in refused))
    return CompileTarget(name, compiler, description)


def chosen(text: str, *devices: CompileTarget) -> dict[str, str]:
    return {i.name: where for i, where in placed(parse_module(text), *devices).devices.items()}


def placed(module: HloModule, *devices: CompileTarget) -> Assignment:
    first = assign(module, devices[0], lambda: devices[1:], devices={d.name: d for d in devices})
    return DeviceChoice(module, first, devices, Estimate(devices)).run()


SANDWICH = """HloModule m
ENTRY e {{ x = f32[64,64] parameter(0)
  a = f32[64,64] sine(x){0}
  b = f32[64,64] negate(a)
  c = f32[64,64] cosine(b){0}
  ROOT r = f32[64,64] tanh(c) }}"""
ON_B = ', frontend_attributes={xladev_device="b"}'


def test_a_cheap_instruction_between_two_stays_with_them() -> None:
    refused = device("a", "sine", "cosine"), device("b")
    assert chosen(SANDWICH.format(""), *refused) == dict.fromkeys("abc", "b") | {"r": "b"}
    asked = device("a"), device("b")
    assert chosen(SANDWICH.format(ON_B), *asked)["b"] == "b"


def test_work_pays_for_its_transfers() -> None:
    text = """HloModule m
ENTRY e {{ x = f32[{0},{0}] parameter(0)
  ROOT p = f32[{0},{0}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    slow, fast = device("slow", peak=1e9), device("fast", peak=1e12)
    assert chosen(text.format(16), slow, fast) == {"p": "slow"}
    assert chosen(text.format(512), slow, fast) == {"p": "fast"}


def test_a_memory_has_a_size() -> None:
    text = """HloModule m
ENTRY e { x = f32[512,512] parameter(0)
  p = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT q = f32[512,512] dot(p, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    slow = device("slow", peak=1e9)
    assert set(chosen(text, slow, device("fast", peak=1e12)).values()) == {"fast"}
    assert set(chosen(text, slow, device("fast", peak=1e12, nbytes=1 << 20)).values()) == {
        "slow", "fast"
    }  # fmt: skip
    assert set(chosen(text, slow, device("fast", peak=1e12, nbytes=4096)).values()) == {"slow"}


def test_what_goes_together_stays_together() -> None:
    text = """HloModule m
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] sine(x), frontend_attributes={xladev_colocate="k"}
  b = f32[8] cosine(x), frontend_attributes={xladev_colocate="k"}
  ROOT r = f32[8] add(a, b) }"""
    found = chosen(text, device("a", "sine"), device("b"))
    assert found["a"] == found["b"] == "b"
    apart = chosen(text, device("a", "sine"), device("b", "cosine"))
    assert (apart["a"], apart["b"]) == ("b", "a")  # nobody takes both


def test_constraints_are_kept_and_refused_ones_are_free() -> None:
    text = SANDWICH.format(', frontend_attributes={xladev_device="a"}')
    assert {chosen(text, device("b"), device("a"))[n] for n in "ac"} == {"a"}
    assert {chosen(text, device("b"), device("a", "sine", "cosine"))[n] for n in "ac"} == {"b"}


def test_the_reason_says_what_each_choice_costs() -> None:
    module = parse_module(SANDWICH.format(""))
    found = placed(module, device("a", "sine", "cosine"), device("b"))
    why = {i.name: reason for i, reason in found.reasons.items()}
    assert why["b"].startswith("estimated ") and " on a" in why["b"] and "here" in why["b"]
    assert {f.platform for f in found.fallbacks} == {"b"}


def test_a_loop_is_where_its_body_is() -> None:
    text = """HloModule m
body { s = (f32[64]) parameter(0)  x = f32[64] get-tuple-element(s), index=0
  y = f32[64] sine(x)  ROOT t = (f32[64]) tuple(y) }
condition { s = (f32[64]) parameter(0)  x = f32[64] get-tuple-element(s), index=0
  y = f32[1] slice(x), slice={[0:1]}  z = f32[] reshape(y)  h = f32[] constant(0.5)
  ROOT p = pred[] compare(z, h), direction=GT }
ENTRY e { x = f32[64] parameter(0)  t = (f32[64]) tuple(x)
  w = (f32[64]) while(t), condition=condition, body=body
  ROOT r = f32[64] get-tuple-element(w), index=0 }"""
    found = chosen(text, device("a", "sine", "while"), device("b", "while"))
    assert {found[n] for n in "yz"} == {"b"}


class _Never(SubsetCompiler):
    def with_rates(self, description: DeviceDescription) -> DeviceDescription:
        raise AssertionError("no rates are needed")


def test_nothing_is_estimated_for_programs_of_one_device() -> None:
    compiler = _Never(Subset(lambda i: True))
    target = CompileTarget("a", compiler, DeviceDescription(links={"host": Link(1e9)}))
    module = parse_module(SANDWICH.format(""))
    assert list(named_devices(module)) == []
    placer = Placer(target, tuple, None, CompileOptions())
    assert placer.constrained(module) is module
    assert set(placer.assign(module).devices.values()) == {"a"}


def chain(length: int) -> HloModule:
    b = HloBuilder("long")
    x = b.parameter(array(dt.F32, (64, 64)))
    opcodes = ("sine", "negate", "tanh", "cosine", "abs", "exponential", "negate")
    recent = [x]
    for n in range(length):
        opcode = opcodes[n * n % 7]
        made = b.op("add", recent[-1], recent[0]) if n % 3 == 0 else b.op(opcode, recent[-1])
        recent = [*recent[-20:], made]
    return b.module()


@pytest.mark.long
def test_planning_is_near_linear() -> None:
    refusing = device("a", "sine", "tanh", latency=1e-8), device("b", "abs", latency=1e-8)

    def plan(module: HloModule) -> None:
        assert len(set(placed(module, *refusing).devices.values())) == 2

    assert growth(plan, chain, 5_000, 50_000) < 1.5
