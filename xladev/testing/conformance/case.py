"""Cases: named programs with inputs and an oracle, and named checks of the device contract.

A file of the suite holds them in a table, ``CASES``. Programs are built when they are run, so that
collecting thousands of cases costs next to nothing.
"""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xladev.errors import ArgumentError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloInstruction, HloModule, ModuleHeader
from xladev.hlo.literal import Array, Value
from xladev.hlo.text import parse_module
from xladev.testing.conformance.location import PACKAGE
from xladev.testing.conformance.mixed import mixed_arguments
from xladev.testing.random_inputs import random_arguments

Build = Callable[[HloBuilder], HloInstruction]
"""Appends a program's instructions to a builder and gives the root."""

Row = Sequence[Value]
"""One run's arguments: one value per parameter."""

Inputs = Callable[[HloModule, int], Sequence[Row]]
"""The runs of a program, from the program and a seed."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+~-]*\Z")


def ordinary(module: HloModule, seed: int) -> Sequence[Row]:
    """One run with small random numbers, legal for what the program does with them."""
    return [random_arguments(module, seed)]


def special(module: HloModule, seed: int) -> Sequence[Row]:
    """A run with ordinary numbers, and one with every special value of each type among them."""
    return [random_arguments(module, seed), mixed_arguments(module, seed)]


@dataclass(frozen=True, slots=True)
class Case:
    """A program that a backend compiles and runs; its results are held against an oracle.

    Attributes:
        name: unique within its file; what `-k` filters.
        program: HLO text, or what builds the program.
        opcode: row of the matrix; empty if the case is about no single opcode.
        dtype: column of the matrix; name of an element type, or empty.
        tags: what else it is about, such as ``layout`` or ``special-values``.
        tier: tier of the contract that it asks for.
        inputs: draws the runs.
        expected: the results as known beforehand, one array per leaf; the oracle is held to them.
        options: compile options, ``key=value``.
        timeout_s: seconds that compiling and running may take.
        replicas: devices that run a built program on data of their own.
        partitions: devices that one replica of a built program is split over.
        cut: the same case with its large dimension divided by a power of two, for devices that it
            does not fit (`sizes.py`). Cases whose values take more than 2 MiB have one.
    """

    name: str
    program: str | Build
    opcode: str = ""
    dtype: str = ""
    tags: tuple[str, ...] = ()
    tier: int = 2
    inputs: Inputs = ordinary
    expected: tuple[Array | np.generic, ...] | None = None
    options: tuple[str, ...] = ()
    timeout_s: float = 120.0
    replicas: int = 1
    partitions: int = 1
    cut: Callable[[int], Case] | None = None

    def module(self) -> HloModule:
        """The program."""
        if isinstance(self.program, str):
            return parse_module(self.program)
        builder = HloBuilder(_identifier(self.name))
        header = ModuleHeader(replica_count=self.replicas, num_partitions=self.partitions)
        return builder.module(self.program(builder), header)

    def runs(self, module: HloModule, seed: int) -> Sequence[Row]:
        """Arguments of each run; the seed of the run and the name of the case fix them."""
        return self.inputs(module, zlib.crc32(f"{seed}/{self.name}".encode()))


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the contract itself: a function of the file, run beside the backend.

    Attributes:
        name: as in `Case`.
        function: ``package.module:name``; takes a `Probe`, raises if something is wrong.
        tier: tier of the contract that it is about.
        tags: what else it is about.
        timeout_s: seconds that it may take.
    """

    name: str
    function: str
    tier: int = 1
    tags: tuple[str, ...] = ()
    opcode: str = ""
    dtype: str = ""
    timeout_s: float = 60.0


AnyCase = Case | Check


def cuttable(make: Callable[[int], Case]) -> Case:
    """A case that can be cut to a device's memory.

    Args:
        make: ``make(1)`` is the case, ``make(n)`` the same with its large dimension divided by a
            power of two; all of one name.
    """
    return replace(make(1), cut=make)


def divided(dims: Sequence[int], factor: int) -> tuple[int, ...]:
    """Dimensions of which the largest is divided by ``factor``, to be at least 1."""
    largest = max(range(len(dims)), key=lambda i: dims[i])
    return tuple(max(1, d // factor) if i == largest else d for i, d in enumerate(dims))


def given(*rows: Sequence[Any]) -> Inputs:
    """Runs on exactly these arguments."""
    return lambda module, seed: [[np.asarray(x) for x in row] for row in rows]


def load_cases(path: Path) -> tuple[AnyCase, ...]:
    """The table of a file of the suite.

    Raises:
        ArgumentError: two cases have one name, or a name that cannot be filtered by.
    """
    module = importlib.import_module(f"{PACKAGE}.{path.stem}")
    cases: tuple[AnyCase, ...] = tuple(module.CASES)
    seen: set[str] = set()
    for case in cases:
        if case.name in seen or not _NAME.match(case.name):
            raise ArgumentError(f"{path.name} has a case called {case.name!r}", why="twice or odd")
        seen.add(case.name)
    return cases


def checks_of(module_name: str, tier: int, namespace: Mapping[str, Any]) -> Iterator[Check]:
    """One check for each public function of a module that is named ``check_...``."""
    stem = module_name.rpartition(".")[2]
    for name in namespace:
        if name.startswith("check_"):
            function = f"{PACKAGE}.{stem}:{name}"
            yield Check(name.removeprefix("check_").replace("_", "-"), function, tier)


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
