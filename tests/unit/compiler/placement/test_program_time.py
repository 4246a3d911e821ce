"""Runs on clocks alone, by hand: two devices beside one another, waiting, loops and branches."""

from __future__ import annotations

import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget, assign
from xladev.compiler.placement.estimate import Estimate
from xladev.compiler.placement.program_time import planned_seconds
from xladev.compiler.placement.rates import DeviceRates
from xladev.hlo.text import parse_module

SIZE = 250
NBYTES = 4 * SIZE
SINE, ADD = SIZE * 1e-6, SIZE * 1e-7
WAY = Link(1e6, 1e-4)
COPY = 1e-4 + NBYTES / 1e6


def device(name: str, *, host: bool = False) -> CompileTarget:
    space = MemorySpace(host_addressable=host)
    compiler = SubsetCompiler(Subset(lambda i: i.opcode not in ("while", "conditional")))
    return CompileTarget(name, compiler, DeviceDescription(memory_spaces=(space,)))


HOST, A, B, PEER = device("host", host=True), device("a"), device("b"), device("a:1")
RATES = DeviceRates(1e-6, 1e-7, 1e-6, 1e-12, 1e-12, link=WAY)


def seconds(text: str, rates: DeviceRates = RATES) -> float:
    module = parse_module(f"HloModule m\n{text}".replace("[N]", f"[{SIZE}]"))
    targets = [HOST, A, B, PEER]
    found = assign(module, HOST, devices={t.name: t for t in targets})
    estimate = Estimate(targets, lambda t: rates)
    return planned_seconds(module, found, targets, targets, estimate, CompileOptions())


def on(name: str) -> str:
    return f', frontend_attributes={{xladev_device="{name}"}}'


def test_one_after_the_other() -> None:
    text = """ENTRY e { x = f32[N] parameter(0)  s = f32[N] sine(x)
      ROOT r = f32[N] add(s, s) }"""
    assert seconds(text) == pytest.approx(SINE + ADD)


def test_the_host_waits_for_a_value() -> None:
    text = f"""ENTRY e {{ x = f32[N] parameter(0)  s = f32[N] sine(x){on("a")}
      ROOT r = f32[N] add(s, s) }}"""
    assert seconds(text) == pytest.approx(COPY + SINE + COPY + ADD)


def test_devices_work_beside_one_another() -> None:
    text = f"""ENTRY e {{ x = f32[N] parameter(0)  s = f32[N] sine(x){on("a")}
      c = f32[N] cosine(x){on("b")}
      ROOT r = f32[N] add(s, c) }}"""
    assert seconds(text) == pytest.approx(COPY + SINE + COPY + ADD)


def test_peers_copy_without_the_host() -> None:
    """The second copy takes both links; the host's clock is that of the launches alone."""
    text = f"""ENTRY e {{ x = f32[N] parameter(0)  s = f32[N] sine(x){on("a")}
      ROOT r = f32[N] add(s, s){on("a:1")} }}"""
    assert seconds(text) == pytest.approx(COPY + SINE + 2 * COPY + ADD + COPY)


def test_launches_and_kernels_overlap() -> None:
    text = f"""ENTRY e {{ x = f32[N] parameter(0)  s = f32[N] sine(x){on("a")}
      t = f32[N] sine(s){on("a")}
      ROOT r = f32[N] sine(t){on("a")} }}"""
    work = COPY + 3 * SINE + COPY
    assert seconds(text) == pytest.approx(work)
    slow = DeviceRates(1e-6, 1e-7, 1e-6, 1e-12, 1e-12, launch_s=4 * SINE, link=WAY)
    assert seconds(text, slow) == pytest.approx(3 * 4 * SINE + SINE + COPY)


LOOP = """body { s = (s32[], f32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[N] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[N] sine(x)  ROOT t = (s32[], f32[N]) tuple(j, y) }
condition { s = (s32[], f32[N]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[N] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[N]) tuple(z, x)
  w = (s32[], f32[N]) while(t), condition=condition, body=body
  ROOT r = f32[N] get-tuple-element(w), index=1 }"""


def test_a_loop_counts_its_turns() -> None:
    assert seconds(LOOP) == pytest.approx(7 * SINE, rel=1e-2)


def test_of_branches_the_longest_counts() -> None:
    text = """short { x = f32[N] parameter(0)  ROOT r = f32[N] add(x, x) }
    long { x = f32[N] parameter(0)  ROOT r = f32[N] sine(x) }
    ENTRY e { p = pred[] parameter(0)  x = f32[N] parameter(1)
      ROOT r = f32[N] conditional(p, x, x), true_computation=short, false_computation=long }"""
    assert seconds(text) == pytest.approx(SINE)
