"""What a timeline costs while it records: ``python -m benchmarks.trace_overhead NAME.pb...``.

Runs each program by turns untraced and within `xladev.profile`, and compares processor time of all
threads, which a busy machine does not change. Each round takes both, in changing order; the median
of the rounds' ratios counts, and what recording costs that is written afterwards is told apart. The
last line is a call that computes nothing, a scalar sum: as it is when nobody traces.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xladev.client import CompiledModule, compile, load
from xladev.profiling.timeline import profile
from xladev.testing.random_inputs import random_arguments

ROUND_S = 0.05
"""Processor time of one measurement, about."""
MOST_CALLS = 20_000
MOST_EVENTS = 100_000
"""Events of one measurement, so that none are dropped."""
DOCUMENT_CALLS = 3
WARM_CALLS = 4
_SCALAR = b"HloModule scalar\nENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] add(x, x) }"


@dataclass(frozen=True, slots=True)
class Overhead:
    """One program.

    Attributes:
        name: of its file.
        call_us: processor time of an untraced call, microseconds.
        ratio: a traced call's over it.
        events: of one traced call.
        write_us: processor time of making the document of one call.
    """

    name: str
    call_us: float
    ratio: float
    events: float
    write_us: float


def measure(name: str, program: CompiledModule, arguments: Sequence[Any], rounds: int) -> Overhead:
    """Compares calls of a program, which are made until they take `ROUND_S`."""
    for _ in range(WARM_CALLS):
        _used(program, arguments, 1)
    once = max(min(_used(program, arguments, 1) for _ in range(3)), 1e-6)
    events, write = _document(program, arguments)
    calls = max(1, min(MOST_CALLS, int(ROUND_S / once), int(MOST_EVENTS / events)))
    ratios: list[float] = []
    plain: list[float] = []
    for number in range(rounds):
        used: dict[bool, float] = {}
        for traced in (False, True) if number % 2 else (True, False):
            with profile() if traced else nullcontext():
                used[traced] = _used(program, arguments, calls)
        plain.append(used[False] / calls)
        ratios.append(used[True] / used[False])
    median = statistics.median
    return Overhead(name, 1e6 * median(plain), median(ratios), events, 1e6 * write)


def _document(program: CompiledModule, arguments: Sequence[Any]) -> tuple[float, float]:
    """Events of one call, and the seconds that it takes to make a document of them."""
    with profile() as timeline:
        _used(program, arguments, DOCUMENT_CALLS)
    start = time.process_time()
    count = len(timeline.to_json()["traceEvents"])
    return count / DOCUMENT_CALLS, (time.process_time() - start) / DOCUMENT_CALLS


def _used(program: CompiledModule, arguments: Sequence[Any], calls: int) -> float:
    """Processor time of some calls, in seconds."""
    start = time.process_time()
    for _ in range(calls):
        program(*arguments)
    return time.process_time() - start


def _programs(paths: Sequence[Path], platform: str) -> list[tuple[str, Callable[[], Any]]]:
    """What to measure: the files, then the scalar."""

    def of_file(path: Path) -> tuple[CompiledModule, list[Any]]:
        module = load(path)
        return compile(module, platform), random_arguments(module, 0)

    def scalar() -> tuple[CompiledModule, list[Any]]:
        return compile(_SCALAR, platform), [np.ones((), np.float32)]

    files = [(path.stem, lambda path=path: of_file(path)) for path in paths]
    return [*files, ("(scalar)", scalar)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a line for each program."""
    parser = argparse.ArgumentParser(description="What a timeline costs while it records.")
    parser.add_argument("files", nargs="*", type=Path, metavar="NAME.pb")
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--rounds", type=int, default=11)
    given = parser.parse_args(arguments)
    print("program                        call us  traced  events  document us")
    ratios: list[float] = []
    for name, make in _programs(given.files, given.platform):
        program, values = make()
        row = measure(name, program, values, given.rounds)
        ratios += [row.ratio] if name != "(scalar)" else []
        print(
            f"{row.name:28} {row.call_us:9.1f} {row.ratio - 1:+7.1%} {row.events:7.1f} "
            f"{row.write_us:12.1f}",
            flush=True,
        )
    if ratios:
        print(f"median of {len(ratios)} programs: {statistics.median(ratios) - 1:+.1%}")


if __name__ == "__main__":
    main()
