"""The mutants written by hand, which cases each meets, and whether the report names the opcode."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache

import pytest

from tests.differential.planted import BUGS
from tests.mutants import (
    handmade_async,
    handmade_cpu,
    handmade_fourier,
    handmade_lapack,
    handmade_npu,
    handmade_wrappers,
)
from tests.mutants.campaign import Verdict, run_cases
from tests.mutants.wrong import WrongBackend
from xladev.testing.conformance.case import AnyCase, load_cases
from xladev.testing.conformance.location import is_case_file, suite_folder
from xladev.testing.worker import Worker

MOST_CASES = 60

WHERE_STEPS = {"a kernel overwrites what it still reads": ("programs::*",)}
"""Bugs that take several instructions are looked for in whole programs."""

OWN = (
    *handmade_cpu.MUTANTS,
    *handmade_fourier.MUTANTS,
    *handmade_lapack.MUTANTS,
    *handmade_npu.MUTANTS,
    *handmade_async.MUTANTS,
    *handmade_wrappers.MUTANTS,
)
PLANTED = tuple(
    WrongBackend(
        bug.name,
        "cpu",
        bug.plant,
        bug.opcodes if bug.steps == 1 else (),
        WHERE_STEPS.get(bug.name, ()),
    )
    for bug in BUGS
)
MUTANTS: tuple[WrongBackend, ...] = (*OWN, *PLANTED)
"""Those of this folder, and the bugs that random programs have to find."""


class Planted:
    """A mutant by its name, for the process that it is planted in."""

    def __init__(self, mutant: WrongBackend) -> None:
        self._mutant = mutant

    def plant(self) -> None:
        """Makes the mistake; the process is thrown away."""
        self._mutant.plant(pytest.MonkeyPatch())


def by_name(name: str) -> Planted:
    """The mutant of that name."""
    return Planted(next(m for m in MUTANTS if m.name == name))


@cache
def _suite() -> tuple[tuple[str, AnyCase], ...]:
    files = sorted(p for p in suite_folder().iterdir() if is_case_file(p))
    return tuple((f"{path.stem}::{c.name}", c) for path in files for c in load_cases(path))


def chosen(mutant: WrongBackend) -> list[str]:
    """The slice of the suite that a mutant meets: cases about its opcodes, or those it names."""
    return list(_named(mutant)) if mutant.cases else list(_about(mutant))[:MOST_CASES]


def _named(mutant: WrongBackend) -> Iterator[str]:
    for pattern in mutant.cases:
        yield from (name for name, _ in _suite() if fnmatch(name, pattern))


def _about(mutant: WrongBackend) -> Iterator[str]:
    groups = [[n for n, c in _suite() if c.opcode == o] for o in mutant.opcodes]
    draw = random.Random(mutant.name)
    for group in groups:
        draw.shuffle(group)
    for at in range(max(map(len, groups), default=0)):
        yield from (group[at] for group in groups if at < len(group))


def alike(name: str) -> list[str]:
    """A case and after it those about the same opcode, or of the same file if it is about none."""
    about = {n: c.opcode or n.partition("::")[0] for n, c in _suite()}
    others = [n for n, opcode in about.items() if opcode == about.get(name) and n != name]
    return [name] * (name in about) + others


def run(worker: Worker, mutant: WrongBackend) -> Verdict:
    """The verdict of its slice; stops at the first failure."""
    return run_cases(worker, {"name": mutant.name}, mutant.backend, chosen(mutant))


def names_it(mutant: WrongBackend, verdict: Verdict) -> bool:
    """True if what the report says of the failure names what is wrong.

    It names the opcode of the case; a case of the contract is named by what it checks.
    """
    if mutant.cases:
        return any(fnmatch(verdict.case, pattern) for pattern in mutant.cases)
    return verdict.opcode in mutant.opcodes or any(o in verdict.case for o in mutant.opcodes)
