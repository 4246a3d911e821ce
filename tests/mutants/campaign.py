"""Runs mutants: which cases each meets in which order, what became of it, what is kept."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tests.mutants.lines import BATCH, CACHE, LineMap
from tests.mutants.sites import ROOT, Site
from xladev.testing.worker import Outcome, Status, Worker

ROUNDS = (8, 40, 100)
"""Cases that a mutant meets: few at first, more if it survives them."""

CALL_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        status: caught, survived, declined (right results, but the host's), or uncovered.
        case: that caught it.
        opcode: what the report names.
        detail: what the report says.
        met: cases that it met.
        seconds: the whole of it.
    """

    status: str
    case: str = ""
    opcode: str = ""
    detail: str = ""
    met: int = 0
    seconds: float = 0.0


def mutant_worker() -> Worker:
    """A worker for `server.serve`."""
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return Worker("tests.mutants.server:serve", timeout_s=CALL_SECONDS, environment=environment)


def ask(worker: Worker, **task: Any) -> dict[str, Any]:
    """One request to the server.

    Raises:
        RuntimeError: the server itself, not a fork, is gone.
    """
    outcome: Outcome = worker.call(json.dumps(task).encode())
    if outcome.status is not Status.OK:
        raise RuntimeError(f"the server of mutants: {outcome.status.value}: {outcome.detail}")
    answer: dict[str, Any] = json.loads(outcome.value)
    return answer


def run_cases(worker: Worker, plant: dict[str, Any], backend: str, cases: Sequence[str]) -> Verdict:
    """The verdict of some cases, in their order."""
    answer = ask(worker, plant=plant, backend=backend, cases=list(cases))
    seconds = answer["seconds"]
    results = [r for r in answer["results"] if "start" not in r]
    started = [r["start"] for r in answer["results"] if "start" in r]
    for result in results:
        if result["status"] in ("fail", "error", "unsupported"):
            named = result.get("opcode", "")
            detail = result.get("detail", "").strip().splitlines()
            text = detail[-1 if "Traceback" in detail[0] else 0] if detail else ""
            return Verdict("caught", result["id"], named, text, len(results), seconds)
    if answer["end"] != "done":
        case = started[-1] if started else ""
        return Verdict("caught", case, "", f"the backend {answer['end']}", len(started), seconds)
    hosted = [r["id"] for r in results if r["status"] == "fallback"]
    return Verdict("survived", detail=json.dumps(hosted), met=len(results), seconds=seconds)


def chosen_cases(site: Site, known: LineMap, seed: int = 0) -> list[str]:
    """Cases that run a mutant's line: of every opcode in turn, special ones and quick ones first.

    Opcodes that the line names come first, then those all of whose cases run it.
    """
    covering = known.covering(site)
    groups: dict[str, list[int]] = {}
    for n in covering:
        groups.setdefault(known.opcodes[n], []).append(n)
    sizes = {o: known.opcodes.count(o) for o in groups}
    draw = random.Random(f"{seed} {site.id}")
    for members in groups.values():
        draw.shuffle(members)
        members.sort(key=lambda n: (not known.on_device[n], known.seconds[n] > 0.5))
    text = (ROOT / site.file).read_text("utf-8").splitlines()[site.line - 1]
    order = sorted(groups, key=lambda o: (-len(groups[o]) / sizes[o], draw.random()))
    named = [groups[o][:12] for o in order if f'"{o}"' in text]
    numbers = [*_in_turn(named), *_in_turn([groups[o] for o in order])]
    return list(dict.fromkeys(known.cases[n] for n in numbers))


def _in_turn(lists: Sequence[list[int]]) -> Iterator[int]:
    for at in range(max(map(len, lists), default=0)):
        yield from (members[at] for members in lists if at < len(members))


def run_site(worker: Worker, site: Site, known: LineMap, rounds: Sequence[int] = ROUNDS) -> Verdict:
    """The verdict on a mechanical mutant: round after round until a case fails."""
    cases = chosen_cases(site, known)
    if not cases:
        return Verdict("uncovered")
    start, seconds, hosted = 0, 0.0, False
    on_device = dict(zip(known.cases, known.on_device, strict=True))
    for size in rounds:
        batch = cases[start : start + size]
        if not batch:
            break
        found = run_cases(worker, {"site": asdict(site)}, site.platform, batch)
        seconds += found.seconds
        if found.status == "caught":
            return replace(found, met=start + found.met, seconds=seconds)
        hosted = hosted or any(on_device[c] for c in json.loads(found.detail))
        start += len(batch)
    status = "declined" if hosted else "survived"
    return Verdict(status, met=start, seconds=seconds)


def traced(worker: Worker, platform: str, cases: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """Results of all cases with the lines that each ran, batch by batch; resumed where stopped."""
    folder = CACHE / f"trace-{platform}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(0, len(cases), BATCH):
        path = folder / f"{number}.json"
        if not path.is_file():
            batch = cases[number : number + BATCH]
            answer = ask(
                worker, plant={}, backend=platform, cases=batch, trace=True, stop=False, seconds=300
            )
            path.write_text(json.dumps(answer["results"]))
        yield [r for r in json.loads(path.read_text()) if "start" not in r]
