"""Makes files from seeds, sends them to a worker, counts how they end and keeps the findings."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.damage import damaged_bytes, damaged_text
from tests.fuzz.messages import changed_message
from tests.fuzz.programs import changed_program
from tests.fuzz.seeds import Seeds
from tests.fuzz.whole_path import Answer, answers_of
from xladev.errors import XladevError
from xladev.hlo.proto import read_module, write_module
from xladev.testing.worker import Outcome, Status, Worker

MEMORY_NBYTES = 6 << 30
TIMEOUT_S = 150.0
_UNBUILDABLE = (
    XladevError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError, MemoryError,
)  # fmt: skip


def whole_path_worker(timeout_s: float = TIMEOUT_S) -> Worker:
    """A worker for `whole_path.take`."""
    return Worker(
        "tests.fuzz.whole_path:take", timeout_s=timeout_s, memory_nbytes=MEMORY_NBYTES,
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One file that xladev did not stand.

    Attributes:
        signature: what tells one kind from another.
        data: the file.
        number: of the mutant, which with the campaign's seed makes it again.
        text: traceback, signal or message.
    """

    signature: str
    data: bytes
    number: int
    text: str

    def save(self, folder: Path) -> Path:
        """Writes the file, and what happened beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = "".join(c if c.isalnum() else "-" for c in self.signature)[:80]
        path = folder / f"{stem}-{self.number}.pb"
        path.write_bytes(self.data)
        path.with_suffix(".txt").write_text(f"{self.signature}\n\n{self.text}\n")
        return path


@dataclass
class Tally:
    """What became of all mutants so far."""

    mutants: int = 0
    ends: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])


def mutant(seeds: Seeds, draw: random.Random) -> bytes:
    """One damaged file."""
    kind = draw.random()
    if kind < 0.08:
        return damaged_bytes(seeds.proto(draw), draw)
    if kind < 0.25:
        return damaged_text(seeds.text(draw), draw).encode("utf-8", "surrogatepass")
    data = seeds.proto(draw)
    try:
        if kind < 0.5:
            return changed_message(data, draw)
        return write_module(changed_program(read_module(data), draw))
    except _UNBUILDABLE:
        return damaged_bytes(data, draw)


def campaign(seeds: Seeds, seed: int, start: int, worker: Worker) -> Iterator[Tally]:
    """Yields the tally after each mutant, from number `start` on; never ends."""
    tally = Tally()
    number = start
    while True:
        data = mutant(seeds, random.Random(f"{seed} {number}"))
        outcome = worker.call(number.to_bytes(8, "little") + data)
        tally.mutants += 1
        for name, finding in _judged(outcome, data, number):
            tally.ends[name] += 1
            if finding is not None:
                tally.findings.append(finding)
        yield tally
        number += 1


def _judged(outcome: Outcome, data: bytes, number: int) -> Iterator[tuple[str, Finding | None]]:
    if outcome.status is Status.OK:
        for answer in answers_of(outcome.value):
            yield _name(answer), _finding(answer, data, number)
        return
    stage = _last_stage(outcome.detail)
    late = outcome.status is Status.TIMEOUT or "SIGPROF" in outcome.detail
    if late and stage.startswith("run"):
        yield f"{stage}: still running", None  # a loop that its program never leaves is no fault
        return
    signature = f"{'timeout' if late else outcome.status.value} in {stage}"
    yield signature, Finding(signature, data, number, outcome.detail)


def _name(answer: Answer) -> str:
    if answer.end == "ran":
        return answer.stage.replace("run", "ran on")
    return f"{answer.stage}: {answer.end} {answer.code}"


def _finding(answer: Answer, data: bytes, number: int) -> Finding | None:
    if answer.end != "broken":
        return None
    return Finding(answer.signature, data, number, answer.text)


def _last_stage(detail: str) -> str:
    """The stage that the worker entered last, from what it wrote to standard error."""
    stages = [line.partition(" ")[2] for line in detail.splitlines() if line.startswith("@")]
    return stages[-1] if stages else "start"
