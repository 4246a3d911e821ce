"""Convolutions of planes with their channels moved: the same values, transposes at the ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.layouts.channels_last import ChannelsLast

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
MAX = "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }"
FIRST = """x = f32[2,3,30,30] parameter(0)  f = f32[32,3,3,3] parameter(1)
  c = f32[2,32,15,15] convolution(x, f), window={size=3x3 stride=2x2 pad=1_1x1_1},
    dim_labels=bf01_oi01->bf01"""
PLAIN = "window={size=1x1}, dim_labels=bf01_oi01->bf01"
CHANGED = {
    "a residual block": f"""{FIRST}
      g = f32[32,32,3,3] parameter(2)  s = f32[32] parameter(3)
      b = f32[2,32,15,15] broadcast(s), dimensions={{1}}  m = f32[2,32,15,15] multiply(c, b)
      d = f32[2,32,15,15] convolution(m, g), window={{size=3x3 pad=1_1x1_1}},
        dim_labels=bf01_oi01->bf01
      r = f32[2,32,15,15] add(d, m)  z = f32[] constant(0)
      v = f32[2,32] reduce(r, z), dimensions={{2,3}}, to_apply=add
      k = f32[] constant(0.0001)  q = f32[2,32] broadcast(k), dimensions={{}}
      ROOT t = f32[2,32] multiply(v, q)""",
    "depthwise, and squeezed": f"""{FIRST}
      g = f32[32,1,5,5] parameter(2)  h = f32[16,32,1,1] parameter(3)  z = f32[] constant(0)
      d = f32[2,32,15,15] convolution(c, g), window={{size=5x5 pad=2_2x2_2}},
        dim_labels=bf01_oi01->bf01, feature_group_count=32
      v = f32[2,32] reduce(d, z), dimensions={{2,3}}, to_apply=add  l = f32[2,32] logistic(v)
      w = f32[2,32,15,15] broadcast(l), dimensions={{0,1}}  u = f32[2,32,15,15] multiply(d, w)
      o = f32[2,16,15,15] convolution(u, h), {PLAIN}
      ROOT t = f32[2,16] reduce(o, z), dimensions={{2,3}}, to_apply=add""",
    "groups that are normalised": f"""{FIRST}
      h = f32[32,32,1,1] parameter(2)  z = f32[] constant(0)
      n = f32[2,4,8,225] reshape(c)
      v = f32[2,4] reduce(n, z), dimensions={{2,3}}, to_apply=add
      w = f32[2,4,8,225] broadcast(v), dimensions={{0,1}}  u = f32[2,4,8,225] subtract(n, w)
      q = f32[2,32,15,15] reshape(u)  p = f32[2,32,15,15] convolution(q, h), {PLAIN}
      j = f32[2,32,225] reshape(p)  ROOT k = f32[2,225,32] transpose(j), dimensions={{0,2,1}}""",
    "pooled, joined, and read as it was": f"""{FIRST}
      h = f32[32,64,1,1] parameter(2)  z = f32[] constant(-9)
      p = f32[2,32,15,15] reduce-window(c, z), window={{size=1x1x3x3 pad=0_0x0_0x1_1x1_1}},
        to_apply=max
      j = f32[2,64,15,15] concatenate(c, p), dimensions={{1}}
      o = f32[2,32,15,15] convolution(j, h), {PLAIN}
      v = f32[2,7200] reshape(c)  ROOT t = (f32[2,32,15,15], f32[2,7200]) tuple(o, v)""",
    "read with other channels": """x = f32[8,16,31,31] parameter(0)
      f = f32[32,16,3,3] parameter(1)  g = f32[8,32,3,3] parameter(2)
      c = f32[8,32,15,15] convolution(x, f), window={size=3x3 stride=2x2},
        dim_labels=bf01_oi01->bf01
      ROOT d = f32[32,32,7,7] convolution(c, g), window={size=3x3 stride=2x2},
        dim_labels=fb01_io01->bf01""",
    "filters as JAX has them, upside down": """x = f32[2,30,24,24] parameter(0)
      f = f32[3,3,30,32] parameter(1)
      ROOT c = f32[2,32,11,11] convolution(x, f), window={size=3x3 stride=2x2 rhs_reversal=1x1},
        dim_labels=bf01_01io->bf01""",
    "a transposed one": """x = f32[2,32,12,12] parameter(0)  f = f32[32,64,2,2] parameter(1)
      ROOT c = f32[2,64,24,24] convolution(x, f),
        window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1},
        dim_labels=bf01_io01->bf01""",
    "one dimension, groups": """x = f32[4,32,99] parameter(0)  f = f32[64,16,5] parameter(1)
      ROOT c = f32[4,64,48] convolution(x, f), window={size=5 stride=2}, dim_labels=bf0_oi0->bf0,
        feature_group_count=2""",
    "f64": """x = f64[2,32,24,24] parameter(0)  f = f64[32,32,3,3] parameter(1)
      ROOT c = f64[2,32,11,11] convolution(x, f), window={size=3x3 stride=2x2},
        dim_labels=bf01_oi01->bf01""",
}  # fmt: skip
LEFT = {
    "transposes would take longer": """x = f32[1,64,28,28] parameter(0)
      f = f32[8,64,1,1] parameter(1)
      ROOT c = f32[1,8,28,28] convolution(x, f), window={size=1x1}, dim_labels=bf01_oi01->bf01""",
    "the last ones anyway": """x = f32[1,28,28,64] parameter(0)  f = f32[3,3,64,64] parameter(1)
      ROOT c = f32[1,28,28,64] convolution(x, f), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f""",
    "a window as large as the image": """x = f32[8,32,32,32] parameter(0)
      f = f32[8,32,30,30] parameter(1)
      ROOT c = f32[32,32,3,3] convolution(x, f), window={size=30x30}, dim_labels=fb01_io01->bf01""",
    "too few features": """x = f32[1,64,64,64] parameter(0)  f = f32[3,64,3,3] parameter(1)
      ROOT c = f32[1,3,62,62] convolution(x, f), window={size=3x3}, dim_labels=bf01_oi01->bf01""",
    "batches in groups": """x = f32[4,32,32,32] parameter(0)  f = f32[64,32,3,3] parameter(1)
      ROOT c = f32[2,64,15,15] convolution(x, f), window={size=3x3 stride=2x2},
        dim_labels=bf01_oi01->bf01, batch_group_count=2""",
}


def module_of(text: str) -> HloModule:
    return parse_module(f"HloModule m\n{ADD}\n{MAX}\nENTRY e {{ {text} }}")


def arguments(module: HloModule, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    return [rng.standard_normal(s.dims).astype(s.element_type.np) for s in shapes]


def assert_close(got: object, wanted: object) -> None:
    pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5 * np.abs(other).max())


@pytest.mark.parametrize("name", CHANGED)
def test_the_same_values(name: str, seed: int) -> None:
    module = module_of(CHANGED[name])
    changed = ChannelsLast(target_traits()).run(module)
    verify(changed)
    convolutions = [i for i in changed.entry.instructions if i.opcode == "convolution"]
    for i in convolutions:
        last = i.shape.rank - 1
        assert (i["dim_labels"].input_feature, i["dim_labels"].output_feature) == (last, last)
    given = arguments(module, seed)
    assert_close(HloEvaluator().run(changed, *given), HloEvaluator().run(module, *given))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CHANGED)
def test_compiled(name: str, threads: int, seed: int) -> None:
    module = module_of(CHANGED[name])
    given = arguments(module, seed)
    made = compile_for(module, "cpu", CompileOptions(threads=threads))(*given)
    got = tuple(a.numpy() for a in made) if isinstance(made, tuple) else made.numpy()
    assert_close(got, HloEvaluator().run(module, *given))


def test_transposes_are_at_the_ends() -> None:
    changed = ChannelsLast(target_traits()).run(module_of(CHANGED["a residual block"]))
    moved = [i.operands[0].name for i in changed.entry.instructions if i.opcode == "transpose"]
    assert moved == ["x"]


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    module = module_of(LEFT[name])
    assert ChannelsLast(target_traits()).run(module) is module


def test_left_alone_without_vectors() -> None:
    module = module_of(CHANGED["a residual block"])
    assert ChannelsLast(replace(target_traits(), vector_nbytes=8)).run(module) is module
