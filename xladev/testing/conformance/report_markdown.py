"""The report as Markdown, for people who read it in a repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from xladev.errors import printable
from xladev.runtime.plugins.tiers import TIERS
from xladev.testing.conformance.matrix import COLUMNS, CoverageMatrix
from xladev.testing.conformance.single_op import share_text
from xladev.testing.conformance.status import CaseResult, CaseStatus

_MOST_FAILURES = 50
_SIGNS = {
    CaseStatus.PASS: "ok",
    CaseStatus.FALLBACK: "host",
    CaseStatus.UNSUPPORTED: "no",
    CaseStatus.EXPECTED_FAILURE: "xfail",
    CaseStatus.WAIVED: "waived",
    CaseStatus.FAIL: "**FAIL**",
    CaseStatus.ERROR: "**error**",
}


def markdown(data: dict[str, Any], results: Sequence[CaseResult], matrix: CoverageMatrix) -> str:
    """The whole report."""
    return printable("\n".join(_lines(data, results, matrix)) + "\n")


def _lines(
    data: dict[str, Any], results: Sequence[CaseResult], matrix: CoverageMatrix
) -> Iterator[str]:
    verdict = "passed" if data["succeeded"] else "FAILED"
    yield f"# Conformance of {data['backend']}: {verdict}"
    yield ""
    yield f"xladev {data['xladev']}, {data['date']}, suite {data['suite_version']} "
    yield f"({data['suite'][:12]}), case seed {data['case_seed']}, tolerance x {data['tighten']}."
    yield ""
    yield f"{data['coverage'].capitalize()}; {share_text(data['single_op'])}."
    yield f"Next: {data['next']}"
    yield ""
    yield from _tiers(results)
    yield from _failures(results)
    yield from _fallbacks(results)
    yield from _cut(results)
    yield from _declarations(data["declarations"])
    yield from _matrix(matrix)


def _tiers(results: Sequence[CaseResult]) -> Iterator[str]:
    yield "| tier | " + " | ".join(s.value for s in CaseStatus) + " |"
    yield "|---|" + "--:|" * len(CaseStatus)
    for tier in TIERS:
        counts = Counter(r.status for r in results if r.tier == tier.number)
        if counts:
            cells = " | ".join(str(counts[s]) for s in CaseStatus)
            yield f"| {tier.number} {tier.name} | {cells} |"
    yield ""


def _failures(results: Sequence[CaseResult]) -> Iterator[str]:
    failed = [r for r in results if not r.status.is_good]
    if not failed:
        return
    yield f"## {len(failed)} failures"
    yield ""
    for result in failed[:_MOST_FAILURES]:
        yield f"- `{result.id}` ({result.status.value}): {result.headline}"
        if result.reproduce:
            yield f"  `{result.reproduce}`"
    if len(failed) > _MOST_FAILURES:
        yield f"- and {len(failed) - _MOST_FAILURES} more in conformance.json"
    yield ""


def _fallbacks(results: Sequence[CaseResult]) -> Iterator[str]:
    reasons = fallback_reasons(results)
    if not reasons:
        return
    yield "## On the host"
    yield ""
    yield "| cases | reason |"
    yield "|--:|---|"
    for reason, count in reasons.most_common():
        yield f"| {count} | {reason.replace('|', '/')} |"
    yield ""


def _cut(results: Sequence[CaseResult]) -> Iterator[str]:
    cut = [r for r in results if r.cut]
    if not cut:
        return
    yield "## Cut to the device's memory"
    yield ""
    yield from (f"- `{r.id}`: {r.cut}" for r in cut)
    yield ""


def fallback_reasons(results: Sequence[CaseResult]) -> Counter[str]:
    """Cases by the reason for which some of them ran on the host."""
    return Counter(
        reason for r in results for reason in {f.partition(": ")[2] or f for f in r.fallbacks}
    )


def _declarations(declared: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    rows = [(kind, entry) for kind, entries in declared.items() for entry in entries]
    if not rows:
        return
    yield "## Declared by the backend"
    yield ""
    yield "| kind | cases | tolerance | reason |"
    yield "|---|---|--:|---|"
    for kind, entry in rows:
        yield f"| {kind} | `{entry['id']}` | {entry.get('tolerance', '')} | {entry['reason']} |"
    yield ""


def _matrix(matrix: CoverageMatrix) -> Iterator[str]:
    yield "## Opcode x element type"
    yield ""
    yield f"{len(matrix.verdicts)} of {len(matrix.wanted)} cells were run. An empty field is no "
    yield "cell: the opcode does not take the type."
    yield ""
    yield "| opcode | " + " | ".join(COLUMNS) + " |"
    yield "|---|" + "---|" * len(COLUMNS)
    for opcode in matrix.rows:
        if opcode not in matrix.exempt:
            yield f"| {opcode} | " + " | ".join(_cell(matrix, opcode, t) for t in COLUMNS) + " |"


def _cell(matrix: CoverageMatrix, opcode: str, dtype: str) -> str:
    status = matrix.verdicts.get((opcode, dtype))
    if status is not None:
        return _SIGNS[status]
    return "not run" if (opcode, dtype) in matrix.wanted else ""
