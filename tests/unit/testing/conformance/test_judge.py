"""Verdicts follow from what the worker says and what the backend declares; reports show them."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from xladev.errors import PluginError
from xladev.hlo import dtype as dt
from xladev.testing.conformance.case import Case, given
from xladev.testing.conformance.cells import elementwise
from xladev.testing.conformance.collection import failure_text
from xladev.testing.conformance.judge import Judge
from xladev.testing.conformance.report import report_data, write_report
from xladev.testing.conformance.settings import Settings
from xladev.testing.conformance.status import CaseResult, CaseStatus, Difference
from xladev.testing.conformance.summary import next_step, succeeded, summary_lines
from xladev.testing.conformance.waivers import Declarations, Entry
from xladev.testing.wire import pack
from xladev.testing.worker import Outcome
from xladev.testing.worker import Status as Ending

X = np.array([1.0, 2.0, 3.0], np.float32)
CASE = Case(
    "negate-f32", lambda b: elementwise("negate", 1, (3,))(b, dt.F32), "negate", "f32",
    inputs=given([X]),
)  # fmt: skip
EXP = replace(CASE, program=lambda b: elementwise("exponential", 1, (3,))(b, dt.F32))
NAME = "elementwise_unary::negate-f32"


class Backend:
    """Answers like a worker, without a process."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def call(self, request: bytes, timeout_s: float | None = None) -> Outcome:
        return self.outcome


def answer(result: np.ndarray, fallbacks: tuple[str, ...] = ()) -> Outcome:
    return Outcome(Ending.OK, pack({"counts": [1], "fallbacks": list(fallbacks)}, [result]))


def problem(kind: str) -> Outcome:
    return Outcome(Ending.OK, pack({"problem": "what happened", "kind": kind}))


def verdict(outcome: Outcome, case: Case = CASE, **settings: object) -> CaseResult:
    judge = Judge(Backend(outcome), Settings("npu", **settings))  # type: ignore[arg-type]
    return judge.judge(case, NAME)


def declared(kind: str, tolerance: float = 1.0) -> dict[str, object]:
    return {"declarations": Declarations(**{kind: (Entry("*::negate-*", "known", tolerance),)})}


RIGHT, WRONG = answer(-X), answer(np.array([-1, -2, 3], np.float32))
ONE_ULP = answer(np.nextafter(np.exp(X), np.float32(100)))
FAR = answer(np.exp(X) * np.float32(1 + 1e-5))


@pytest.mark.parametrize(
    ("outcome", "settings", "status"),
    [
        (RIGHT, {}, CaseStatus.PASS),
        (answer(-X, ("negate.1 (negate) runs on cpu: not yet",)), {}, CaseStatus.FALLBACK),
        (WRONG, {}, CaseStatus.FAIL),
        (answer(-X.astype(np.float64)), {}, CaseStatus.FAIL),
        (answer(-X[:2]), {}, CaseStatus.FAIL),
        (Outcome(Ending.CRASH, detail="killed by SIGSEGV"), {}, CaseStatus.FAIL),
        (Outcome(Ending.TIMEOUT), {}, CaseStatus.FAIL),
        (Outcome(Ending.ERROR, detail="cannot import"), {}, CaseStatus.ERROR),
        (problem("error"), {}, CaseStatus.FAIL),
        (problem("unsupported"), {}, CaseStatus.FAIL),
        (problem("not-offered"), {}, CaseStatus.UNSUPPORTED),
        (problem("unsupported"), declared("unsupported"), CaseStatus.UNSUPPORTED),
        (WRONG, declared("expected_failures"), CaseStatus.EXPECTED_FAILURE),
        (RIGHT, declared("expected_failures"), CaseStatus.FAIL),
        (WRONG, declared("waivers", float("inf")), CaseStatus.WAIVED),
        (WRONG, declared("waivers", 2.0), CaseStatus.FAIL),
        (RIGHT, declared("unsupported"), CaseStatus.PASS),
    ],
)
def test_verdict(outcome: Outcome, settings: dict[str, object], status: CaseStatus) -> None:
    assert verdict(outcome, **settings).status is status


def test_tolerance_comes_from_the_opcode_and_can_be_tightened_or_waived() -> None:
    assert verdict(ONE_ULP, EXP).status is CaseStatus.PASS
    assert verdict(ONE_ULP, EXP, tighten=1e-3).status is CaseStatus.FAIL
    assert verdict(FAR, EXP).status is CaseStatus.FAIL
    assert verdict(FAR, EXP, **declared("waivers", 100.0)).status is CaseStatus.WAIVED


def test_written_results_count_whatever_the_evaluator_says() -> None:
    other = replace(CASE, expected=(X,))
    assert verdict(answer(X), other).status is CaseStatus.PASS
    assert verdict(RIGHT, other).status is CaseStatus.FAIL


