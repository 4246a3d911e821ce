"""The counter of random state, alone and in programs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.runtime.launch.random_counter import RandomCounter


def test_each_device_counts_for_itself() -> None:
    counter = RandomCounter()
    assert [counter.advanced((0, 0), 3) for _ in range(3)] == [0, 3, 6]
    assert counter.advanced((1, 0), 1) == 0
    assert counter.advanced((0, 0), 2**64) == 9
    assert counter.advanced((0, 0), 1) == 9


def test_threads_never_get_the_same_count() -> None:
    counter = RandomCounter()
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: counter.advanced((0, 0), 1), range(500)))
    assert sorted(counts) == list(range(500))


TEXT = """
HloModule m
ENTRY e { a = f32[] constant(0)  b = f32[] constant(1)
  ROOT r = f32[100] rng(a, b), distribution=rng_uniform }
"""


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_runs_differ_and_seeds_repeat_them(platform: str) -> None:
    def drawn(seed: int) -> list[bytes]:
        options = CompileOptions(strict=True, rng_seed=seed)
        program = compile(parse_module(TEXT), platform, options)
        return [np.asarray(program()).tobytes() for _ in range(2)]

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again
    assert len({*first, *other}) == 4


def test_platforms_draw_the_same_numbers() -> None:
    one, other = (np.asarray(compile(parse_module(TEXT), p)()) for p in ("cpu", "interpreter"))
    np.testing.assert_array_equal(one, other)


WITHIN = """
HloModule m
f { a = f32[] parameter(0)  o = f32[] constant(1)
  ROOT r = f32[] rng(a, o), distribution=rng_uniform }
c { s = (s32[], f32[3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT p = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(1)  j = s32[] add(i, k)  x = f32[3] get-tuple-element(s), index=1
  z = f32[3] constant({0, 0, 0})  u = f32[3] map(z), dimensions={0}, to_apply=f
  h = f32[3] maximum(x, u)  ROOT t = (s32[], f32[3]) tuple(j, h) }
ENTRY e { p = f32[3] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[3]) tuple(z, p)
  w = (s32[], f32[3]) while(t), condition=c, body=b
  u = f32[3] map(p), dimensions={0}, to_apply=f
  m = f32[3] get-tuple-element(w), index=1
  ROOT r = (f32[3], f32[3]) tuple(u, m) }
"""


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_scalar_computations_draw_anew_in_each_run_and_iteration(platform: str) -> None:
    program = compile(parse_module(WITHIN), platform)
    runs = [tuple(np.asarray(x).tobytes() for x in program(np.zeros(3, "f4"))) for _ in range(3)]
    assert len({value for run in runs for value in run}) == 6
