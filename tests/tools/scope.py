"""Which tests a run takes: all, those that `make test` runs, or the rest, for CI.

`make test` leaves out what is marked `long` or `serial`. A test is `long` if it takes more than
`LONG_S` seconds of processor time, or is one of several that together do. So a new test is in
`make test` unless its author marks it, and the end of each such run names those that should be.
Every area must keep a test that is neither: each path of the table in docs/reference/testing.md,
and each folder of tests.

`make test` needs few packages, and tests that want more are skipped. It notes which (`--skipped`),
so that CI can run these too, where all packages are: then each test has been run somewhere.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AREAS = ROOT / "docs" / "reference" / "testing.md"
SCOPES = ("all", "quick", "rest")
LEFT_OUT = ("long", "serial")
LONG_S = 2.0
"""Seconds of processor time, children included, on a machine like CI's."""
LONG_CALLS = frozenset({"run_jax"})
"""Functions that a test need only name to be long: they import JAX in a process of its own."""
SHOWN = 10
MISSING = pytest.StashKey[list[str]]()
"""Areas of which `make test` has nothing; only a run of all files knows."""


def add_options(parser: pytest.Parser) -> None:
    """Add --scope and --skipped."""
    parser.addoption(
        "--scope",
        default="all",
        choices=SCOPES,
        help="all tests, those of `make test` (quick), or what it leaves out (rest)",
    )
    parser.addoption(
        "--skipped",
        type=Path,
        metavar="FILE",
        help="quick: write what was skipped there; rest: run that too",
    )


HEADERS = {
    "quick": (
        "this is `make test`: some tests of every area, about 6 minutes on two cores",
        "left out, for CI (`make rest`): tests marked long or serial; the dots say how far it is",
    ),
    "rest": ("this is `make rest`: what `make test` leaves out, for CI",),
}


def describe(config: pytest.Config) -> list[str]:
    """The header's lines about the scope."""
    return list(HEADERS.get(config.option.scope, ()))


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the items that the scope does not have, in place; note areas that `make test` lacks."""
    quick = [i for i in items if not _is_left_out(i)]
    if _is_whole(config):
        config.stash[MISSING] = missing(AREAS.read_text("utf-8"), _paths(items), _paths(quick))
    scope = config.option.scope
    if scope == "all":
        return
    keep = quick
    if scope == "rest":
        noted = config.option.skipped
        skipped = set(noted.read_text("utf-8").splitlines()) if noted else set()
        keep = [i for i in items if _is_left_out(i) or skipped & _names(i)]
    kept = set(map(id, keep))
    drop = [i for i in items if id(i) not in kept]
    items[:] = keep
    if drop:
        config.hook.pytest_deselected(items=drop)


def _names(item: pytest.Item) -> set[str]:
    """What may have been skipped: the test, or its file as a whole."""
    return {item.nodeid, item.nodeid.partition("::")[0]}


def _paths(items: Iterable[pytest.Item]) -> frozenset[str]:
    return frozenset(i.nodeid.partition("::")[0] for i in items)


def _is_left_out(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in LEFT_OUT):
        return True
    code = getattr(getattr(item, "function", None), "__code__", None)
    return code is not None and not LONG_CALLS.isdisjoint(code.co_names)


def _is_whole(config: pytest.Config) -> bool:
    """True unless the command line names files, or words or markers to choose by.

    Processes of xdist are given `testpaths` as if the command line named them.
    """
    given = {(config.rootpath / a).resolve() for a in config.args}
    whole = {(config.rootpath / a).resolve() for a in config.getini("testpaths")}
    return given == whole and not (config.option.keyword or config.option.markexpr)


def missing(page: str, files: frozenset[str], kept: frozenset[str]) -> list[str]:
    """The areas that have tests and keep none.

    Args:
        page: text of the page with the table.
        files: all files of tests.
        kept: those with a test that `make test` runs.
    """
    wanted = {*areas(page), *(_folder(f) for f in files)}
    return [a for a in sorted(wanted) if _under(a, files) and not _under(a, kept)]


def _under(area: str, files: frozenset[str]) -> bool:
    return any(f.startswith(area) for f in files)


def _folder(file: str) -> str:
    """``tests/fuzz/``, ``tests/unit/hlo/``: the folder that a file of tests belongs to."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: 3 if parts[:2] == ["tests", "unit"] else 2]) + "/"


def areas(page: str) -> list[str]:
    """Paths in the last column of the page's first table."""
    rows = [line for line in page.split("\n## ")[0].splitlines() if line.startswith("| ")]
    found: list[str] = []
    for row in rows:
        for path in re.findall(r"`([^`]+)`", row.strip("| ").rpartition(" | ")[2]):
            parent = found[-1].rstrip("/").rpartition("/")[0] if found else ""
            found.append(path if path.startswith("tests/") else _continued(path, parent))
    return found


def _continued(path: str, parent: str) -> str:
    """``.../proto/`` and ``test_x.py`` stand for paths beside the one before them."""
    return f"{parent}/{path.removeprefix('.../')}"


# How long tests take


def processor_s() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Clock:
    """Measures each test where it runs, and reports where reports come together."""

    def __init__(self, skipped: Path | None = None) -> None:
        self._start = time.monotonic()
        self._used: dict[str, float] = {}
        self._skipped: set[str] = set()
        self._skipped_to = skipped
        self._before: float | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Gives each phase's report what was used since the one before it."""
        report = yield
        now = processor_s()
        report.processor_s = 0.0 if self._before is None else now - self._before  # type: ignore[attr-defined]
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up the phases of a test."""
        used = getattr(report, "processor_s", 0.0)
        self._used[report.nodeid] = self._used.get(report.nodeid, 0.0) + used
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes files that are skipped as a whole."""
        if report.skipped:
            self._skipped.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes what was skipped, if asked to, where reports come together."""
        if self._skipped_to is not None and not hasattr(session.config, "workerinput"):
            lines = (f"{name}\n" for name in sorted(self._skipped))
            self._skipped_to.write_text("".join(lines), "utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says what was run, what was not, and which tests should be marked."""
        for line in summary(self._used, time.monotonic() - self._start):
            terminalreporter.write_line(line)


def summary(used: dict[str, float], wall_s: float) -> list[str]:
    """Lines after a run of `make test`.

    Args:
        used: seconds of processor time by test.
        wall_s: seconds that all took.
    """
    folders = {n.partition("::")[0].rpartition("/")[0] for n in used}
    slow = sorted(((s, n) for n, s in used.items() if s > LONG_S), reverse=True)
    return [
        f"make test: {len(used)} tests in {len(folders)} folders, {wall_s / 60:.1f} minutes; "
        "`make rest` runs what was left out, `make full` everything",
        *(f"{s:5.1f} s of processor time, to be marked long: {n}" for s, n in slow[:SHOWN]),
    ]