def test_a_fault_of_the_suite_is_an_error() -> None:
    assert verdict(RIGHT, replace(CASE, program="no HLO")).status is CaseStatus.ERROR


def test_a_failure_is_saved_with_a_command(tmp_path: Path) -> None:
    found = verdict(WRONG, report=tmp_path)
    assert found.difference is not None
    assert (found.difference.first, found.difference.bad) == ((2,), 1)
    assert "xladev run" in found.reproduce
    assert len(list((tmp_path / "failures").iterdir())) == 2


def test_a_failure_names_the_types_of_program_and_result() -> None:
    found = verdict(WRONG)
    assert found.program == "f32[3] -> f32[3]"
    assert found.detail.startswith("result 0, f32[3], of run 0: 1 of 3 differ")
    assert found.headline.startswith("f32[3] -> f32[3]: result 0, f32[3], of run 0: 1 of 3")
    assert f"{NAME}, f32[3] -> f32[3]: fail" in failure_text(found)
    other = verdict(answer(-X[:2]))
    assert other.headline == "f32[3] -> f32[3]: result 0 of run 0 is f32[2], want f32[3]"
    assert verdict(RIGHT).program == ""


def test_the_line_of_an_error_has_its_reason(tmp_path: Path) -> None:
    error = PluginError(
        "plugin 'npu' raised KeyError in launch", where="npu:0", why="no such opcode", hint="mend"
    )
    what = Outcome(Ending.OK, pack({"problem": str(error), "kind": "error"}))
    line = "plugin 'npu' raised KeyError in launch; where: npu:0; why: no such opcode"
    found = verdict(what)
    assert found.headline == f"f32[3] -> f32[3]: [PLUGIN] {line}"
    assert line in next_step([found], Settings("npu"))
    assert line in write_report(tmp_path, [found], Settings("npu"))[1].read_text()


def results() -> list[CaseResult]:
    difference = Difference(0, 1, 3, 9, (0, 2), "0", "<1>", 1e-6, "zero where wrong")
    return [
        CaseResult("a::pass", CaseStatus.PASS, "negate", "f32"),
        CaseResult(
            "a::host", CaseStatus.FALLBACK, "abs", "f32", fallbacks=("x (abs) runs on cpu: no abs",)
        ),
        CaseResult(
            "a::fail", CaseStatus.FAIL, "add", "f32", detail=str(difference), difference=difference
        ),
        CaseResult("m::copy", CaseStatus.UNSUPPORTED, tier=1, detail="no memory"),
    ]


def test_a_run_succeeds_only_if_something_was_computed() -> None:
    passed, host, failed, skipped = results()
    assert succeeded([passed, skipped])
    assert succeeded([host])
    assert not succeeded([])
    assert not succeeded([skipped])
    assert not succeeded([passed, failed])


def test_results_survive_json() -> None:
    for result in results():
        assert CaseResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_the_summary_says_what_to_do_next() -> None:
    lines = list(summary_lines(results(), Settings("npu")))
    assert lines[-1].startswith("next: mend a::fail")
    assert "device coverage: 1 of 3 single-opcode cases" in lines[-2]
    good = [r for r in results() if r.status.is_good]
    assert (
        "1 case ran on the host for the commonest reason: no abs"
        in list(summary_lines(good, Settings("npu")))[-1]
    )


class Page(HTMLParser):
    """Collects the text of a page and what it asks a network for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.links = "", []  # type: tuple[str, list[str]]
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [v or "" for k, v in attrs if k in ("src", "href")]


def test_reports_show_everything(tmp_path: Path) -> None:
    settings = Settings("npu", **declared("waivers", 2.0))  # type: ignore[arg-type]
    paths = write_report(tmp_path, results(), settings)
    assert [p.name for p in paths] == ["conformance.json", "conformance.md", "conformance.html"]
    page = Page(paths[2].read_text())
    assert page.links == []
    markdown = paths[1].read_text()
    for words in ("a::fail", "no abs", "known", "zero where wrong", "FAILED"):
        assert words in markdown
        assert words.lower() in page.text.lower()
    assert "<1>" in page.text
    assert "device alone" not in page.text, "a failed run boasts of its coverage"
    data = report_data(results(), settings)
    assert data["counts"]["fail"] == 1
    assert data["suite"] == json.loads(paths[0].read_text())["suite"]


def test_a_success_says_how_much_of_it_was_the_devices(tmp_path: Path) -> None:
    good = [r for r in results() if r.status.is_good]
    extra = CaseResult("a::other", CaseStatus.PASS, "abs", "f32")
    page = Page(write_report(tmp_path, [*good, extra], Settings("npu"))[2].read_text())
    assert "passed, 67% on the device alone" in page.text
    assert "1/2" in page.text, "one of two cases of the cell ran on the host"
