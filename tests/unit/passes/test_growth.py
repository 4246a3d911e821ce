"""Passes take time in proportion to the module, and little of it."""

from __future__ import annotations

import time
from functools import lru_cache

import pytest

from tests.unit.passes.large_module import large_module
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify
from xladev.passes.default import clean_up_pipeline, default_pipeline
from xladev.passes.registry import PASSES

BUDGET_US = 300.0
"""CPU time of all passes together, per instruction (see the architecture)."""
SIZES = (1_000, 10_000, 50_000)


@lru_cache
def module_of(count: int) -> HloModule:
    return large_module(count)


def seconds(run: object, module: HloModule, rounds: int = 1) -> float:
    """CPU time of the fastest of some runs."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        run.run(module)  # type: ignore[attr-defined]
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.serial
@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_pass_grows_with_the_module(name: str) -> None:
    each = PASSES[name]()
    times = [seconds(each, module_of(n), 3 if n < 50_000 else 1) / n for n in SIZES]
    assert times[2] < 3 * times[1] + 2e-6, [f"{t * 1e6:.1f} us" for t in times]


@pytest.mark.serial
@pytest.mark.parametrize("count", SIZES)
def test_all_passes_stay_within_the_budget(count: int, record_property: object) -> None:
    module = module_of(count)
    default = default_pipeline()
    taken = seconds(default, module) + seconds(clean_up_pipeline(), default.run(module))
    per_instruction = taken / module.instruction_count * 1e6
    record_property("us_per_instruction", round(per_instruction, 1))  # type: ignore[operator]
    assert per_instruction < BUDGET_US


def test_large_modules_stay_valid() -> None:
    module = module_of(1_000)
    verify(module)
    verify(default_pipeline().run(module))
