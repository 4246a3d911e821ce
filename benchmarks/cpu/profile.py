"""Where whole programs spend their time: ``python -m benchmarks.cpu.profile NAME.pb...``.

Runs each program with its stored arguments, on one thread, while a timeline is recorded, and says
how much of the time kernels take, and how much passes before, between and after them.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xladev
from benchmarks.cpu.child import Clock
from benchmarks.cpu.machine import machine
from benchmarks.cpu.measure import file_inputs
from benchmarks.cpu.report import table
from xladev.client import CompiledModule
from xladev.compiler.options import CompileOptions
from xladev.runtime.array import put

BETWEEN = "between kernels"
CALLS_AT_ONCE = 1000
"""Calls that are recorded before they are counted; a timeline keeps a million kernels."""


def samples(compiled: CompiledModule, arguments: Sequence[object], seconds: float) -> Counter[str]:
    """Nanoseconds by kernel, over calls of so many seconds, and those in no kernel."""
    found: Counter[str] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        start = time.process_time_ns()
        with xladev.profile(None) as timeline:
            for _ in range(CALLS_AT_ONCE):
                compiled(*arguments)
                if time.monotonic() >= until:
                    break
            took = time.process_time_ns() - start
        kernels = [e for e in timeline.events if e.category == "kernel"]
        for event in kernels:
            found[event.name] += event.duration_ns
        found[BETWEEN] += max(took - sum(e.duration_ns for e in kernels), 0)
    return found


CLASSES = (
    (BETWEEN, f"^{BETWEEN}$"),
    ("convolution", r"conv(?!ert)"),
    ("dot", r"dot|matmul|einsum|fft"),
    ("sort", r"sort|top_k|argmax"),
    ("scatter", r"scatter"),
    ("gather", r"gather"),
    ("reduce", r"reduce"),
    ("other loops", r""),
)
"""Title and regular expression of each column; the first that matches counts."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a program spends its time.

    Attributes:
        name: of the program.
        us: microseconds of CPU time per call.
        shares: percent of the time, by kernel, largest first.
    """

    name: str
    us: float
    shares: tuple[tuple[str, float], ...]

    def by_class(self) -> dict[str, float]:
        """Percent of the time by title of `CLASSES`."""
        sums = dict.fromkeys((title for title, _ in CLASSES), 0.0)
        for name, share in self.shares:
            sums[next(title for title, pattern in CLASSES if re.search(pattern, name))] += share
        return sums


def profile(path: Path, seconds: float) -> Profile:
    """Compiles a program, runs it for some seconds and counts."""
    compiled = xladev.compile(path, "cpu", CompileOptions(threads=1))
    inputs = file_inputs(path.parent, path.stem)
    one = len(compiled.devices) == 1
    arguments = [put(compiled.devices[0], a) for a in inputs] if one else inputs
    for _ in range(3):
        compiled(*arguments)
    clock, calls = Clock(), 20
    for _ in range(calls):
        compiled(*arguments)
    us = clock.read()[1] / calls * 1e6
    found = samples(compiled, arguments, seconds)
    whole = max(found.total(), 1)
    shares = tuple((name, 100 * n / whole) for name, n in found.most_common())
    return Profile(path.stem, us, shares)


PAGE = """\
# Where programs spend their time on the CPU

<!-- Written by `python -m benchmarks.cpu.profile --write PAGE NAME.pb...`. -->

Percent of CPU time by what runs: kernels by what their names say, and what is between them: the
[fast call](platform-cpu.md), copies, fresh memory and, where there is no fast call, Python.
The time is that of one call, arguments on the device, results not read.

Measured on {machine}, load average {load:.1f}.

{table}
"""


def page(profiles: Sequence[Profile]) -> str:
    """All profiles as a table."""
    titles = [title for title, _ in CLASSES]
    rows: list[list[str]] = []
    for p in profiles:
        shares = [f"{share:.0f}" if share >= 0.5 else "" for share in p.by_class().values()]
        kernel = next((n for n, _ in p.shares if n != BETWEEN), "")
        rows.append([p.name, f"{p.us:.0f} us", *shares, f"`{kernel}`" if kernel else ""])
    head = ["", "one call", *titles, "largest kernel"]
    text = table(head, rows)
    return PAGE.format(machine=machine(), load=os.getloadavg()[0], table=text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a profile of each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path, help="NAME.pb, beside NAME.npz")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args(arguments)
    profiles: list[Profile] = []
    for path in options.programs:
        profiles.append(profile(path, options.seconds))
        print(f"\n{path.stem}: {profiles[-1].us:.0f} us")
        for name, share in profiles[-1].shares[:12]:
            print(f"  {share:5.1f}% {name}", flush=True)
    if options.write:
        options.write.write_text(page(profiles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
