"""Many random programs in child processes; what is wrong with some becomes a few small files."""

from __future__ import annotations

import json
import os
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.testing.case_file import case_words, write_case
from xladev.testing.coverage import Coverage, table
from xladev.testing.fuzz_task import Task, draw
from xladev.testing.reduce import reduce_module
from xladev.testing.verdict import Case
from xladev.testing.wire import unpack
from xladev.testing.worker import Outcome, Status, Worker

BATCH = 12
_FUNCTION = "xladev.testing.fuzz_task:run"
_TIMEOUT_S = 180.0
_DEVICES = "4"
_PLUMBING = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})

Report = Callable[[str], None]


@dataclass(slots=True)
class CampaignFailure:
    """What is wrong with a program, made small.

    Attributes:
        signature: kind of failure and opcodes of the small program; one failure for each is kept.
        detail: what was seen on the whole program.
        command: repeats it.
        instructions: of the small program.
        seeds: programs that show it.
    """

    signature: str
    detail: str
    command: str
    instructions: int
    seeds: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Campaign:
    """Programs run so far, and what came of them.

    Attributes:
        task: what is tested.
        out: folder for small programs.
        reduce_s: seconds that making one small may take.
        report: told about each new failure.
        function: what the children run.
        programs: how many ran.
        kinds: how they ended, by kind.
        xla: what XLA said, by answer.
        failures: by signature.
        coverage: what was drawn.
    """

    task: Task
    out: Path
    reduce_s: float = 60.0
    report: Report = print
    function: str = _FUNCTION
    programs: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    xla: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, CampaignFailure] = field(default_factory=dict[str, CampaignFailure])
    coverage: Coverage = field(default_factory=Coverage)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, first: int, count: int, *, jobs: int = 1, deadline: float = float("inf")) -> None:
        """Tests ``count`` seeds from ``first`` on, until ``deadline`` (of ``time.monotonic``).

        An interrupt from the keyboard ends it after the batches that are under way.
        """
        starts = iter(range(first, first + count, BATCH))
        with ThreadPoolExecutor(jobs) as pool:
            rows = [pool.submit(self._work, starts, first + count, deadline) for _ in range(jobs)]
            try:
                for row in rows:
                    row.result()
            except KeyboardInterrupt:
                self._stop.set()

    def _worker(self) -> Worker:
        return Worker(self.function, timeout_s=_TIMEOUT_S, environment=_environment())

    def _work(self, starts: Iterator[int], end: int, deadline: float) -> None:
        """Takes batches until there are none."""
        with self._worker() as worker:
            while time.monotonic() < deadline and not self._stop.is_set():
                with self._lock:
                    start = next(starts, None)
                if start is None:
                    return
                self._run_seeds(worker, range(start, min(start + BATCH, end)))

    def _run_seeds(self, worker: Worker, seeds: Sequence[int]) -> None:
        """Tests some seeds; one by one where the child does not come back."""
        outcome = worker.call(self.task.request_seeds(seeds))
        if outcome.status is Status.OK:
            self._take(worker, unpack(outcome.value)[0])
        elif len(seeds) > 1:
            for seed in seeds:
                self._run_seeds(worker, [seed])
        else:
            self._count(worker, {"seed": seeds[0], **_ending(outcome)})

    def _take(self, worker: Worker, answer: dict[str, Any]) -> None:
        with self._lock:
            for opcode, name, count in answer["coverage"]:
                self.coverage[opcode, name] += count
        for result in answer["results"]:
            self._count(worker, result)

    def _count(self, worker: Worker, result: dict[str, Any]) -> None:
        with self._lock:
            self.programs += 1
            self.kinds[result["kind"]] += 1
            if "xla" in result:
                self.xla[result["xla"]] += 1
        if result["kind"] != "ok":
            self._keep(worker, result["seed"], result["kind"], result["detail"])

    def _keep(self, worker: Worker, seed: int, kind: str, detail: str) -> None:
        """Makes a failing program small, and files it under its signature."""
        module, arguments = self._small(worker, draw(seed, self.task), kind, seed)
        opcodes = sorted({i.opcode for i in module.entry.instructions} - _PLUMBING)
        signature = "-".join([kind, *opcodes[:3]])
        with self._lock:
            known = self.failures.get(signature)
            if known is not None:
                known.seeds.append(seed)
                return
            command = self._write(f"{signature}-{seed}", module, arguments, kind, seed)
            failure = CampaignFailure(signature, detail, command, module.instruction_count, [seed])
            self.failures[signature] = failure
        self.report(f"seed {seed}: {detail[:400]}\n  {command}")

    def _small(self, worker: Worker, case: Case, kind: str, seed: int) -> Case:
        if kind == "evaluator":
            return case
        level = self.task.level_of(seed)

        def same(module: HloModule, arguments: Sequence[Value]) -> bool:
            outcome = worker.call(self.task.request(level, module, arguments))
            return _ended(outcome)["kind"] == kind

        reduction = reduce_module(*case, same, budget_s=self.reduce_s)
        return reduction.module, reduction.arguments

    def _write(
        self, name: str, module: HloModule, arguments: Sequence[Value], kind: str, seed: int
    ) -> str:
        """Writes program and arguments; the command that repeats what is wrong."""
        files = write_case(self.out, name, module, arguments)
        if kind.startswith("xla-"):
            chosen = "".join(f" --{k} {v}" for k, v in _options(self.task))
            return f"python -m xladev.testing.fuzz --programs 1 --seed {seed}{chosen}"
        level = f"optimization_level={self.task.level_of(seed)}"
        words = case_words(files, self.task.platform, self.task.against, [level])
        if module.header.replica_count > 1:
            words = [*(f"{k}={v}" for k, v in _environment().items()), *words]
        return shlex.join(words)

    def summary(self) -> str:
        """The table of opcodes by element type, counts, and a line per failure."""
        ends = ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        lines = [*table(self.coverage), f"{self.programs} programs: {ends or 'none'}"]
        lines += [f"  XLA: {n} {answer}" for answer, n in self.xla.most_common(30)]
        for failure in self.failures.values():
            lines.append(f"  {failure.signature}: {len(failure.seeds)} programs, such as seeds")
            lines[-1] += f" {failure.seeds[:6]}\n    {failure.command}"
        return "\n".join(lines)


def _environment() -> dict[str, str]:
    """Several virtual devices."""
    names = ("XLADEV_CPU_DEVICES", "XLADEV_INTERPRETER_DEVICES")
    return {name: os.environ.get(name, _DEVICES) for name in names}


def _options(task: Task) -> list[tuple[str, str]]:
    """What tells a task from the default one, as options of the command."""
    chosen = [("xla", task.xla), ("opcodes", ",".join(task.opcodes)), ("steps", task.steps)]
    chosen += [("level", task.level)]
    return [(name, json.dumps(v) if isinstance(v, int) else v) for name, v in chosen if v]


def _ended(outcome: Outcome) -> dict[str, Any]:
    """Kind and detail of a call about one case."""
    if outcome.status is not Status.OK:
        return _ending(outcome)
    answer: dict[str, Any] = unpack(outcome.value)[0]["results"][0]
    return answer


def _ending(outcome: Outcome) -> dict[str, Any]:
    return {"kind": outcome.status.value, "detail": outcome.detail[-600:]}
