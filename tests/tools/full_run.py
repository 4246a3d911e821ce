"""Runs every test, chunk by chunk, and writes docs/reference/full-run.json.

A run that was stopped goes on with the chunks that its commit still lacks. Uncommitted changes are
refused, since the result would belong to no commit.

    python -m tests.tools.full_run [--jobs 2] [--fresh]
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.tools import counts
from tests.tools.parts import PARTS

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "docs" / "reference" / "full-run.json"
CACHE = ROOT / ".cache" / "full-run"
PROGRAMS = "tests/acceptance"
TOGETHER = 2
# pytest's exit codes of a run that came to its end: passed, failed, nothing collected.
ENDED = (0, 1, 5)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One call of pytest, with its own report."""

    name: str
    arguments: tuple[str, ...]


def chunks(jobs: int) -> list[Chunk]:
    """The calls that run each test once, none much longer than ten minutes on two cores."""
    parallel = ("-n", str(jobs))
    long = ("--part=none", "-m", "long and not serial", *parallel)
    rotating = ("--only-rotating", "-m", "not serial", *parallel)
    return [
        Chunk("short", ("--part=none", "-m", "not long and not serial", *parallel)),
        Chunk("long", (f"--ignore={PROGRAMS}", *long)),
        Chunk("long-programs", (PROGRAMS, *long)),
        Chunk("serial", ("--part=all", "-m", "serial")),
        *(Chunk(f"part-{p.replace(',', '-')}", (f"--part={p}", *rotating)) for p in _parts()),
    ]


def _parts() -> list[str]:
    """The rotating parts, some to a call: to find the tests takes a call half a minute."""
    numbers = [str(i) for i in range(PARTS)]
    return [",".join(numbers[i : i + TOGETHER]) for i in range(0, PARTS, TOGETHER)]


def run_chunk(chunk: Chunk, folder: Path) -> Path:
    """The report of one chunk: the one that is there, or that of a run made now."""
    report, draft = folder / f"{chunk.name}.xml", folder / f"{chunk.name}.part"
    if report.is_file():
        print(f"{chunk.name}: done before", flush=True)
        return report
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={draft}", *chunk.arguments]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status not in ENDED:
        sys.exit(f"{chunk.name}: pytest ended with status {status}; `make full` goes on from here")
    draft.rename(report)
    print(f"{chunk.name}: {time.monotonic() - start:.0f} s", flush=True)
    return report


def summarise(commit: str, reports: list[Path]) -> dict[str, object]:
    """What the result file holds."""
    outcomes: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for report in reports:
        some_outcomes, some_passed = counts.read_report(report)
        outcomes += some_outcomes
        passed += some_passed
    return {
        "commit": commit,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "outcomes": {name: outcomes[name] for name in ("passed", "failed", "skipped")},
        "counts": dict(sorted(passed.items())),
    }


def committed() -> str:
    """HEAD's hash; exits where the files, but for an earlier result, differ from it."""
    if _git("status", "--porcelain", "--", ".", f":!{RESULT.relative_to(ROOT)}"):
        sys.exit("there are uncommitted changes: commit first, the result belongs to a commit")
    return _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    """Run what is missing, write the result; 1 if a test failed or a count fell short."""
    parser = argparse.ArgumentParser(description="run every test, resumably")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    options = parser.parse_args()
    commit = committed()
    folder = CACHE / commit
    if options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    reports = [run_chunk(chunk, folder) for chunk in chunks(options.jobs)]
    return report_result(summarise(commit, reports))


def report_result(result: dict[str, object]) -> int:
    """Write and print the result, with the counts that fell short."""
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    wanted = counts.read_ratchet(counts.RATCHET.read_text("utf-8"))
    missing = counts.shortfalls(wanted, Counter(result["counts"]))
    print(json.dumps(result, indent=2), *missing, sep="\n")
    return 1 if missing or result["outcomes"]["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
