"""Constants that kernels only move are moved when the program is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.moved_constants import MOST_NBYTES, MovedConstants

FILTERS = np.arange(24 * 9, dtype=np.float32).reshape(24, 1, 3, 3)


def listed(values: np.ndarray) -> str:
    return ",".join(map(str, values.ravel()))


DEPTHWISE = f"""HloModule m
ENTRY e {{ x = f32[1,8,8,24] parameter(0)
  flat = f32[216] constant({{{listed(FILTERS)}}})
  w = f32[24,1,3,3] reshape(flat)
  t = f32[1,3,3,24] transpose(w), dimensions={{1,2,3,0}}
  ROOT c = f32[1,8,8,24] convolution(x, t), window={{size=3x3 pad=1_1x1_1}},
    dim_labels=b01f_i01o->b01f, feature_group_count=24 }}"""


def formed(module: HloModule) -> tuple[HloInstruction, ...]:
    """Instructions of the entry when kernels are formed."""
    return CpuCompiler().fusion_pipeline(CompileOptions()).run(module).entry.instructions


def opcodes(text: str) -> list[str]:
    module = MovedConstants().run(parse_module(text))
    return [i.opcode for i in module.entry.instructions]


def test_filters_are_transposed_once() -> None:
    made = formed(parse_module(DEPTHWISE))
    assert [i.opcode for i in made] == ["parameter", "constant", "convolution"]
    np.testing.assert_array_equal(made[1]["literal"].array, FILTERS.transpose(1, 2, 3, 0))


def test_bits_are_those_of_filters_that_are_arguments(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((1, 8, 8, 24)).astype(np.float32)
    given = DEPTHWISE.replace(f"constant({{{listed(FILTERS)}}})", "parameter(1)")
    wanted = xladev.compile(parse_module(given), "cpu")(x, FILTERS.ravel()).numpy()
    got = xladev.compile(parse_module(DEPTHWISE), "cpu")(x).numpy()
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "move",
    ["transpose(k), dimensions={1,0}", "copy(k)", "reverse(k), dimensions={0}"],
)
def test_moves(move: str) -> None:
    text = f"""HloModule m
    ENTRY e {{ k = s32[2,2] constant({{{{1,2}},{{3,4}}}})  m = s32[2,2] {move}
      x = s32[2,2] parameter(0)  ROOT d = (s32[2,2], s32[2,2]) tuple(m, x) }}"""
    assert opcodes(text) == ["constant", "parameter", "tuple"]


def test_what_else_reads_the_constant_keeps_it() -> None:
    text = """HloModule m
    ENTRY e { k = s32[2,2] constant({{1,2},{3,4}})  m = s32[2,2] transpose(k), dimensions={1,0}
      ROOT d = (s32[2,2], s32[2,2]) tuple(m, k) }"""
    assert opcodes(text) == ["constant", "constant", "tuple"]


def test_control_dependencies_and_large_values_stay() -> None:
    text = """HloModule m
    ENTRY e { x = s32[2,2] parameter(0)  k = s32[2,2] constant({{1,2},{3,4}})
      n = s32[2,2] negate(x)
      m = s32[2,2] transpose(k), dimensions={1,0}, control-predecessors={n}
      ROOT d = (s32[2,2], s32[2,2]) tuple(m, n) }"""
    assert "transpose" in opcodes(text)
    side = 1 << 9
    assert side * (side + 1) * 4 > MOST_NBYTES
    row = "{" + ",".join("1" for _ in range(side + 1)) + "}"
    large = f"""HloModule m
    ENTRY e {{ k = s32[{side},{side + 1}] constant({{{",".join([row] * side)}}})
      ROOT m = s32[{side + 1},{side}] transpose(k), dimensions={{1,0}} }}"""
    assert "transpose" in opcodes(large)


def test_what_is_computed_stays() -> None:
    text = """HloModule m
    ENTRY e { k = s32[2,2] constant({{1,2},{3,4}})  n = s32[2,2] negate(k)
      ROOT m = s32[2,2] transpose(n), dimensions={1,0} }"""
    module = parse_module(text)
    assert MovedConstants().run(module) is module
