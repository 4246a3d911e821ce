"""Random numbers follow from one counter, and differ wherever they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.checks import assert_unchanged, opcodes, run
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import print_module
from xladev.hlo.verifier import verify
from xladev.passes.rng_expander import RngExpander

LOOP = """
HloModule m
body { a = (s32[], f32[8,500]) parameter(0)  l = f32[] constant(-2)  h = f32[] constant(3)
  i = s32[] get-tuple-element(a), index=0  v = f32[8,500] get-tuple-element(a), index=1
  u = f32[1,500] rng(l, h), distribution=rng_uniform  z = s32[] constant(0)
  w = f32[8,500] dynamic-update-slice(v, u, i, z)
  k = s32[] constant(1)  j = s32[] add(i, k)
  ROOT t = (s32[], f32[8,500]) tuple(j, w) }
cond { c = (s32[], f32[8,500]) parameter(0)  n = s32[] get-tuple-element(c), index=0
  e = s32[] constant(8)  ROOT p = pred[] compare(n, e), direction=LT }
quiet { b = f32[] parameter(0)  ROOT n.2 = f32[] negate(b) }
noisy { d = f32[] parameter(0)  s.3 = f32[] constant(1)
  ROOT r.2 = f32[] rng(d, s.3), distribution=rng_normal }
two { x.1 = f32[] parameter(0)  x.2 = f32[] parameter(1)
  ROOT r.3 = f32[500] rng(x.1, x.2), distribution=rng_uniform }
ENTRY main { f = f32[8,500] parameter(0)  sel = s32[] parameter(1)
  first = s32[] constant(0)
  t.1 = (s32[], f32[8,500]) tuple(first, f)
  q = (s32[], f32[8,500]) while(t.1), condition=cond, body=body
  g = f32[8,500] get-tuple-element(q), index=1
  five = f32[] constant(5)  six = f32[] constant(6)
  br = f32[] conditional(sel, five, five), branch_computations={quiet, noisy}
  ca = f32[500] call(five, six), to_apply=two
  cb = f32[500] call(five, six), to_apply=two
  ROOT r = (f32[8,500], f32[], f32[500], f32[500]) tuple(g, br, ca, cb) }
