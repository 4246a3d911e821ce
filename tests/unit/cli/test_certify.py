"""`xladev certify`: its errors, its exit codes, and what it says next."""

import json
from pathlib import Path

import pytest

from tests.unit.testing.certificate import samples
from xladev.cli.main import main
from xladev.testing.certificate import issue, verify
from xladev.testing.certificate.suite_run import Request, SuiteRun
from xladev.testing.conformance.status import CaseStatus


@pytest.fixture(autouse=True)
def small_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A suite of three cases, and what they give on any backend."""
    results = samples.by_id(samples.RESULTS)
    samples.suite(tmp_path / "suite")

    def run(request: Request) -> SuiteRun:
        report = request.folder / "conformance.json"
        chosen = {c: r for c, r in results.items() if r.tier <= request.levels}
        cases = [r.to_json() for r in chosen.values()]
        report.write_text(json.dumps({"cases": cases, "declarations": {}}))
        return SuiteRun(chosen, {}, report)

    for module in (issue, verify):
        monkeypatch.setattr(module, "suite_folder", lambda: tmp_path / "suite")
        monkeypatch.setattr(module, "run_suite", run)
    return results


def test_a_certificate_is_issued_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["certify", "interpreter", "--level", "2", "--out", str(out)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("interpreter reaches level 2, Compiled")
    assert shown[-1] == ("next: level 3, Fused: write Compiler.pipeline; or Compiler.can_fuse")
    assert (out / "STATEMENT.md").read_text().splitlines()[0] == shown[0]
    assert main(["certify", "--verify", str(out / "CERTIFICATE.json")]) == 0
    assert "--sample N runs N of its cases again" in capsys.readouterr().out


def test_the_level_is_that_of_the_backend_where_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", "interpreter", "--out", str(tmp_path / "out")]) == 0
    assert "reaches level 2" in capsys.readouterr().out


@pytest.mark.long
def test_a_level_that_is_not_reached_leaves_no_certificate(
    tmp_path: Path, small_suite: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["certify", "interpreter", "--level", "2", "--out", str(out)]) == 0
    small_suite[samples.ADD.id] = samples.with_status(samples.ADD, CaseStatus.FAIL)
    assert main(["certify", "interpreter", "--level", "2", "--out", str(out)]) == 1
    shown = capsys.readouterr().out
    assert "1 case (elementwise::add-f32) fail" in shown
    assert "level 1, Memory, is reached: xladev certify interpreter --level 1" in shown
    assert sorted(p.name for p in out.iterdir()) == ["conformance.json"]


def test_a_sample_that_does_not_hold_is_exit_code_1(
    tmp_path: Path, small_suite: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["certify", "interpreter", "--out", str(out)]) == 0
    small_suite[samples.CHECK.id] = samples.with_status(samples.CHECK, CaseStatus.FAIL)
    file = str(out / "CERTIFICATE.json")
    assert main(["certify", "--verify", file, "--sample", "9"]) == 1
    shown = capsys.readouterr().out
    assert "memory::copies: certified pass, now fail" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no platform was named"),
        (["none"], "no platform or kind"),
        (["cpu", "--level", "9"], "no level 9"),
        (["cpu", "--tighten", "3"], "--tighten is 3.0"),
        (["cpu", "--seed", "-3"], "--seed is -3"),
        (["cpu", "--jobs", "0"], "--jobs is 0"),
        (["cpu", "--sample", "3"], "--sample goes with --verify"),
        (["cpu", "--verify", "x"], "from the certificate"),
        (["--verify", "no/such/file"], "cannot read a certificate"),
        (["cpu", "--out", "{file}"], "cannot write certificates"),
    ],
)
def test_errors_say_what_and_what_next(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    filled = [a.replace("{file}", str(file)) for a in arguments]
    assert main(["certify", *filled]) == 2
    assert says in capsys.readouterr().err


def test_variables_that_bend_the_outcome_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XLADEV_FALLBACK", "interpreter")
    assert main(["certify", "cpu"]) == 2
    assert "env -u XLADEV_FALLBACK xladev certify" in capsys.readouterr().err
