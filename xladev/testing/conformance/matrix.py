"""The matrix opcode x element type: which cells the suite has, and what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from xladev.hlo.dtype import ARRAY_TYPES
from xladev.hlo.opset import OPSET
from xladev.testing.conformance.case import load_cases
from xladev.testing.conformance.location import is_case_file, suite_folder
from xladev.testing.conformance.status import CaseResult, CaseStatus

Cell = tuple[str, str]
"""Opcode and element type."""

_WORST_FIRST = (
    CaseStatus.FAIL,
    CaseStatus.ERROR,
    CaseStatus.EXPECTED_FAILURE,
    CaseStatus.UNSUPPORTED,
    CaseStatus.WAIVED,
    CaseStatus.FALLBACK,
    CaseStatus.PASS,
)
COLUMNS: tuple[str, ...] = tuple(t.name for t in ARRAY_TYPES)


@dataclass(frozen=True, slots=True)
class CoverageMatrix:
    """All cells of one run.

    Attributes:
        rows: opcodes, in the order of the opset.
        verdicts: worst status of each cell that was run.
        counts: cases run in each cell, by status.
        wanted: cells that the suite has cases for.
        exempt: why an opcode has no row of cells.
    """

    rows: tuple[str, ...]
    verdicts: Mapping[Cell, CaseStatus]
    counts: Mapping[Cell, Counter[CaseStatus]]
    wanted: frozenset[Cell]
    exempt: Mapping[str, str]

    @property
    def empty(self) -> tuple[Cell, ...]:
        """Cells that have cases and were not run."""
        return tuple(sorted(self.wanted - self.verdicts.keys()))

    @property
    def bare(self) -> tuple[str, ...]:
        """Opcodes without any case, and without a reason for that."""
        covered = {opcode for opcode, _ in self.wanted}
        return tuple(r for r in self.rows if r not in covered and r not in self.exempt)


def matrix_of(results: Iterable[CaseResult]) -> CoverageMatrix:
    """The matrix of a run."""
    found: dict[Cell, list[CaseStatus]] = {}
    for result in results:
        if result.opcode and result.dtype:
            found.setdefault((result.opcode, result.dtype), []).append(result.status)
    return CoverageMatrix(
        tuple(OPSET),
        {cell: worst(statuses) for cell, statuses in found.items()},
        {cell: Counter(statuses) for cell, statuses in found.items()},
        suite_cells(),
        {name: op.exempt for name, op in OPSET.items() if op.exempt and name != "parameter"},
    )


def worst(statuses: Sequence[CaseStatus]) -> CaseStatus:
    """The verdict that matters most."""
    return min(statuses, key=_WORST_FIRST.index)


@cache
def suite_cells() -> frozenset[Cell]:
    """The cells that the suite's files have cases for."""
    return frozenset(
        (case.opcode, case.dtype)
        for path in sorted(suite_folder().glob("*.py"))
        if is_case_file(path)
        for case in load_cases(path)
        if case.opcode and case.dtype
    )