"""


def expanded(text: str) -> HloModule:
    module = run(RngExpander(), text)
    verify(module)
    assert "rng" not in opcodes(module)
    return module


def values(module: HloModule, seed: int, *arguments: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = HloEvaluator(seed=seed).run(module, *arguments)
    return found


@pytest.mark.parametrize("branch", [0, 1])
def test_loops_branches_and_calls_hand_the_state_on(branch: int) -> None:
    module = expanded(LOOP)
    given = np.zeros((8, 500), np.float32), np.array(branch, np.int32)
    first, again, other = (values(module, seed, *given) for seed in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    rows, chosen, one, two = first
    assert not np.array_equal(rows, other[0])
    assert len({row.tobytes() for row in rows}) == 8, "iterations repeat each other"
    assert not np.array_equal(one, two)
    assert (chosen == -5) == (branch == 0)
    assert rows.min() >= -2
    assert rows.max() < 3
    assert abs(rows.mean() - 0.5) < 0.15


def one(shape: str, distribution: str, first: str, second: str) -> Any:
    t = shape.split("[")[0]
    text = (
        f"HloModule m\nENTRY e {{ a = {t}[] constant({first})  b = {t}[] constant({second})\n"
        f"ROOT r = {shape} rng(a, b), distribution=rng_{distribution} }}"
    )
    return HloEvaluator(seed=5).run(expanded(text))


def test_branches_of_pred_keep_their_names() -> None:
    named = LOOP.replace("sel = s32[]", "sel = pred[]").replace(
        "branch_computations={quiet, noisy}", "true_computation=quiet, false_computation=noisy"
    )
    module = expanded(named)
    assert "branch_computations" not in print_module(module)
    given = np.zeros((8, 500), np.float32), np.array(True)
    assert values(module, 1, *given)[1] == -5


@pytest.mark.parametrize("t", ["f32", "f64", "bf16", "f16"])
def test_uniform_floats_fill_their_range(t: str) -> None:
    drawn = one(f"{t}[20000]", "uniform", "-1", "3").astype(np.float64)
    assert drawn.min() >= -1
    assert drawn.max() < 3
    counts, _ = np.histogram(drawn, 8, (-1, 3))
    assert np.abs(counts - 2500).max() < 6 * 50


@pytest.mark.parametrize("t", ["s8", "u8", "s32", "u64", "s64"])
def test_uniform_integers_fill_their_range(t: str) -> None:
    low = "0" if t.startswith("u") else "-3"
    drawn = one(f"{t}[7000]", "uniform", low, "4").astype(np.int64)
    counts = np.bincount(drawn - int(low), minlength=4 - int(low))
    assert len(counts) == 4 - int(low)
    assert np.abs(counts - 7000 / len(counts)).max() < 250


@pytest.mark.parametrize(("t", "low", "high"), [("s32", "0", "-1"), ("s8", "100", "-100")])
def test_a_range_of_integers_goes_on_past_their_largest(t: str, low: str, high: str) -> None:
    bits = int(t[1:])
    width = (int(high) - int(low)) % 2**bits
    drawn = (one(f"{t}[7000]", "uniform", low, high).astype(np.int64) - int(low)) % 2**bits
    assert drawn.max() < width
    counts, _ = np.histogram(drawn, 8, (0, width))
    assert np.abs(counts - 875).max() < 250


def test_an_empty_range_of_integers_gives_its_start() -> None:
    assert (one("s32[9]", "uniform", "5", "5") == 5).all()


def test_pred_takes_either_bound() -> None:
    assert 800 < one("pred[2000]", "uniform", "false", "true").sum() < 1200
    assert one("pred[9]", "uniform", "true", "true").all()


@pytest.mark.parametrize("t", ["f32", "f64", "f16"])
def test_normal_numbers_have_their_moments(t: str) -> None:
    drawn = one(f"{t}[3,6667]", "normal", "5", "2").astype(np.float64)
    assert abs(drawn.mean() - 5) < 0.08
    assert abs(drawn.std() - 2) < 0.06
    skew = ((drawn - 5) ** 3).mean() / 8
    kurtosis = ((drawn - 5) ** 4).mean() / 16
    assert abs(skew) < 0.12
    assert abs(kurtosis - 3) < 0.3


def test_what_draws_nothing_is_left_alone() -> None:
    assert_unchanged(
        RngExpander(), "HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT r = f32[] negate(x) }"
    )


GEOMETRIC = """
HloModule m
cond { a = (s32[], f32[2]) parameter(0)  z = f32[] constant(0)  o = f32[] constant(1)
  u = f32[] rng(z, o), distribution=rng_uniform  t = f32[] constant(0.1)
  ROOT p = pred[] compare(u, t), direction=GT }
body { b = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(b), index=0
  v = f32[2] get-tuple-element(b), index=1
  k = s32[] constant(1)  j = s32[] add(i, k)  ROOT n = (s32[], f32[2]) tuple(j, v) }
ENTRY main { s = s32[] parameter(0)  x = f32[2] parameter(1)
  y = (s32[], f32[2]) tuple(s, x)
  w = (s32[], f32[2]) while(y), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=0 }
"""


def test_the_condition_of_a_loop_draws_anew_before_each_iteration() -> None:
    module = expanded(GEOMETRIC)
    given = np.array(0, np.int32), np.zeros(2, np.float32)
    turns = [int(HloEvaluator(seed=seed).run(module, *given)) for seed in range(60)]
    assert 5 < np.mean(turns) < 16, "tries until one in ten succeeds: 9 fail on average"
    assert len(set(turns)) > 10


def test_a_condition_and_a_body_that_draw_share_no_numbers() -> None:
    body = "v = f32[2] get-tuple-element(b), index=1"
    drawing = f"""{body}.old  q = f32[] constant(0)  h = f32[] constant(1)
  d = f32[] rng(q, h), distribution=rng_uniform  v = f32[2] broadcast(d), dimensions={{}}"""
    text = GEOMETRIC.replace(
        body,
        drawing.replace("index=1.old", "index=1").replace("v = f32[2] get", "v.old = f32[2] get"),
    ).replace("ROOT r = s32[] get-tuple-element(w), index=0", "ROOT r = (s32[], f32[2]) copy(w)")
    module = expanded(text)
    found = set()
    for seed in range(40):
        turns, last = HloEvaluator(seed=seed).run(
            module, np.array(0, np.int32), np.full(2, -1, np.float32)
        )
        assert (turns == 0) == (last[0] == -1)
        found.add(float(last[0]))
    assert len(found) > 30
