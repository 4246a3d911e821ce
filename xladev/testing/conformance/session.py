"""One run of the suite in pytest: collection, results, summary, reports, exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xladev.errors import XladevError
from xladev.testing.conformance.collection import (
    JUDGE,
    RESULT,
    ConformanceFile,
    deselect_portion,
)
from xladev.testing.conformance.judge import SERVE, Judge
from xladev.testing.conformance.location import is_case_file
from xladev.testing.conformance.report import write_report
from xladev.testing.conformance.settings import Settings
from xladev.testing.conformance.status import CaseResult
from xladev.testing.conformance.summary import succeeded, summary_lines
from xladev.testing.conformance.waivers import NOTHING, read_declarations
from xladev.testing.worker import Worker


class SuiteSession:
    """The plugin's hooks for a run that names the suite.

    Attributes:
        results: of all cases so far, in the order in which they ended.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._settings = _settings(config)
        self._worker = Worker(SERVE)
        self.results: list[CaseResult] = []
        config.stash[JUDGE] = Judge(self._worker, self._settings)

    # Collection

    def pytest_report_header(self) -> str:
        """Says what is certified."""
        return f"backend: {self._settings.backend}; case seed: {self._settings.seed}"

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """Files of the suite are tables of cases."""
        return ConformanceFile.at(file_path, parent) if is_case_file(file_path) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keeps the portion that was asked for."""
        if config.option.portion:
            try:
                deselect_portion(config, items, config.option.portion)
            except XladevError as error:
                raise pytest.UsageError(str(error)) from error

    # Results

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes the result that a report carries; under xdist, those of all processes come here."""
        if report.when == "call":
            properties: dict[str, Any] = dict(report.user_properties)
            found = properties.get(RESULT)
            if found is not None:
                self.results.append(CaseResult.from_json(found))

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """A run in which nothing was computed is no success."""
        self._worker.close()
        if _is_controller(self._config) and session.exitstatus == 0:
            collected_only = self._config.option.collectonly
            if not collected_only and not succeeded(self.results):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The summary, by tier, with what to do next."""
        if not self.results:
            return
        terminalreporter.section(f"conformance of {self._settings.backend}")
        for line in summary_lines(self.results, self._settings):
            terminalreporter.write_line(line)
        folder = self._settings.report
        if folder is not None:
            for path in write_report(folder, self.results, self._settings):
                terminalreporter.write_line(f"wrote {path}")


def _is_controller(config: pytest.Config) -> bool:
    """False in a process that xdist started."""
    return not hasattr(config, "workerinput")


def _settings(config: pytest.Config) -> Settings:
    option = config.option
    if not option.backend and not option.collectonly:
        raise pytest.UsageError("the conformance suite needs --backend=NAME, such as --backend=cpu")
    if not 0 < option.tighten <= 1:
        raise pytest.UsageError("--tighten is above 0 and at most 1; loosening takes a waiver")
    try:
        declared = NOTHING if option.waivers is None else read_declarations(option.waivers)
    except XladevError as error:
        raise pytest.UsageError(str(error)) from error
    report = None if option.report is None else option.report.resolve()
    limit = float("inf") if option.case_timeout is None else option.case_timeout
    return Settings(option.backend or "", option.case_seed, option.tighten, declared, report, limit)
