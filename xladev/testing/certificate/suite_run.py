"""Runs the suite, or some of its cases, as `pytest --pyargs xladev.conformance` in a child."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from xladev.errors import ExecutionError, UsageError
from xladev.testing.conformance.status import CaseResult

REPORT = "conformance.json"
_TAIL = 15


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What a run of the suite left.

    Attributes:
        results: by case.
        declarations: what the backend declared, as the report has it.
        report: path of conformance.json.
    """

    results: dict[str, CaseResult]
    declarations: dict[str, Any]
    report: Path


@dataclass(frozen=True, slots=True)
class Request:
    """Which cases run, how, and where the report goes.

    Attributes:
        backend: platform name.
        folder: of the report.
        seed: of the inputs.
        tighten: factor on tolerances, at most 1.
        waivers: file of declarations.
        levels: tiers whose cases run.
        cases: ids of the only cases that run; none means all of the levels.
        quiet: True for no output but errors.
        jobs: processes that share the cases, each of which opens the devices.
    """

    backend: str
    folder: Path
    seed: int = 0
    tighten: float = 1.0
    waivers: Path | None = None
    levels: int = 1
    cases: tuple[str, ...] = ()
    quiet: bool = False
    jobs: int = 1


def run_suite(request: Request) -> SuiteRun:
    """Runs it; failing cases are results, not errors.

    Raises:
        ExecutionError: pytest did not get as far as a report.
        UsageError: several jobs, and no pytest-xdist, or fewer than one.
    """
    check_jobs(request.jobs)
    report = request.folder.resolve() / REPORT
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *_arguments(request, report.parent)]
    done = subprocess.run(
        command,
        cwd=Path(sys.prefix),  # no project of the caller's has a say
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if request.quiet else None,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    try:
        return read_report(report)
    except (OSError, ValueError, KeyError, TypeError) as e:
        shown = "\n".join((done.stdout or "").splitlines()[-_TAIL:])
        raise ExecutionError(
            "the conformance suite left no report",
            why=f"pytest ended with {done.returncode}: {e}\n{shown}".rstrip(),
            hint="pytest --pyargs xladev.conformance --backend=" + request.backend,
        ) from e


def check_jobs(jobs: int) -> None:
    """Refuses a number of processes that cannot be started.

    Raises:
        UsageError: fewer than one, or several without pytest-xdist.
    """
    if jobs < 1:
        raise UsageError(f"--jobs is {jobs}", why="it is a number from 1 on")
    if jobs > 1 and find_spec("xdist") is None:
        raise UsageError(
            f"--jobs {jobs} needs pytest-xdist, which is not installed",
            hint="pip install pytest-xdist, or leave out --jobs",
        )


def read_report(report: Path) -> SuiteRun:
    """What a conformance.json says.

    Raises:
        OSError, ValueError, KeyError, TypeError: it is none.
    """
    data = json.loads(report.read_text("utf-8"))
    results = [CaseResult.from_json(case) for case in data["cases"]]
    return SuiteRun({r.id: r for r in results}, data["declarations"], report)


def _arguments(request: Request, folder: Path) -> Sequence[str]:
    found = [*_selected(request), f"--backend={request.backend}", f"--report={folder}"]
    found += [f"--case-seed={request.seed}", f"--tighten={request.tighten!r}"]
    found += ["-p", "no:cacheprovider", "-q", "--no-header", "--tb=no", "-r", "fE"]
    if request.jobs > 1:
        found += ["-n", str(request.jobs)]
    if request.waivers is not None:
        found.append(f"--waivers={request.waivers.resolve()}")
    return found


def _selected(request: Request) -> list[str]:
    if request.cases:
        return ["--pyargs", *(f"xladev.conformance.{case}" for case in request.cases)]
    wanted = " or ".join(f"tier{n}" for n in range(1, request.levels + 1))
    return ["--pyargs", "xladev.conformance", "-k", wanted]
