"""Compile time and step time of sharded programs on eight devices, beside XLA:CPU's.

    python -m benchmarks.sharded [--rounds 5] [--compiles 3] [--processor-time] [NAME ...]

Both are platforms of one process, xladev's with eight virtual devices and JAX's with eight host
devices, and take turns. Prints medians and ratios for each program, then geometric means. Compile
time is all that `Lowered.compile` does; step time is wall-clock time until all parts are there.
With `--processor-time` it is that of all threads of the process, for a machine that others use.
Results are compared first. Needs jax and xladev-pjrt.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.sharded_programs import prepared, programs, training_steps

PLATFORMS = ("xladev_cpu", "cpu")
ROUND_S = 0.05
"""Wall-clock time of one measurement of steps, about."""

Made = Callable[[], tuple[Any, tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Row:
    """One program.

    Attributes:
        name: its name.
        compile_ms: medians, of xladev and of XLA.
        step_ms: as well.
    """

    name: str
    compile_ms: tuple[float, float]
    step_ms: tuple[float, float]

    @property
    def ratios(self) -> tuple[float, float]:
        """xladev's time over XLA's, of compiling and of a step."""
        return self.compile_ms[0] / self.compile_ms[1], self.step_ms[0] / self.step_ms[1]

    def __str__(self) -> str:
        compiling, stepping = self.ratios
        return (
            f"| {self.name} | {self.compile_ms[0]:.0f} | {self.compile_ms[1]:.0f} | "
            f"{compiling:.2f} | {self.step_ms[0]:.2f} | {self.step_ms[1]:.2f} | {stepping:.2f} |"
        )


Clock = Callable[[], float]


def measure(name: str, made: Sequence[Made], rounds: int, compiles: int, clock: Clock) -> Row:
    """One program on both platforms, by turns in changing order."""
    pairs = [make() for make in made]
    compiling = _by_turns([partial(_compile_ms, clock, *pair) for pair in pairs], compiles)
    calls = [partial(run.lower(*values).compile(), *values) for run, values in pairs]
    _compare(name, [call() for call in calls])
    counts = [_count(call) for call in calls]
    timed = [partial(_step_ms, clock, *each) for each in zip(calls, counts, strict=True)]
    return Row(name, compiling, _by_turns(timed, rounds))


def _by_turns(timed: Sequence[Callable[[], float]], rounds: int) -> tuple[float, float]:
    seen: list[list[float]] = [[] for _ in timed]
    for number in range(rounds):
        for place in (0, 1) if number % 2 else (1, 0):
            seen[place].append(timed[place]())
    ours, theirs = map(statistics.median, seen)
    return ours, theirs


def _compile_ms(clock: Clock, run: Any, values: tuple[Any, ...]) -> float:
    """Compiles anew: what is lowered again shares no executable with what was before."""
    import jax

    jax.clear_caches()
    lowered = run.lower(*values)
    start = clock()
    lowered.compile()
    return (clock() - start) * 1e3


def _step_ms(clock: Clock, call: Callable[[], Any], count: int) -> float:
    import jax

    start = clock()
    for _ in range(count):
        jax.block_until_ready(call())
    return (clock() - start) / count * 1e3


def _count(call: Callable[[], Any]) -> int:
    """Calls of one measurement; those that find it out are the warm-up."""
    once = min(_step_ms(time.perf_counter, call, 1) for _ in range(3))
    return max(1, min(500, int(ROUND_S * 1e3 / once)))


def _compare(name: str, results: Sequence[Any]) -> None:
    import jax
    import numpy as np

    for ours, theirs in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3, err_msg=name)


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def all_programs() -> dict[str, list[Made]]:
    """Each program, for the meshes of both platforms."""
    import jax
    import numpy as np

    found: dict[str, list[Made]] = {}
    for platform in PLATFORMS:
        devices = np.array(jax.devices(platform)[:8]).reshape(4, 2)
        mesh = jax.sharding.Mesh(devices, ("x", "y"))
        made: dict[str, Made] = {n: partial(prepared, p, mesh) for n, p in programs(mesh).items()}
        for name, make in (made | training_steps(mesh)).items():
            found.setdefault(name, []).append(make)
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compiles", type=int, default=3)
    parser.add_argument("--processor-time", action="store_true")
    given = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = ",".join(PLATFORMS)
    os.environ["XLADEV_CPU_DEVICES"], os.environ["XLADEV_CACHE"] = "8", "off"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    clock = time.process_time if given.processor_time else time.perf_counter
    made = all_programs()
    print("| program | compile ms | XLA | ratio | step ms | XLA | ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    rows: list[Row] = []
    for name in given.names or made:
        rows.append(measure(name, made[name], given.rounds, given.compiles, clock))
        print(rows[-1], flush=True)
    compiling, stepping = (geometric_mean(r.ratios[i] for r in rows) for i in (0, 1))
    print(f"| geometric mean | | | {compiling:.2f} | | | {stepping:.2f} |")
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f} at the end, {given.rounds} rounds")


if __name__ == "__main__":
    main()
