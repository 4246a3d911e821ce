"""Random programs on one thread and on several: the same bits, and no memory left unwritten."""

from __future__ import annotations

import pytest

from xladev.compiler.options import CompileOptions
from xladev.platforms.cpu.codegen import sharing
from xladev.testing.differential import run_on_platform
from xladev.testing.fuzz_task import Task, draw

PROGRAMS = 24


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(20_000, 20_960, PROGRAMS))
def test_threads_change_no_bit(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLADEV_CPU_DEVICES", "4")
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(sharing, "LEAST_PART_NS", 0.0)
    for seed in range(first, first + PROGRAMS):
        assert _bits(seed, 1) == _bits(seed, 3), f"seed {seed}"


def _bits(seed: int, threads: int) -> list[bytes]:
    module, arguments = draw(seed, Task())
    options = CompileOptions(optimization_level=0, threads=threads)
    return [array.tobytes() for array in run_on_platform(module, arguments, "cpu", options)]
