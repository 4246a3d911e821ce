"""Gradients of filters whose operands have their channels moved."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.layouts.channels_last import ChannelsLast
from xladev.platforms.cpu.layouts.filter_gradients import (
    filter_gradient_gain_ns,
    filter_gradient_way,
    written_filter_gradient,
)
from xladev.platforms.cpu.layouts.orders import order_with_last

STEP = """HloModule m
ENTRY e { x = f32[2,16,14,14] parameter(0)  f = f32[32,16,3,3] parameter(1)
  g = f32[32,32,3,3] parameter(2)
  c = f32[2,32,14,14] convolution(x, f), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  t = f32[2,32,14,14] tanh(c)
  d = f32[2,32,14,14] convolution(t, g), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  u = f32[2,32,14,14] multiply(d, d)
  k = f32[32,32,3,3] convolution(t, u), window={size=14x14 pad=1_1x1_1}, dim_labels=fb01_io01->fb01
  ROOT r = (f32[32,32,3,3], f32[2,32,14,14]) tuple(k, u) }"""


def module_of(base: str, other: str, result: str, window: str, labels: str) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{base}] parameter(0)  y = f32[{other}] parameter(1)
      ROOT c = f32[{result}] convolution(x, y), window={{{window}}}, dim_labels={labels} }}""")


def test_images_stay_as_they_are_between_layers(seed: int) -> None:
    module = parse_module(STEP)
    changed = ChannelsLast(target_traits()).run(module)
    verify(changed)
    (gradient,) = (i for i in changed.entry.instructions if i.name.startswith("k"))
    d = gradient["dim_labels"]
    assert (d.input_batch, d.kernel_output_feature, d.output_feature) == (3, 3, 0)
    assert not any(o.opcode == "transpose" for o in gradient.operands)
    rng = np.random.default_rng(seed)
    given = [rng.standard_normal(p.shape.dims).astype("f4") for p in module.entry.parameters]
    pairs = zip(
        HloEvaluator().run(changed, *given), HloEvaluator().run(module, *given), strict=True
    )
    for got, wanted in pairs:
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "module",
    [
        module_of("2,9,9,16", "2,9,9,32", "32,16,3,3", "size=9x9 pad=1_1x1_1", "f01b_i01o->fb01"),
        module_of("2,3,9,9", "2,5,9,9", "5,3,3,3", "size=9x9 pad=1_1x1_1", "fb01_io01->fb01"),
        module_of("2,16,9,9", "32,16,3,3", "2,32,9,9", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    ],
    ids=["last anyway", "few features", "no gradient"],
)
def test_left_alone(module: HloModule) -> None:
    assert filter_gradient_gain_ns(module.entry.root) is None


def test_more_places_gain_more() -> None:
    three, one = (
        module_of("2,16,9,9", "2,32,9,9", f"32,16,{n},{n}", f"size=9x9 pad={p}_{p}x{p}_{p}",
                  "fb01_io01->fb01")
        for n, p in ((3, 1), (1, 0))
    )  # fmt: skip
    gains = [filter_gradient_gain_ns(m.entry.root) for m in (three, one)]
    assert gains[0] is not None and gains[1] is not None
    assert gains[0] > gains[1] > 0


@pytest.mark.parametrize(
    "module",
    [
        module_of("2,3,40,41", "2,32,20,20", "32,3,3,3",
                  "size=20x20 pad=1_0x0_0 rhs_dilate=2x2", "fb01_io01->fb01"),
        module_of("2,3,40,41", "2,32,20,20", "32,3,7,7",
                  "size=20x20 pad=3_2x3_1 rhs_dilate=2x2", "fb01_io01->fb01"),
        module_of("2,40,41,3", "2,20,20,32", "7,7,3,32",
                  "size=20x20 pad=3_2x3_1 rhs_dilate=2x2", "f01b_i01o->01bf"),
        module_of("2,40,50,3", "2,20,20,32", "7,7,3,32",
                  "size=20x20 pad=3_2x3_-8 rhs_dilate=2x2", "f01b_i01o->01bf"),
    ],
    ids=["not padded", "padded", "JAX's", "padded and cut"],
)  # fmt: skip
def test_few_channels_are_taken_together(module: HloModule, seed: int) -> None:
    root = module.entry.root
    assert (filter_gradient_gain_ns(root) or 0) > 0
    e = Emitter("e")
    base, other = (e.parameter(p.shape) for p in module.entry.parameters)
    spans = filter_gradient_way(root).operands
    moved = [
        e.transpose(o, order_with_last(4, span))
        for o, span in zip((base, other), spans, strict=True)
        if span is not None
    ]
    made = written_filter_gradient(e, root, moved)
    assert made.shape.dims == root.shape.dims
    changed = e.module(made)
    verify(changed)
    rng = np.random.default_rng(seed)
    given = [rng.standard_normal(p.shape.dims).astype("f4") for p in module.entry.parameters]
    got, wanted = (HloEvaluator().run(m, *given) for m in (changed, module))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5 * np.abs(wanted).max())
    compiled = np.asarray(xladev.compile(module, "cpu")(*given))
    np.testing.assert_allclose(compiled, wanted, rtol=1e-4, atol=2e-5 * np.abs(wanted).max())
