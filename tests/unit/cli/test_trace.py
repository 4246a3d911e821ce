"""`xladev run --trace` and `xladev trace`: timelines from the command line, and questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.profiling.timeline.samples import CHAIN, good_trace
from xladev.cli.main import main


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(good_trace()))
    return path


def test_a_run_writes_a_timeline_that_can_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, path = tmp_path / "chain.hlo", tmp_path / "run.json"
    program.write_bytes(CHAIN)
    assert main(["run", str(program), "--trace", str(path)]) == 0
    assert f"timeline: {path}" in capsys.readouterr().out
    assert main(["trace", "check", str(path)]) == 0
    assert "nothing wrong" in capsys.readouterr().out
    assert main(["trace", "query", str(path), "--top", "--memory", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert {row["module"] for row in answers["top"]} == {"chain"}
    assert answers["memory"][0]["process"] == "cpu:0"


def test_a_run_whose_timeline_cannot_be_written_does_not_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "chain.hlo"
    program.write_bytes(CHAIN)
    assert main(["run", str(program), "--trace", str(tmp_path / "none" / "t.json")]) == 2
    shown = capsys.readouterr()
    assert "cannot write" in shown.err
    assert "compiled" not in shown.out


def test_questions_in_sql_and_ready_made(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "query", str(trace), "SELECT name FROM slices WHERE id = 3"]) == 0
    assert capsys.readouterr().out.split() == ["NAME", "dot.1"]
    assert main(["trace", "query", str(trace), "--gaps", "--launches", "--rows", "1"]) == 0
    shown = capsys.readouterr().out
    assert "gaps:" in shown
    assert "IDLE_US" in shown


@pytest.mark.parametrize(
    ("ending", "begins"),
    [("svg", b"<svg "), ("html", b"<!doctype html>"), ("png", b"\x89PNG")],
)
def test_a_timeline_is_drawn_as_the_name_says(trace: Path, ending: str, begins: bytes) -> None:
    if ending == "png":
        pytest.importorskip("resvg_py")
    output = trace.with_name(f"drawn.{ending}")
    assert main(["trace", "draw", str(trace), "-o", str(output)]) == 0
    data = output.read_bytes()
    assert data.startswith(begins)
    assert ending == "png" or b"dot.1" in data


def test_a_timeline_is_drawn_as_nothing_else(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = trace.with_name("drawn.pdf")
    assert main(["trace", "draw", str(trace), "-o", str(output)]) == 2
    assert "a timeline is drawn as .svg, .html, .png" in capsys.readouterr().err
    assert not output.exists()


def test_a_broken_trace_fails_the_check(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = good_trace()
    broken["traceEvents"].pop(8)
    trace.write_text(json.dumps(broken))
    assert main(["trace", "check", str(trace)]) == 1
    assert "flow 5 does not end" in capsys.readouterr().out


WRONG = {
    "no question": (["query", "TRACE"], "there is no question"),
    "no SQL": (["query", "TRACE", "selec"], "syntax error"),
    "no such file": (["query", "none.json", "--top"], "cannot read"),
    "no rows": (["query", "TRACE", "--top", "--rows", "0"], "--rows is 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_makes_no_sense_is_an_error(
    what: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, said = WRONG[what]
    assert main(["trace", *(str(trace) if w == "TRACE" else w for w in words)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[1", '{"a": 1}', "\x1f\x8bzip", "[" * 100_000])
def test_other_files_are_no_traces(
    text: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace.write_bytes(text.encode("latin-1"))
    assert main(["trace", "query", str(trace), "--top"]) == 2
    assert "is no trace" in capsys.readouterr().err
