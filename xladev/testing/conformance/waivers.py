"""What a backend declares about itself, in writing: unsupported, known to fail, waived.

A TOML file holds three lists, each entry with an ``id`` (shell pattern over ids of cases) and a
``reason``::

    [[unsupported]]
    id = "linalg::*-f64"
    reason = "the device has no f64"

    [[expected_failure]]
    id = "numerics::tan-f32-*"
    reason = "argument reduction is wrong beyond 2**20; fixed in firmware 3"

    [[waiver]]
    id = "convolution::*"
    reason = "accumulates in bf16"
    tolerance = 16.0 # times what the suite allows
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from xladev.errors import FormatError

_KEYS = {"unsupported", "expected_failure", "waiver"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One declaration.

    Attributes:
        id: shell pattern over ids.
        reason: why, for readers of the report.
        tolerance: factor on what the suite allows; waivers only.
    """

    id: str
    reason: str
    tolerance: float = 1.0


@dataclass(frozen=True, slots=True)
class Declarations:
    """All that a backend declares."""

    unsupported: tuple[Entry, ...] = ()
    expected_failures: tuple[Entry, ...] = ()
    waivers: tuple[Entry, ...] = ()

    def find(self, entries: tuple[Entry, ...], case_id: str) -> Entry | None:
        """The first entry that is about a case."""
        return next((e for e in entries if fnmatchcase(case_id, e.id)), None)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Plain data for the report."""
        return {
            "unsupported": [{"id": e.id, "reason": e.reason} for e in self.unsupported],
            "expected_failure": [{"id": e.id, "reason": e.reason} for e in self.expected_failures],
            "waiver": [
                {"id": e.id, "reason": e.reason, "tolerance": e.tolerance} for e in self.waivers
            ],
        }


NOTHING = Declarations()


def read_declarations(path: Path) -> Declarations:
    """The declarations in a file.

    Raises:
        FormatError: no such file, no TOML, an unknown key, or an entry without id or reason.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise FormatError(
            f"cannot read the declarations in {path}",
            why=str(e),
            hint="docs/how-to/publish-and-certify.md shows such a file",
        ) from e
    unknown = data.keys() - _KEYS
    if unknown:
        raise FormatError(
            f"{path} has a list called {min(unknown)!r}", hint=f"one of {', '.join(sorted(_KEYS))}"
        )
    return Declarations(
        _entries(path, data, "unsupported"),
        _entries(path, data, "expected_failure"),
        _entries(path, data, "waiver", factor=True),
    )


def _entries(
    path: Path, data: Mapping[str, Any], key: str, *, factor: bool = False
) -> tuple[Entry, ...]:
    rows = data.get(key, [])
    if not isinstance(rows, list):
        raise FormatError(f"{key} in {path} is no list", hint=f"write [[{key}]]")
    return tuple(_entry(path, key, row, factor) for row in rows)


def _entry(path: Path, key: str, row: Any, factor: bool) -> Entry:
    allowed = {"id", "reason", "tolerance"} if factor else {"id", "reason"}
    if not isinstance(row, dict) or not row.keys() <= allowed:
        raise FormatError(f"an entry of {key} in {path} is {row!r}", hint=f"keys: {allowed}")
    texts = [row.get("id"), row.get("reason")]
    if any(not isinstance(text, str) or not text.strip() for text in texts):
        raise FormatError(f"an entry of {key} in {path} lacks an id or a reason", why=f"{row!r}")
    if "tolerance" not in row:
        return Entry(row["id"], row["reason"], float("inf") if factor else 1.0)
    tolerance = row["tolerance"]
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or tolerance <= 0:
        raise FormatError(f"tolerance of {row['id']!r} in {path} is {tolerance!r}")
    return Entry(row["id"], row["reason"], float(tolerance))
