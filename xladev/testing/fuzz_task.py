"""What a child process of `xladev.testing.fuzz` does: draws programs, runs and compares them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value
from xladev.testing.coverage import Coverage, coverage_of
from xladev.testing.differential import compare_results
from xladev.testing.random_inputs import random_arguments
from xladev.testing.random_program import random_program
from xladev.testing.recipes.table import RECIPES
from xladev.testing.verdict import (
    DEFINITION,
    OK,
    Case,
    Verdict,
    flat_arrays,
    pack_case,
    unpack_case,
    verdict_on,
)
from xladev.testing.wire import pack, unpack
from xladev.testing.worker import Status, Worker

_LEVELS = (0, 0, 0, 0, 2, 2, 1, 3)
_XLA = "xladev.testing.xla_child:execute"
_XLA_S = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """What is tested, and how programs are drawn.

    Attributes:
        platform: what is tested.
        against: whose results are right.
        xla: a Python with jaxlib, whose XLA is tested too; empty for none.
        level: optimization level; None for one that the seed chooses.
        steps: opcodes per program; None for a number that the seed chooses.
        opcodes: drawn from these alone; empty for all.
    """

    platform: str = "cpu"
    against: str = DEFINITION
    xla: str = ""
    level: int | None = None
    steps: int | None = None
    opcodes: tuple[str, ...] = ()

    def level_of(self, seed: int) -> int:
        """The optimization level that a seed's program is compiled at."""
        if self.level is not None:
            return self.level
        return random.Random(f"level {seed}").choice(_LEVELS)

    def request(self, level: int, module: HloModule, arguments: Sequence[Value]) -> bytes:
        """The message that asks about one case."""
        return pack_case({"task": {**asdict(self), "level": level}}, module, arguments)

    def request_seeds(self, seeds: Sequence[int]) -> bytes:
        """The message that asks about the programs of some seeds."""
        return pack({"task": asdict(self), "seeds": list(seeds)})


def draw(seed: int, task: Task) -> Case:
    """The program and arguments of a seed: one opcode or many, tame or wild."""
    source = seed % 6
    wild = source in (1, 4)
    steps = task.steps or (1 if source < 3 else None)
    opcodes: Sequence[str] = task.opcodes
    if steps == 1 and not opcodes:
        names = sorted(RECIPES)
        opcodes = (names[seed // 6 % len(names)],)
    module = random_program(seed, RECIPES, steps=steps, opcodes=opcodes or None, wild=wild)
    return module, tuple(random_arguments(module, seed, wild=wild))


def run(message: bytes) -> bytes:
    """Answers one request: a row of seeds, or one case to look at again."""
    head, arrays, proto = unpack(message)
    task = Task(**{**head["task"], "opcodes": tuple(head["task"]["opcodes"])})
    if proto:
        case = unpack_case(head, arrays, proto)
        return pack({"results": [judged(*case, task, task.level_of(0))]})
    coverage: Coverage = Coverage()
    results: list[dict[str, Any]] = []
    for seed in head["seeds"]:
        module, case_arguments = draw(seed, task)
        coverage += coverage_of(module)
        results.append({**judged(module, case_arguments, task, task.level_of(seed)), "seed": seed})
    counts = [[*key, count] for key, count in coverage.items()]
    return pack({"results": results, "coverage": counts})


def judged(module: HloModule, arguments: Sequence[Value], task: Task, level: int) -> dict[str, Any]:
    """Kind and detail of what is wrong with a program, or the kind ``ok``; and what XLA said.

    Options other than the level are those of `XLADEV_FLAGS`.
    """
    options = replace(CompileOptions.from_environment(), optimization_level=level)
    verdict, wanted = verdict_on(module, arguments, task.platform, task.against, options)
    if verdict.kind != OK or not task.xla:
        return verdict.to_json()
    return _judged_by_xla(module, arguments, task, wanted)


def _judged_by_xla(
    module: HloModule, arguments: Sequence[Value], task: Task, wanted: Sequence[Array]
) -> dict[str, Any]:
    """As `judged`, of XLA's results; where there are none, XLA's reason."""
    if module.header.replica_count > 1:
        return {"kind": OK, "xla": "known: it runs on several devices, and this on one"}
    outcome = _xla(task.xla).call(pack({}, flat_arrays(arguments), module))
    if outcome.status is not Status.OK:
        last = outcome.detail.strip().splitlines() or [""]
        return {"kind": OK, "xla": f"{outcome.status.value}: {last[-1][:100]}"}
    head, arrays, _ = unpack(outcome.value)
    if "skipped" in head:
        return {"kind": OK, "xla": head["skipped"]}
    finding = compare_results(module, arguments, arrays, wanted, coarse_sums=True)
    verdict = Verdict() if finding is None else Verdict(f"xla-{finding.kind}", str(finding))
    return {**verdict.to_json(), "xla": "compared"}


@cache
def _xla(python: str) -> Worker:
    # the other interpreter has packages of its own: only the sources are passed on
    path = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return Worker(_XLA, timeout_s=_XLA_S, python=python, environment=path)
