"""Traces that nobody vouches for: damaged fields, and questions that would do more than read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.profiling.timeline.samples import good_trace
from xladev.errors import UsageError, XladevError
from xladev.profiling.timeline.check import check_trace
from xladev.profiling.timeline.picture import timeline_picture
from xladev.profiling.timeline.questions import QUESTIONS
from xladev.profiling.timeline.tables import ask, open_tables

DAMAGE: tuple[Any, ...] = (
    None, [], {}, "x", "", True, -1, 10**30, 1e308, float("nan"), float("inf"), {"name": [1]},
    {"hlo_op": {}}, {"flops": 10**40}, {"value": []}, {"\ud800": "\ud800"}, "\ud800",
)  # fmt: skip


def damaged(event: int) -> Iterator[dict[str, Any]]:
    """Traces of which one field of an event was lost or is another value."""
    text = json.dumps(good_trace())
    for field in json.loads(text)["traceEvents"][event]:
        lost = json.loads(text)
        del lost["traceEvents"][event][field]
        yield lost
        for value in DAMAGE:
            made = json.loads(text)
            made["traceEvents"][event][field] = value
            yield made


@pytest.mark.parametrize("event", range(len(good_trace()["traceEvents"])))
def test_any_field_may_be_damaged(event: int) -> None:
    for trace in damaged(event):
        check_trace(trace)
        with suppress(XladevError):
            timeline_picture(trace).encode()
        database = open_tables(trace)
        for question in QUESTIONS.values():
            ask(database, question.sql.replace(":limit", "10"))


def test_damaged_events_are_left_out_and_the_others_stay() -> None:
    trace = good_trace()
    trace["traceEvents"] += [None, 7, {"ph": []}, {"ph": "X", "ts": float("inf"), "pid": 1}]
    assert ask(open_tables(trace), "SELECT count(*) FROM slices")[1] == [(4,)]


def test_a_time_beyond_all_bounds_is_a_fault() -> None:
    trace = good_trace()
    slice_ = next(e for e in trace["traceEvents"] if e["ph"] == "X")
    slice_["dur"] = float("inf")
    assert any("dur is inf" in fault for fault in check_trace(trace))


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH '{}' AS other",
        "VACUUM INTO '{}'",
        "PRAGMA temp_store_directory = '{}'",
        "PRAGMA query_only = OFF",
        "SELECT load_extension('{}')",
        "CREATE TEMP TABLE other AS SELECT 1",
        "DELETE FROM slices",
        "SELECT '\udcff'",
    ],
)
def test_a_question_reads_the_tables_and_nothing_else(sql: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="question"):
        ask(open_tables(good_trace()), sql.format(tmp_path / "other"))
    assert not list(tmp_path.iterdir())


def test_a_question_may_ask_for_columns() -> None:
    columns = ask(open_tables(good_trace()), "PRAGMA table_info(flows)")[1]
    assert [row[1] for row in columns] == ["id", "start", "end"]
