"""Convolutions that go on with loops: the bits of two kernels, whoever takes which block."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import sharing
from xladev.platforms.cpu.codegen.choices import choices
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_workspace_nbytes
from xladev.platforms.cpu.codegen.products.epilogue import core_of, core_spec
from xladev.platforms.cpu.codegen.table import workspace_nbytes
from xladev.platforms.cpu.codegen.tactics import Tactic
from xladev.platforms.cpu.compiler import CpuCompiler, compile_trial
from xladev.platforms.cpu.convolution_epilogues import ConvolutionEpilogues
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.trials import Trial, addresses, random_operands

LANES = target_traits().vector_nbytes // 4
TAILS = {
    "norm": """
      s = D[F] parameter(3)  v = D[F] parameter(4)
      t = D[P,F] broadcast(s), dimensions={3}  u = D[P,F] broadcast(v), dimensions={3}
      m = D[P,F] multiply(c, t)  n = D[P,F] subtract(m, u)
      z = D[] constant(0)  zs = D[P,F] broadcast(z), dimensions={}
      ROOT r = D[P,F] maximum(n, zs) }""",
    "residual": "m = D[P,F] multiply(c, c)  ROOT r = D[P,F] add(m, y) }",
    "swish": "l = D[P,F] logistic(c)  ROOT r = D[P,F] multiply(c, l) }",
    "rows": """
      q = D[9] parameter(3)  t = D[P,F] broadcast(q), dimensions={1}
      ROOT r = D[P,F] add(c, t) }""",
    "chosen": """
      z = D[] constant(0)  zs = D[P,F] broadcast(z), dimensions={}
      l = pred[P,F] compare(c, y), direction=LT  h = s8[P,F] convert(c)  g = D[P,F] convert(h)
      ROOT r = D[P,F] select(l, zs, g) }""",
    "apart": """
      q = D[F,9] parameter(3)  t = D[P,F] broadcast(q), dimensions={3,1}
      ROOT r = D[P,F] add(c, t) }""",
    "negated": "ROOT r = D[P,F] negate(c) }",
}


def text(
    tail: str,
    features: int,
    channels: int = 16,
    groups: int = 1,
    window: str = "size=3x3 pad=1_1x1_1",
    filters: str = "",
    labels: str = "01io",
    dtype: str = "f32",
) -> str:
    side = window[5 : window.index("x")]
    filters = filters or f"{side},{side},{channels // groups},{features}"
    pixels = "2,5,4" if "stride" in window else "2,9,8"
    body = f"""HloModule m
    ENTRY e {{ x = D[2,9,8,{channels}] parameter(0)  w = D[{filters}] parameter(1)
      y0 = D[P,F] parameter(2)  y = D[P,F] negate(y0)
      c = D[P,F] convolution(x, w), window={{{window}}}, dim_labels=b01f_{labels}->b01f,
        feature_group_count={groups}
      {TAILS[tail]}"""
    if tail == "rows":
        body = body.replace("D[9]", f"D[{pixels.split(',')[1]}]")
    return body.replace("P,F", f"{pixels},{features}").replace("[F", f"[{features}").replace(
        "D[", f"{dtype}["
    )  # fmt: skip


def drawn(module: HloModule, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    return [rng.standard_normal(s.dims).astype(s.element_type.np) for s in shapes]


def joined_count(module: HloModule) -> int:
    formed = CpuCompiler().fusion_pipeline(CompileOptions()).run(module).entry.instructions
    return sum(i.opcode == "fusion" and core_of(i["calls"]) is not None for i in formed)


def run(module: HloModule, arguments: list[np.ndarray], threads: int) -> np.ndarray:
    made = compile_for(module, "cpu", CompileOptions(threads=threads))(*arguments)
    return np.asarray(made.numpy())


def check(
    source: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    change: int = 0,
    count: int = 1,
) -> None:
    """The bits of separate kernels, with any number of threads."""
    module = parse_module(source)
    assert joined_count(module) == count
    arguments = drawn(module, seed)
    if change:
        arguments[0].ravel()[::change] = np.nan
        arguments[0].ravel()[1::change] = -np.inf
    with monkeypatch.context() as m:
        m.setattr(ConvolutionEpilogues, "run", lambda self, module: module)
        want = run(module, arguments, 1)
    assert np.isfinite(want).any()
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(sharing, "LEAST_PART_NS", 100.0)
    for threads in (1, 3):
        assert run(module, arguments, threads).tobytes() == want.tobytes(), threads


@pytest.mark.parametrize("features", [19, 40, 70])
@pytest.mark.parametrize("tail", list(TAILS))
def test_bits_of_separate_kernels(
    tail: str, features: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads_rows = tail in ("residual", "chosen") and features > 2 * LANES
    check(text(tail, features), seed, monkeypatch, count=0 if reads_rows else 1)


@pytest.mark.parametrize("features", [24, 37, 112])
@pytest.mark.parametrize("tail", ["norm", "residual", "rows"])
def test_depthwise_ones(
    tail: str, features: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = text(tail, features, features, features, filters=f"1,3,3,{features}", labels="i01o")
    check(source, seed, monkeypatch)


@pytest.mark.parametrize(
    "source",
    [
        text("norm", 48, groups=2),
        text("norm", 40, filters="40,16,3,3", labels="oi01"),
        text("norm", 40, filters="40,16,1,1", labels="oi01", window="size=1x1"),
        text("norm", 24, window="size=3x3 stride=2x2 pad=1_1x1_1"),
        text("norm", 24, window="size=11x11 pad=5_5x5_5"),
        text("residual", 8, dtype="f64"),
        text("swish", 20, dtype="f64"),
        text("norm", 600),
    ],
    ids=["groups", "window innermost", "points", "strides", "many positions", "f64", "f64 swish",
         "many features"],
)  # fmt: skip
def test_kinds_of_convolutions(source: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(source, seed, monkeypatch)


def test_numbers_that_are_not_finite(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(text("norm", 40), seed, monkeypatch, change=97)


def joined(source: str) -> KernelSpec:
    """The kernel that goes on, as it is given to emitters."""
    formed = CpuCompiler().fusion_pipeline(CompileOptions()).run(parse_module(source)).entry
    found = next(i for i in formed.instructions if i.opcode == "fusion"
                 and core_of(i["calls"]) is not None)  # fmt: skip
    return KernelSpec("k", found["calls"])


def test_no_operand_is_overwritten_before_it_is_read() -> None:
    """The convolution is written to the result first."""
    spec = joined(text("residual", 24))
    assert in_place_pairs(spec.computation) == frozenset()


def test_the_workspace_is_the_convolutions() -> None:
    spec = joined(text("norm", 24))
    alone = core_spec(spec)
    assert alone.computation.root.opcode == "convolution"
    assert alone.computation.parameters == spec.computation.parameters
    assert workspace_nbytes(spec) == convolution_workspace_nbytes(alone) > 0
    assert core_spec(alone) is alone


@pytest.mark.parametrize("tail", ["norm", "residual"])
def test_all_tactics_of_the_convolution_give_the_same_bits(tail: str) -> None:
    spec = joined(text(tail, 24))
    found = next(c for c in choices(spec, target_traits(), 1) if c.family == "convolution")
    assert Tactic(in_tiles=True) in found.tactics
    data, results = random_operands(spec), set()
    for tactic in found.tactics:
        executable = compile_trial(spec, tactic, CompileOptions(threads=1))
        trial = Trial(executable, addresses(data), spec)
        trial.run()
        results.add(trial.results[0].tobytes())
    assert len(results) == 1
