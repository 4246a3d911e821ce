"""Makes pytest's items of the suite's tables: one per case, with the same id wherever it is."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from xladev.errors import OptionError
from xladev.testing.conformance.case import AnyCase, Case, load_cases
from xladev.testing.conformance.judge import Judge
from xladev.testing.conformance.status import CaseResult, CaseStatus

RESULT = "xladev"
"""Key of a case's result among the properties of pytest's report."""

JUDGE: pytest.StashKey[Judge] = pytest.StashKey()


class ConformanceFailure(Exception):
    """A case whose verdict is no success; its text is the report."""


class ConformanceFile(pytest.File):
    """One file of the suite."""

    def collect(self) -> Iterable[ConformanceItem]:
        """One item per case."""
        for case in load_cases(self.path):
            yield ConformanceItem.from_parent(self, name=case.name, case=case)

    @staticmethod
    def at(path: Path, parent: pytest.Collector) -> ConformanceFile:
        """The file, under an id that does not depend on where it is installed."""
        made: ConformanceFile = ConformanceFile.from_parent(
            parent, path=path, nodeid=f"conformance/{path.name}"
        )
        return made


class ConformanceItem(pytest.Item):
    """One case."""

    def __init__(self, *, case: AnyCase, **others: Any) -> None:
        super().__init__(**others)
        self.case = case
        self.case_id = f"{self.path.stem}::{case.name}"
        self.extra_keyword_matches.update((*case.tags, case.opcode, case.dtype, f"tier{case.tier}"))

    def runtest(self) -> None:
        """Judges the case; the result travels with pytest's report."""
        result = self.config.stash[JUDGE].judge(self.case, self.case_id)
        self.user_properties.append((RESULT, result.to_json()))
        if result.status is CaseStatus.UNSUPPORTED:
            pytest.skip(f"unsupported: {result.detail}")
        if result.status is CaseStatus.EXPECTED_FAILURE:
            pytest.xfail(result.detail)
        if not result.status.is_good:
            raise ConformanceFailure(failure_text(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The verdict in words; a traceback only for faults of the machinery."""
        if isinstance(excinfo.value, ConformanceFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """File and id, for pytest's output."""
        return self.path, None, self.case_id

    def describe(self) -> str:
        """The program's text; empty for checks."""
        from xladev.hlo.text import print_module

        return print_module(self.case.module()) if isinstance(self.case, Case) else ""


def failure_text(result: CaseResult) -> str:
    """What the terminal shows of a failed case."""
    program = f", {result.program}" if result.program else ""
    lines = [f"{result.id}{program}: {result.status.value}", result.detail]
    if result.reproduce:
        lines.append(f"run it again: {result.reproduce}")
    return "\n".join(lines)


def deselect_portion(config: pytest.Config, items: list[pytest.Item], portion: str) -> None:
    """Keeps the items whose checksum is K modulo N, in place.

    Raises:
        OptionError: the portion is not spelled K/N.
    """
    first, _, count = portion.partition("/")
    if not first.isdigit() or not count.isdigit() or int(count) <= int(first):
        raise OptionError(f"--portion {portion!r}", why="K/N with K from 0 to N-1")
    keep = [i for i in items if zlib.crc32(i.nodeid.encode()) % int(count) == int(first)]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(keep)])
    items[:] = keep
