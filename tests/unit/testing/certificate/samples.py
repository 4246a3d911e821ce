"""Results, a must-pass list and a certificate as a run of a small suite would give them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from xladev.testing.certificate.certificate import FORMAT, Certificate, statement
from xladev.testing.certificate.installation import Backend
from xladev.testing.certificate.levels import level_of
from xladev.testing.certificate.must_pass import FILE, MustPass, list_text, read_must_pass
from xladev.testing.certificate.verdict import coverage, cut_of
from xladev.testing.conformance.status import CaseResult, CaseStatus

CHECK = CaseResult("memory::copies", CaseStatus.PASS, tier=1, is_check=True)
ADD = CaseResult(
    "elementwise::add-f32", CaseStatus.PASS, "add", "f32", 2, device_instructions=1, device_work=8
)
DOT = CaseResult(
    "dot::dot-f32", CaseStatus.FALLBACK, "dot", "f32", 2,
    host_instructions=1, host_work=24, fallbacks=("d (dot) runs on cpu: no dot",),
)  # fmt: skip
RESULTS = (CHECK, ADD, DOT)

BACKEND = Backend(
    platform="npu", kind="npu", tier=2, contract="1.0", plugin="npu", distribution="xladev-npu 1",
    editable=False, files="1 file of the distribution xladev-npu", files_sha256="0",
    driver="", device="NPU", target="npu1", device_count=1,
    versions={"python": "3.11.7", "xladev": "0.1.0"},
)  # fmt: skip


def by_id(results: Iterable[CaseResult]) -> dict[str, CaseResult]:
    return {r.id: r for r in results}


def with_status(result: CaseResult, status: CaseStatus) -> CaseResult:
    return replace(result, status=status)


def suite(folder: Path, results: Iterable[CaseResult] = RESULTS) -> MustPass:
    """A folder that holds one file of cases and the list of these."""
    folder.mkdir(exist_ok=True)
    (folder / "elementwise.py").write_text('"""Cases."""\nCASES = ()\n')
    (folder / FILE).write_text(list_text("1", {r.id: r.tier for r in results}))
    return read_must_pass(folder)


def certificate(must_pass: MustPass, level: int = 2, report_sha256: str = "0") -> Certificate:
    """What RESULTS are worth."""
    chosen = [r for r in RESULTS if r.tier <= level]
    found = coverage(chosen)
    return Certificate(
        format=FORMAT,
        statement=statement(level_of(level), "npu", found),
        level=level,
        level_name=level_of(level).name,
        date="2026-01-02T03:04:05+00:00",
        backend=BACKEND,
        suite_version=must_pass.version,
        suite_sha256=must_pass.sha256,
        seed=0,
        tighten=1.0,
        declarations={"unsupported": [], "expected_failure": [], "waiver": []},
        counts={s.value: sum(r.status is s for r in chosen) for s in CaseStatus},
        coverage=found,
        results={r.id: r.status.value for r in chosen},
        cut=cut_of(by_id(chosen)),
        report_sha256=report_sha256,
    )
