"""The rows of `benchmarks/rows.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROWS = Path(__file__).parents[1] / "rows.toml"
FAMILIES = ("kernels", "layers", "programs", "fft", "linalg", "science")
PROGRAM = "program"
"""Kind of the rows whose module and arguments are files."""
_SEVERAL_DEVICES = {"collectives_shard_map": 4}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing measured.

    Attributes:
        name: unique.
        family: one of `FAMILIES`, or ``sweep``.
        kind: its function, or `PROGRAM`.
        parameters: of the function.
    """

    name: str
    family: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def stem(self) -> str:
        """The name, fit for a file."""
        return re.sub(r"[^A-Za-z0-9]+", "-", f"{self.family} {self.name}").strip("-")


def read_rows(path: Path = ROWS) -> list[Row]:
    """All rows but those of sweeps, family by family.

    Raises:
        ValueError: two rows of one name.
    """
    data = tomllib.loads(path.read_text())
    rows: list[Row] = []
    for family in FAMILIES:
        rows += [_row(name, family, facts) for name, facts in data[family].items()]
    rows += [
        Row(name, "programs", PROGRAM, {"devices": _SEVERAL_DEVICES.get(name, 1)})
        for name in data["files"]["names"]
    ]
    stems = [row.stem for row in rows]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if twice:
        raise ValueError(f"{path.name}: two rows share a name: {', '.join(twice)}")
    return rows


def read_sweeps(path: Path = ROWS) -> list[Row]:
    """Rows of time against size."""
    rows: list[Row] = []
    for name, sweep in tomllib.loads(path.read_text())["sweeps"].items():
        for size in sweep["sizes"]:
            parameters = dict.fromkeys(sweep["of"], size)
            shown = "x".join(map(str, size)) if isinstance(size, list) else size
            rows.append(Row(f"{name} {shown}", "sweep", sweep["kind"], parameters))
    return rows


def chosen(rows: Iterable[Row], families: Iterable[str], pattern: str) -> list[Row]:
    """Rows of some families whose name has a match of a regular expression."""
    wanted = set(families)
    return [r for r in rows if r.family in wanted and re.search(pattern, r.name)]


def _row(name: str, family: str, facts: Mapping[str, Any]) -> Row:
    parameters = {k: v for k, v in facts.items() if k != "kind"}
    return Row(name, family, facts["kind"], parameters)
