"""The report of one run as plain data: what was certified, how, and what became of each case."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from xladev import __version__
from xladev.testing.conformance.location import suite_folder
from xladev.testing.conformance.matrix import matrix_of
from xladev.testing.conformance.report_html import html_page
from xladev.testing.conformance.report_markdown import markdown
from xladev.testing.conformance.settings import Settings
from xladev.testing.conformance.status import Result, Status
from xladev.testing.conformance.summary import coverage_text, next_step, succeeded

FORMAT = 1
"""Version of conformance.json."""


def report_data(results: Sequence[Result], settings: Settings) -> dict[str, Any]:
    """What `conformance.json` holds."""
    ordered = sorted(results, key=lambda r: r.id)
    counts = Counter(r.status for r in ordered)
    return {
        "format": FORMAT,
        "backend": settings.backend,
        "succeeded": succeeded(ordered),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "xladev": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "suite": suite_digest(),
        "case_seed": settings.seed,
        "tighten": settings.tighten,
        "declarations": settings.declarations.to_json(),
        "counts": {s.value: counts[s] for s in Status},
        "coverage": coverage_text(ordered),
        "next": next_step(ordered, settings),
        "cases": [r.to_json() for r in ordered],
    }


def suite_digest() -> str:
    """SHA-256 over names and contents of the suite's files."""
    digest = hashlib.sha256()
    for path in sorted(suite_folder().glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def write_report(folder: Path, results: Sequence[Result], settings: Settings) -> list[Path]:
    """Writes the report in each format; their paths.

    Raises:
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
