"""Verifying: against the suite that is here, the level's floors, the report, and a sample."""

import hashlib
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.testing.certificate import samples
from xladev.errors import FormatError, UsageError
from xladev.testing.certificate import verify
from xladev.testing.certificate.certificate import Certificate, statement
from xladev.testing.certificate.levels import level_of
from xladev.testing.certificate.plugin_files import PluginFiles
from xladev.testing.certificate.statement import statement_text
from xladev.testing.certificate.suite_run import Request, SuiteRun
from xladev.testing.conformance.status import CaseResult, CaseStatus


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """A certificate of level 2, of the suite that `verify` sees."""
    must_pass = samples.suite(tmp_path / "suite")
    monkeypatch.setattr(verify, "suite_folder", lambda: tmp_path / "suite")
    return samples.certificate(must_pass)


def written(made: Certificate, folder: Path) -> Path:
    path = folder / "CERTIFICATE.json"
    path.write_text(made.to_json())
    return path


def consistent(made: Certificate, **counts: int) -> Certificate:
    """With another coverage, and the statement that follows from it."""
    found = replace(made.coverage, **counts)
    return replace(made, coverage=found, statement=statement(level_of(made.level), "npu", found))


def test_a_good_one_verifies(made: Certificate, tmp_path: Path) -> None:
    assert verify.verify_file(written(made, tmp_path)) == made


def test_another_suite_is_refused_with_both_versions(made: Certificate, tmp_path: Path) -> None:
    path = written(made, tmp_path)
    (tmp_path / "suite" / "elementwise.py").write_text('"""Newer."""\n')
    with pytest.raises(FormatError, match="of another suite") as caught:
        verify.verify_file(path)
    assert "it is of suite 1 (" in str(caught.value)
    assert "install xladev 0.1.0" in str(caught.value)


def test_results_that_do_not_give_the_level_are_refused(made: Certificate, tmp_path: Path) -> None:
    entry = {"id": "dot::*", "reason": "no dot"}
    made = replace(made, declarations={"unsupported": [entry]})
    results = {**made.results, "dot::dot-f32": "unsupported"}
    counts = {**made.counts, "fallback": 0, "unsupported": 1}
    wrong = consistent(replace(made, results=results, counts=counts), programs=1)
    with pytest.raises(FormatError, match="do not give level 2") as caught:
        verify.verify_file(written(wrong, tmp_path))
    assert "dot::dot-f32" in str(caught.value)


def test_what_wants_more_devices_than_there_are_is_not_asked_for(
    made: Certificate, tmp_path: Path
) -> None:
    results = {**made.results, "memory::copies": "unsupported"}
    counts = {**made.counts, "pass": 1, "unsupported": 1}
    few = consistent(replace(made, results=results, counts=counts), checks=0)
    assert verify.verify_file(written(few, tmp_path)) == few


def test_coverage_below_the_floor_is_refused(made: Certificate, tmp_path: Path) -> None:
    nothing = consistent(made, programs_on_device=0, work_on_device=0)
    with pytest.raises(FormatError, match="do not give level 2"):
        verify.verify_file(written(nothing, tmp_path))


def with_report(made: Certificate, folder: Path, *results: CaseResult) -> Certificate:
    """The certificate with a report beside it, whose hash it knows."""
    found = {"cases": [r.to_json() for r in results], "declarations": {}}
    report = folder / "conformance.json"
    report.write_text(json.dumps(found))
    return replace(made, report_sha256=hashlib.sha256(report.read_bytes()).hexdigest())


def test_the_report_beside_it_must_be_its_own(made: Certificate, tmp_path: Path) -> None:
    own = with_report(made, tmp_path, *samples.RESULTS)
    assert verify.verify_file(written(own, tmp_path)) == own
    with pytest.raises(FormatError, match="is not the report .*\n.*\n.*SHA-256"):
        verify.verify_file(written(made, tmp_path))


