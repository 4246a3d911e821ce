"""The report of one run as plain data: what was certified, how, and what became of each case."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from xladev import __version__
from xladev.testing.certificate.must_pass import read_must_pass
from xladev.testing.conformance.location import suite_folder
from xladev.testing.conformance.matrix import matrix_of
from xladev.testing.conformance.report_html import html_page
from xladev.testing.conformance.report_markdown import markdown
from xladev.testing.conformance.settings import Settings
from xladev.testing.conformance.single_op import read_single_op, share_of
from xladev.testing.conformance.status import CaseResult, CaseStatus
from xladev.testing.conformance.summary import coverage_text, next_step, succeeded

FORMAT = 2
"""Version of conformance.json."""


def report_data(results: Sequence[CaseResult], settings: Settings) -> dict[str, Any]:
    """What `conformance.json` holds.

    Raises:
        FormatError: the suite's own lists are damaged.
    """
    ordered = sorted(results, key=lambda r: r.id)
    counts = Counter(r.status for r in ordered)
    suite = read_must_pass(suite_folder())
    return {
        "format": FORMAT,
        "backend": settings.backend,
        "succeeded": succeeded(ordered),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "xladev": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "suite": suite.sha256,
        "suite_version": suite.version,
        "case_seed": settings.seed,
        "tighten": settings.tighten,
        "declarations": settings.declarations.to_json(),
        "counts": {s.value: counts[s] for s in CaseStatus},
        "coverage": coverage_text(ordered),
        "single_op": share_of(ordered, read_single_op(suite_folder())).to_json(),
        "next": next_step(ordered, settings),
        "cases": [r.to_json() for r in ordered],
    }


def write_report(folder: Path, results: Sequence[CaseResult], settings: Settings) -> list[Path]:
    """Writes the report in each format; their paths.

    Raises:
        FormatError: the suite's own lists are damaged.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = report_data(results, settings)
    ordered = sorted(results, key=lambda r: r.id)
    matrix = matrix_of(ordered)
    texts = {
        "conformance.json": json.dumps(data, indent=1),
        "conformance.md": markdown(data, ordered, matrix),
        "conformance.html": html_page(data, ordered, matrix),
    }
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", "utf-8")
    return [folder / name for name in texts]
