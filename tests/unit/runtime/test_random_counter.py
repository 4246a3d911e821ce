"""The counter of random state, alone and in programs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.runtime.random_counter import RandomCounter


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


def test_runs_differ_and_seeds_repeat_them() -> None:
    def drawn(seed: int) -> list[bytes]:
        options = CompileOptions(strict=True, rng_seed=seed)
        program = compile(parse_module(TEXT), "cpu", options)
        return [np.asarray(program().numpy()).tobytes() for _ in range(2)]  # type: ignore[union-attr]

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again
    assert len({*first, *other}) == 4
