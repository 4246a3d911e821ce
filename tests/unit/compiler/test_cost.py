"""Costs of programs: loops by iterations, fusions by what they read and write, rates by device."""

from __future__ import annotations

import pytest

from xladev.compiler.cost import InstructionCost, loop_iterations, program_cost, roofline
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.hlo.opdef import Cost
from xladev.hlo.text import parse_module

LOOP = """HloModule m
body {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  d = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[8,8] tanh(d)
  ROOT t = (s32[], f32[8,8]) tuple(n, y)
}
cond {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(5)
  ROOT c = pred[] compare(i, k), direction=LT
}
ENTRY e {
  x = f32[8,8] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8,8]) tuple(z, x)
  w = (s32[], f32[8,8]) while(t), condition=cond, body=body
  ROOT r = f32[8,8] get-tuple-element(w), index=1
}
"""
FUSED = """HloModule m
f {
  p = f32[16] parameter(0)
  q = f32[16] parameter(1)
  a = f32[16] add(p, q)
  e = f32[16] exponential(a)
  ROOT m = f32[16] multiply(e, p)
}
ENTRY e {
  x = f32[16] parameter(0)
  ROOT k = f32[16] fusion(x, x), kind=kLoop, calls=f
}
"""


def test_a_loop_counts_by_its_turns() -> None:
    module = parse_module(LOOP)
    cost = program_cost(module)
    iterations = {each.instruction.name: each.iterations for each in cost.instructions}
    assert iterations == {"n": 5, "d": 5, "y": 5, "c": 6}
    assert cost.total.flops == 5 * 2 * 8**3
    assert cost.total.transcendentals == 5 * 64
    moved = 5 * (2 * 256 + 2 * 256 + 3 * 4) + 6 * (4 + 4 + 1)
    assert cost.total.bytes_accessed == moved
    assert cost.uncounted == ()


def test_a_loop_of_unknown_length_counts_once_and_is_named() -> None:
    module = parse_module(LOOP.replace("k = s32[] constant(5)", "k = s32[] negate(i)"))
    cost = program_cost(module)
    assert [i.name for i in cost.uncounted] == ["w"]
    assert cost.total.flops == 2 * 8**3
    assert program_cost(module, {"w": 3}).total.flops == 3 * 2 * 8**3
    assert loop_iterations(module) == {}


def test_a_fusion_reads_each_operand_once() -> None:
    (each,) = program_cost(parse_module(FUSED)).instructions
    assert each.cost == Cost(flops=32, transcendentals=16, bytes_accessed=128)


@pytest.mark.parametrize(
    ("line", "nbytes"),
    [
        ("f32[2,8] dynamic-slice(x, i, i), dynamic_slice_sizes={2,8}", 2 * 64 + 8),
        ("f32[64,8] dynamic-update-slice(x, u, i, i)", 2 * 64 + 8),
        ("f32[64,8] negate(x)", 2 * 2048),
        ("f32[512] bitcast(x)", 0),
        ("f32[512] reshape(x)", 0),
        ("f32[8,64]{0,1} reshape(x)", 2 * 2048),
        ("f32[2,8] slice(x), slice={[0:2],[0:8]}", 128),
    ],
)
def test_bytes_of_what_touches_parts(line: str, nbytes: int) -> None:
    text = (
        "HloModule m\nENTRY e { x = f32[64,8] parameter(0)\nu = f32[2,8] parameter(1)\n"
        f"i = s32[] parameter(2)\nROOT r = {line} }}"
    )
    assert program_cost(parse_module(text)).total.bytes_accessed == nbytes


def test_roofline_of_a_device_with_and_without_rates() -> None:
    (each,) = program_cost(parse_module(FUSED)).instructions
    space = MemorySpace(bandwidth=64.0)
    fast = DeviceDescription(peak_flops={"f32": 48.0}, memory_spaces=(space,))
    limits = roofline(each, fast)
    assert (limits.compute_s, limits.memory_s, limits.bound) == (1.0, 2.0, "memory")
    assert limits.seconds == 2.0
    unknown = roofline(InstructionCost(each.instruction, 1, each.cost), DeviceDescription())
    assert (unknown.seconds, unknown.bound) == (0.0, "")
