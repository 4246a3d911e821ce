"""Damaged programs, executables and kernel plans: read, or refused as such, and then run safely."""

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.files import damaged_executable, damaged_plan, damaged_program
from tests.fuzz.run_file import devices, sample
from tests.unit.compiler.evaluating_backend import EvaluatingCompiler, EvaluatingExecutor
from tests.unit.compiler.plan.test_kernel_plan import ROTATING_LOOP
from tests.unit.compiler.subset_backend import subset_registry
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.program import Program
from xladev.compiler.program.program_file import program_from_bytes, program_to_bytes
from xladev.errors import FormatError, XladevError
from xladev.hlo.text import parse_module
from xladev.runtime.buffers.allocator import Allocator
from xladev.runtime.launch.plan_executable import load_plan_or_program
from xladev.testing.worker import Status, Worker

COUNT = 700
RUNS = 25
LEAST = 5
"""One damaged program in 30 still loads."""
OPTIONS = CompileOptions(optimization_level=0)


def clear(error: XladevError) -> None:
    """An error that tells all of what it should, at a length that one reads."""
    assert error.code and error.what and error.where and error.why and error.hint
    assert len(str(error)) < 2000


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with subset_registry(devices()):
        yield sample().program


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker("tests.fuzz.run_file:take", timeout_s=60, memory_nbytes=6 << 30) as child:
        yield child


def test_programs(program: Program, worker: Worker, seed: int) -> None:
    """One that passes the check runs, says why not, or never ends; it may give other values."""
    draw, data = random.Random(seed), program_to_bytes(program)
    read = 0
    for _ in range(COUNT):
        damaged = damaged_program(data, draw)
        try:
            found = program_from_bytes(damaged)
        except FormatError as error:
            clear(error)
            continue
        assert program_from_bytes(program_to_bytes(found)) == found
        read += 1
        if read <= RUNS:
            outcome = worker.call(damaged)
            assert outcome.status is Status.OK or "SIGPROF" in outcome.detail, outcome.detail
    assert read > LEAST


def test_executables(program: Program, seed: int) -> None:
    draw = random.Random(seed)
    files = [executable.to_bytes() for executable in program.executables]
    for _ in range(COUNT):
        try:
            found = Executable.from_bytes(damaged_executable(draw.choice(files), draw))
        except FormatError as error:
            clear(error)
            continue
        assert Executable.from_bytes(found.to_bytes()) == found


def test_plans(seed: int) -> None:
    draw = random.Random(seed)
    made = EvaluatingCompiler().compile(parse_module(ROTATING_LOOP), OPTIONS)
    executor = EvaluatingExecutor()
    allocator = Allocator(executor, "evaluating", lambda: None)
    read = 0
    for _ in range(COUNT):
        damaged = Executable(made.signature, damaged_plan(made.payload, draw))
        try:
            load_plan_or_program(executor, damaged, allocator, alignment=64)
        except XladevError as error:
            clear(error)
        else:
            read += 1
    assert read
