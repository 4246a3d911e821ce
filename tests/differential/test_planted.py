"""The differential test finds what is wrong: bugs planted in the emitters, one per test."""

from __future__ import annotations

import pytest

from tests.differential.planted import BUGS, PlantedBug
from xladev.compiler.options import CompileOptions
from xladev.testing.differential import Finding, compare_with_evaluator
from xladev.testing.fuzz_task import Task, draw

BUDGET = 200
"""Programs within which each bug must be found."""


def _finding(bug: PlantedBug, seed: int) -> Finding | None:
    module, arguments = draw(seed, Task(opcodes=bug.opcodes, steps=bug.steps))
    return compare_with_evaluator(module, arguments, "cpu", CompileOptions(optimization_level=0))


@pytest.mark.rotating
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_planted_bug_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By wrong values, in a program that is right without the bug."""
    monkeypatch.setenv("XLADEV_CPU_DEVICES", "4")
    with monkeypatch.context() as patch:
        bug.plant(patch)
        found = (s for s in range(BUDGET) if (f := _finding(bug, s)) and f.kind == "value")
        seed = next(found, None)
    assert seed is not None, f"{bug.name}: not found in {BUDGET} programs of {bug.opcodes}"
    print(f"{bug.name}: found by seed {seed} of {', '.join(bug.opcodes)}")
    assert _finding(bug, seed) is None


def test_there_are_twenty() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20
