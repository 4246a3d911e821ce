"""Processor time of one call of a small compiled program: xladev beside `jax.jit` and NumPy.

    python -m benchmarks.calls [--jax-python PYTHON] [--calls 2000] [--rounds 15]

Each library runs in a process of its own, on one processor, and they take turns. Arguments are
NumPy arrays, or arrays of the device; results are left alone, or read as NumPy arrays. Prints
microseconds per call, medians of rounds, and how many times as long the others take.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
SHAPES: Mapping[str, tuple[int, ...]] = {"0-d": (), "1024": (1024,)}
MANY = "5 in, 3 out"
WAYS = ("NumPy", "NumPy, read", "device", "device, read")
Call = Callable[[], Any]


def xladev_calls() -> dict[str, Call]:
    """Calls of programs compiled for the CPU."""
    from xladev.client import compile
    from xladev.runtime.array import put

    programs = {name: compile(_add_module(shape), "cpu") for name, shape in SHAPES.items()}
    programs[MANY] = compile(_many_module(), "cpu")
    (device,) = programs[MANY].devices
    return _calls(programs, lambda a: put(device, a), lambda a: a.numpy())


def jax_calls() -> dict[str, Call]:
    """Calls of what `jax.jit` makes of the same functions."""
    import jax

    add = jax.jit(lambda x, y: x + y)
    many = jax.jit(lambda a, b, c, d, e: (a + b, c * d, e - a))
    return _calls({**dict.fromkeys(SHAPES, add), MANY: many}, jax.device_put, np.asarray)


def numpy_calls() -> dict[str, Call]:
    """NumPy itself, which compiles nothing."""

    def many(a: Any, b: Any, c: Any, d: Any, e: Any) -> tuple[Any, ...]:
        return a + b, c * d, e - a

    return _calls({**dict.fromkeys(SHAPES, np.add), MANY: many}, lambda a: a, lambda a: a)


LIBRARIES = {"xladev": xladev_calls, "jax": jax_calls, "numpy": numpy_calls}


def _calls(
    functions: Mapping[str, Any], put: Callable[[Any], Any], read: Callable[[Any], Any]
) -> dict[str, Call]:
    """A call for each program and way, by name."""
    calls: dict[str, Call] = {}
    for name, function in functions.items():
        shape, count = SHAPES.get(name, (8,)), 5 if name == MANY else 2
        host = tuple(np.full(shape, i + 1, np.float32) for i in range(count))
        there = tuple(map(put, host))
        for way, call in zip(WAYS, _ways(function, host, there, read), strict=True):
            calls[f"{name}: {way}"] = call
            call()
    return calls


def _ways(function: Any, host: Any, there: Any, read: Callable[[Any], Any]) -> Sequence[Call]:
    def reading(arguments: Any) -> Call:
        def call() -> None:
            results = function(*arguments)
            for result in results if isinstance(results, tuple) else (results,):
                read(result)

        return call

    return (
        lambda: function(*host),
        reading(host),
        lambda: function(*there),
        reading(there),
    )


def _add_module(shape: tuple[int, ...]) -> bytes:
    kind = f"f32[{','.join(map(str, shape))}]"
    return (
        f"ENTRY add {{\n  x = {kind} parameter(0)\n  y = {kind} parameter(1)\n"
        f"  ROOT r = {kind} add(x, y)\n}}"
    ).encode()


def _many_module() -> bytes:
    parameters = "".join(f"  {n} = f32[8] parameter({i})\n" for i, n in enumerate("abcde"))
    return (
        f"ENTRY many {{\n{parameters}  x = f32[8] add(a, b)\n  y = f32[8] multiply(c, d)\n"
        "  z = f32[8] subtract(e, a)\n  ROOT r = (f32[8], f32[8], f32[8]) tuple(x, y, z)\n}"
    ).encode()


def serve(library: str) -> None:
    """Answers requests ``name calls`` with microseconds of processor time per call."""
    calls = LIBRARIES[library]()
    print(json.dumps(list(calls)), flush=True)
    for line in sys.stdin:
        name, count = json.loads(line)
        call = calls[name]
        for _ in range(20):
            call()
        start = time.process_time_ns()
        for _ in range(count):
            call()
        print((time.process_time_ns() - start) / count / 1000, flush=True)


class Child:
    """One library in its process; ``names`` are the calls it knows."""

    def __init__(self, python: str, library: str) -> None:
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.calls", "--serve", library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._process.pid, {min(os.sched_getaffinity(0))})
        self.names: list[str] = json.loads(self._answer() or "[]")

    def _answer(self) -> str:
        return self._process.stdout.readline() if self._process.stdout else ""

    def measure(self, name: str, calls: int) -> float:
        """Microseconds per call."""
        if self._process.stdin is not None:
            print(json.dumps([name, calls]), file=self._process.stdin, flush=True)
        return float(self._answer())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jax-python", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--serve", choices=LIBRARIES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    children = {"xladev": Child(sys.executable, "xladev"), "jax": Child(given.jax_python, "jax"),
                "numpy": Child(sys.executable, "numpy")}  # fmt: skip
    present = {name: child for name, child in children.items() if child.names}
    print("| us of CPU | " + " | ".join(present) + " | jax / xladev |")
    print("|---|" + "--:|" * (len(present) + 1))
    for case in present["xladev"].names:
        rows: dict[str, list[float]] = {name: [] for name in present}
        for _ in range(given.rounds):
            for name, child in present.items():
                rows[name].append(child.measure(case, given.calls))
        print(_row(case, {name: statistics.median(row) for name, row in rows.items()}))


def _row(case: str, us: Mapping[str, float]) -> str:
    ratio = f"{us['jax'] / us['xladev']:.1f}" if "jax" in us else ""
    return f"| {case} | " + " | ".join(f"{u:.2f}" for u in us.values()) + f" | {ratio} |"


if __name__ == "__main__":
    main()
