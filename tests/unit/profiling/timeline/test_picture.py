"""Pictures of timelines: rows, nesting, spans, hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from xladev.cli.main import main
from xladev.errors import ArgumentError
from xladev.profiling.timeline.picture import timeline_picture

NAMES = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "host"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
    {"ph": "M", "name": "process_name", "pid": 2, "tid": 0, "args": {"name": "npu:0"}},
    {"ph": "M", "name": "thread_name", "pid": 2, "tid": 2, "args": {"name": "stream"}},
]


def _slice(name: str, pid: int, ts: float, dur: float, cat: str = "kernel") -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": pid, "ts": ts, "dur": dur}


TRACE = {
    "traceEvents": [
        *NAMES,
        _slice("early", 1, 0, 50),
        _slice("run", 2, 100, 40, "cluster"),
        _slice("first kernel", 2, 100, 20),
        _slice("</text>&<b>\x01", 2, 120, 20),
        {"ph": "X", "name": "damaged", "ts": "x", "dur": 1},
        None,
    ]
}


def _texts(picture: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("text")]


def test_rows_of_devices_by_their_span() -> None:
    texts = _texts(timeline_picture(TRACE))
    assert texts[:6] == ["0 us", "8 us", "16 us", "24 us", "32 us", "40 us"]
    assert {"npu:0  stream", "run", "first kernel", "</text>&<b>\\x01"} <= set(texts)
    assert "early" not in texts
    assert "early" in _texts(timeline_picture(TRACE, span=(0, 200)))


def test_inner_slices_lie_below_outer_ones() -> None:
    root = ElementTree.fromstring(timeline_picture(TRACE))
    tops = [float(e.get("y", "0")) for e in root.iter() if e.tag.endswith("rect")][1:]
    assert tops == [26, 43, 43]


def test_the_last_time_ends_at_the_last_line_however_long_it_is() -> None:
    events = [*NAMES, _slice("run", 2, 0, 123_456_789)]
    picture = timeline_picture({"traceEvents": events}, 1000)
    assert 'x="990.0" y="12" fill="#212529" text-anchor="end">123,456,789 us<' in picture


@pytest.mark.parametrize("span", [(500, 600), (10, 10), (20, 10)])
def test_nothing_to_draw_is_an_error(span: tuple[float, float]) -> None:
    with pytest.raises(ArgumentError, match="nothing happens"):
        timeline_picture(TRACE, span=span)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, made = tmp_path / "t.json", tmp_path / "t.svg"
    trace.write_text(json.dumps(TRACE))
    assert main(["trace", "draw", str(trace), "-o", str(made)]) == 0
    assert made.read_text().startswith("<svg ")
    made.unlink()
    trace.write_text('{"traceEvents": []}')
    for words in ([], ["--width", "3"], ["--begin", "1"]):
        assert main(["trace", "draw", str(trace), "-o", str(made), *words]) == 2
        assert "xladev: error: [" in capsys.readouterr().err
    assert not made.exists()
