"""Passes, readers, printers and verifier do work in proportion to the module.

Work is counted in calls of functions, not timed; ``benchmarks/passes_growth.py`` measures times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import pytest

from benchmarks.growth_modules import KINDS
from benchmarks.passes_growth import each_pass, main, whole
from tests.tools.profiled_calls import calls
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify
from xladev.passes.default import default_pipeline
from xladev.passes.registry import PASSES

SMALL, LARGE = 200, 600
MOST_GROWTH = 1.4
"""Calls per instruction of the large module over those of the small one; quadratic work gives 3."""

WHOLE = ("all passes", "parse text", "print text", "read proto", "verify", "write proto")


@lru_cache
def module_of(kind: str, count: int) -> HloModule:
    return KINDS[kind](count)


def calls_per_instruction(run: Callable[[], object], module: HloModule) -> float:
    """Calls of functions, Python's and C's, while something runs."""
    return calls(run) / module.instruction_count


def growth(kind: str, name: str) -> float:
    """Calls per instruction of the large module over those of the small one."""
    found: list[float] = []
    for count in (SMALL, LARGE):
        module = module_of(kind, count)
        found.append(calls_per_instruction(_runs(kind, count)[name], module))
    return found[1] / found[0]


@lru_cache
def _runs(kind: str, count: int) -> Mapping[str, Callable[[], object]]:
    module = module_of(kind, count)
    return {**each_pass(module), **whole(module)}


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("name", (*sorted(PASSES), *WHOLE))
def test_work_grows_with_the_module(name: str, kind: str) -> None:
    assert growth(kind, name) < MOST_GROWTH


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_modules_have_the_size_asked_for_and_stay_legal(kind: str) -> None:
    module = module_of(kind, LARGE)
    assert 0.8 * LARGE < module.instruction_count < 1.3 * LARGE
    verify(module)
    verify(default_pipeline().run(module))


@pytest.mark.long
def test_the_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sizes", "50,100", "--kinds", "mixed,loops"])
    page = capsys.readouterr().out
    assert "| all passes | loops |" in page
    assert all(f"| {name} |" in page for name in PASSES)
