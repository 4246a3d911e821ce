"""Programs compiled for other machines give what they give here: under qemu, and under Node.

Every exported program, and a sample of the conformance suite's cases of one opcode (every type and
special value), in one binary per machine and file. Ten commits together run all programs.
"""

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PROGRAMS
from tests.tools.cross import MACHINES, CrossProgram, Machine, cross_compile, run_all
from tests.tools.programs import ExportedProgram, program_names
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.testing.conformance.case import Case, Row, load_cases
from xladev.testing.conformance.location import suite_folder
from xladev.testing.differential import equal_elements
from xladev.testing.limits import allowed_differences
from xladev.testing.noise import evaluated, leaves

SHARE = 12
"""One of so many cases is taken."""
SEED = 7
FILES = ("elementwise_unary", "elementwise_binary", "conversion", "reduction", "products",
         "movement", "indexing", "convolution", "control", "solvers")  # fmt: skip
SEVERAL_DEVICES = frozenset({"collectives_shard_map"})
NAMES = [name for name in program_names(PROGRAMS) if name not in SEVERAL_DEVICES]

# See tests/acceptance/test_programs.py: one gradient of Adam's first step is rounding noise.
ROUNDING_NOISE = {"cnn_train_adam_dropout": "result 3: 1 of 4608 differ"}


def usable(machine: Machine) -> None:
    """Skips where something that the machine takes is not here."""
    if machine.missing:
        pytest.skip(machine.missing)
    if machine.needs and machine.needs not in Path("/proc/cpuinfo").read_text("utf-8"):
        pytest.skip(f"this processor has no {machine.needs}")


@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
@pytest.mark.counts("programs on other machines")
def test_program(machine: Machine, name: str, tmp_path: Path) -> None:
    usable(machine)
    program = ExportedProgram(PROGRAMS, name)
    compiled = cross_compile(program.module(), machine)
    problem = program.problem_of(compiled(program.inputs(), tmp_path))
    if problem and problem.startswith(ROUNDING_NOISE.get(name, "none of these")):
        pytest.xfail(f"rounding noise: {problem}")
    assert problem == ""


@pytest.mark.rotating
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
def test_conformance_cases(machine: Machine, file: str, tmp_path: Path) -> None:
    usable(machine)
    calls: list[tuple[CrossProgram, Sequence[Array]]] = []
    asked: list[tuple[str, HloModule, Row]] = []
    for case in sample(file):
        module = case.module()
        try:
            program = cross_compile(replace(module, name=f"case{len(calls)}"), machine)
        except ValueError:  # a program of several parts, or of no instruction at all
            continue
        for row in case.runs(module, SEED):
            calls.append((program, [np.asarray(x) for value in row for x in leaves(value)]))
            asked.append((case.name, module, row))
    assert calls
    found = run_all(machine, calls, tmp_path, timeout_s=300)
    wrong = [
        name
        for (name, module, row), got in zip(asked, found, strict=True)
        if not is_allowed(module, row, got)
    ]
    assert wrong == []


def sample(file: str) -> list[Case]:
    """Some of a file's cases, the same ones for every machine."""
    cases = [c for c in load_cases(suite_folder() / f"{file}.py") if isinstance(c, Case)]
    return [
        c
        for c in cases
        if not (c.options or zlib.crc32(c.name.encode()) % SHARE) and c.replicas * c.partitions == 1
    ]


def is_allowed(module: HloModule, row: Row, got: Sequence[Array]) -> bool:
    """Whether results are the evaluator's, as far as rounding leaves them."""
    want = evaluated(module, row)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
        if all(equal_elements(g, w).all() for g, w in zip(got, want, strict=True)):
            return True
        limits = allowed_differences(module, row, want)
        return all(map(_is_near, got, want, limits))


def _is_near(got: Array, want: Array, limit: Array) -> bool:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    distance = np.abs(np.asarray(got, wide) - np.asarray(want, wide))
    is_free = np.isinf(limit)  # where even the distance between infinities is none
    is_close = (distance <= limit) & (limit > 0)
    return bool((equal_elements(got, want) | is_free | is_close).all())
