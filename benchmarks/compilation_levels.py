"""Compares the levels of compilation on programs: executables, time to compile and run, memory.

    python -m benchmarks.compilation_levels FILE.hlo... [--platform cpu] [--rounds 20]

Arguments are zeros for integers and small random numbers for others. Levels take turns within a
round. Memory is the most that one run had allocated on the device, arguments and results included,
in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

import xladev
from xladev.client import CompiledModule
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape

LEVELS = {"op by op": 0, "clusters": 1, "whole": 2}


@dataclass(slots=True)
class Row:
    """What one level takes.

    Attributes:
        executable: of the program.
        compile_s: seconds to compile it.
        run_s: seconds of each run.
    """

    executable: CompiledModule
    compile_s: float
    run_s: list[float] = field(default_factory=list)


def argument(shape: Shape, chance: np.random.Generator) -> object:
    """A value of a shape, which may be a tuple."""
    if shape.is_tuple:
        return tuple(argument(part, chance) for part in shape.tuple_shapes)
    kind = shape.element_type.np
    drawn = (
        chance.uniform(-1, 1, shape.dims) if np.dtype(kind).kind in "fc" else np.zeros(shape.dims)
    )
    return np.asarray(drawn).astype(kind)


def compiled(module: HloModule, platform: str, level: int) -> CompiledModule:
    """The module at one level."""
    return xladev.compile(module, platform, xladev.CompileOptions(compilation_level=level))


def arguments_of(module: HloModule) -> list[object]:
    """Values for the parameters."""
    chance = np.random.default_rng(0)
    return [argument(p.shape, chance) for p in module.entry.parameters]


def run(executable: CompiledModule, arguments: list[object]) -> None:
    """One run, whose results are read."""
    result = executable(*arguments)
    for each in result if isinstance(result, tuple) else (result,):
        np.asarray(each)


def measured(path: Path, platform: str, rounds: int) -> dict[str, Row]:
    """The rows of one program."""
    module = xladev.load(path)
    rows: dict[str, Row] = {}
    for name, level in LEVELS.items():
        start = time.perf_counter()
        made = compiled(module, platform, level)
        rows[name] = Row(made, time.perf_counter() - start)
    arguments = arguments_of(module)
    for _ in range(rounds):
        for row in rows.values():
            start = time.perf_counter()
            run(row.executable, arguments)
            row.run_s.append(time.perf_counter() - start)
    return rows


def peak_nbytes(path: Path, platform: str, level: int) -> int:
    """Most bytes that one run has allocated, in this process, which has run nothing else."""
    module = xladev.load(path)
    run(compiled(module, platform, level), arguments_of(module))
    return max(d.memory_stats().peak_nbytes for d in xladev.devices(platform))


def peak_in_a_process(path: Path, platform: str, level: int) -> int:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, str(path), "--platform", platform]
    done = subprocess.run(
        [*command, "--memory", str(level)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--memory", type=int, help="print the memory of one level, and no more")
    given = parser.parse_args()
    if given.memory is not None:
        print(peak_nbytes(given.files[0], given.platform, given.memory))
        return
    print("| program | level | executables | compile, s | run, ms | memory, MB |")
    print("|---|---|--:|--:|--:|--:|")
    for path in given.files:
        for name, row in measured(path, given.platform, given.rounds).items():
            count = len(row.executable.program.executables)
            times = f"{row.compile_s:.2f} | {median(row.run_s) * 1e3:.2f}"
            memory = peak_in_a_process(path, given.platform, LEVELS[name]) / 1e6
            print(f"| {path.stem} | {name} | {count} | {times} | {memory:.2f} |", flush=True)


if __name__ == "__main__":
    main()