@pytest.mark.parametrize(
    "results",
    [
        (samples.CHECK, samples.ADD),
        (samples.CHECK, samples.ADD, samples.with_status(samples.DOT, CaseStatus.FAIL)),
        (samples.CHECK, replace(samples.ADD, device_work=9), samples.DOT),
        (),
    ],
)
def test_a_report_that_says_otherwise_is_noticed_behind_a_fitting_hash(
    results: tuple[CaseResult, ...], made: Certificate, tmp_path: Path
) -> None:
    other = with_report(made, tmp_path, *results)
    with pytest.raises(FormatError, match="other results or another coverage"):
        verify.verify_file(written(other, tmp_path))


def test_a_report_that_says_of_other_cases_that_they_were_cut_is_noticed(
    made: Certificate, tmp_path: Path
) -> None:
    other = with_report(
        made, tmp_path, samples.CHECK, replace(samples.ADD, cut="f32[1]"), samples.DOT
    )
    with pytest.raises(FormatError, match="of other cases that they were cut"):
        verify.verify_file(written(other, tmp_path))


def test_what_is_no_report_is_noticed_behind_a_fitting_hash(
    made: Certificate, tmp_path: Path
) -> None:
    (tmp_path / "conformance.json").write_text("{}")
    own = replace(made, report_sha256=hashlib.sha256(b"{}").hexdigest())
    with pytest.raises(FormatError, match="cannot be read"):
        verify.verify_file(written(own, tmp_path))


def test_the_statement_beside_it_must_be_its_own(made: Certificate, tmp_path: Path) -> None:
    path = written(made, tmp_path)
    page = tmp_path / "STATEMENT.md"
    page.write_text(statement_text(made))
    verify.verify_file(path)
    page.write_text(statement_text(made).replace("25.0%", "95.0%"))
    with pytest.raises(FormatError, match="is not the statement"):
        verify.verify_file(path)


def test_a_sample_finds_what_does_not_hold(
    made: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []

    def run(request: Request) -> SuiteRun:
        asked.append(request)
        found = samples.by_id(samples.RESULTS)
        found["memory::copies"] = samples.with_status(samples.CHECK, CaseStatus.FAIL)
        found["dot::dot-f32"] = samples.with_status(samples.DOT, CaseStatus.PASS)
        del found["elementwise::add-f32"]
        return SuiteRun({c: r for c, r in found.items() if c in request.cases}, {}, Path())

    monkeypatch.setattr(verify, "run_suite", run)
    found = verify.run_sample(replace(made, seed=5, tighten=0.5), 10, seed=0)
    assert [(s.case, s.found, s.holds) for s in found] == [
        ("dot::dot-f32", "pass", True),
        ("elementwise::add-f32", "-", False),
        ("memory::copies", "fail", False),
    ]
    assert (asked[0].seed, asked[0].tighten, asked[0].backend) == (5, 0.5, "npu")
    assert len(verify.run_sample(made, 2, seed=1)) == 2


def test_a_sample_has_a_case(made: Certificate) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        verify.run_sample(made, 0, seed=0)


def test_declarations_become_the_file_that_they_were(made: Certificate) -> None:
    entry = {"id": 'a::"*"', "reason": "ünder\nway", "tolerance": math.inf}
    declared = {"unsupported": [], "waiver": [entry, {**entry, "tolerance": 4.0}]}
    text = verify.declarations_text(replace(made, declarations=declared))
    assert tomllib.loads(text) == {"waiver": declared["waiver"]}


def test_another_plugin_than_the_certified_one_is_noted(
    made: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = PluginFiles("1 file of the distribution xladev-npu", "0")
    monkeypatch.setattr(verify, "plugin_files", lambda name: found)
    assert "is the certified one" in verify.compare_installed(made)
    found = PluginFiles("2 files of the distribution xladev-npu", "1")
    assert "is not the certified one" in verify.compare_installed(made)
    found = PluginFiles()
    assert "is not installed here" in verify.compare_installed(made)
    unknown = replace(made, backend=replace(made.backend, files="", files_sha256=""))
    assert "knows no files" in verify.compare_installed(unknown)
