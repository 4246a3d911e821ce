"""Traces as tables, and the ready-made questions."""

from __future__ import annotations

import pytest

from tests.unit.profiling.timeline.samples import good_trace
from xladev.errors import UsageError
from xladev.profiling.timeline.questions import QUESTIONS
from xladev.profiling.timeline.tables import ask, open_tables


def answer(sql: str) -> list[tuple[object, ...]]:
    return ask(open_tables(good_trace()), sql)[1]


def question(name: str) -> list[dict[str, object]]:
    sql = QUESTIONS[name].sql.replace(":limit", "10")
    columns, rows = ask(open_tables(good_trace()), sql)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_slices_know_what_they_lie_in_and_what_time_is_their_own() -> None:
    rows = answer("SELECT id, name, ts, dur, parent, depth, self FROM slices ORDER BY id")
    assert rows == [
        (1, "m", 1000, 3000, None, 0, 3000),
        (2, "m", 2500, 4000, None, 0, 1000),
        (3, "dot.1", 2500, 1500, 2, 1, 1500),
        (4, "dot.1", 5000, 1500, 2, 1, 1500),
    ]


def test_places_arguments_flows_and_counters_have_tables() -> None:
    assert answer("SELECT * FROM processes") == [(1, "host"), (2, "npu:0")]
    assert answer("SELECT * FROM threads") == [(1, 1, "MainThread"), (2, 2, "stream")]
    assert answer("SELECT value FROM args WHERE slice = 1") == [("npu:0",)]
    assert answer("SELECT * FROM flows") == [(5, 1, 3)]
    assert answer("SELECT * FROM counters") == [(6000, 2, "npu:0", "memory", 64)]
    assert answer("SELECT flops, bytes, thread FROM slices WHERE id = 3") == [(8, 96, "stream")]


def test_top_adds_up_the_runs_of_each_kernel() -> None:
    (top,) = question("top")
    assert (top["kernel"], top["runs"], top["total_us"], top["percent"]) == ("dot.1", 2, 3.0, 100.0)


def test_gaps_are_times_without_kernels() -> None:
    (gap,) = question("gaps")
    assert (gap["process"], gap["since_us"], gap["idle_us"]) == ("npu:0", 4.0, 1.0)


def test_overlap_is_time_that_two_rows_share() -> None:
    assert question("overlap") == []
    trace = good_trace()
    transfer = {"ph": "X", "name": "to host", "cat": "transfer", "ts": 3.0, "dur": 3.0,
                "pid": 1, "tid": 1}  # fmt: skip
    trace["traceEvents"].append(transfer)
    sql = QUESTIONS["overlap"].sql.replace(":limit", "10")
    _, rows = ask(open_tables(trace), sql)
    assert rows == [("host/MainThread", "npu:0/stream", 2.0, 2)]


def test_collectives_are_hidden_while_any_kernel_of_their_device_runs() -> None:
    def piece(name: str, cat: str, ts: float, dur: float, row: int) -> dict[str, object]:
        args = {"hlo_op": name, "hlo_module": "m"}
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": 2, "tid": row,
                "args": args}  # fmt: skip

    events = [
        piece("sum", "collective", 10.0, 10.0, 9),
        piece("a", "kernel", 8.0, 4.0, 5),  # to 12
        piece("b", "kernel", 11.0, 3.0, 6),  # beside a, to 14
        piece("c", "kernel", 12.0, 1.0, 5),  # within b
        piece("d", "kernel", 18.0, 9.0, 5),  # from 18
        piece("late", "collective", 40.0, 2.0, 9),
    ]
    sql = QUESTIONS["collectives"].sql.replace(":limit", "10")
    names, rows = ask(open_tables({"traceEvents": events}), sql)
    found = {row[names.index("collective")]: row for row in rows}
    assert found["sum"][names.index("hidden_us")] == 6.0
    assert found["sum"][names.index("percent")] == 60.0
    assert found["late"][names.index("hidden_us")] == 0.0


def test_memory_and_launches_are_summed_up() -> None:
    assert [row["most_bytes"] for row in question("memory")] == [64]
    assert [(row["name"], row["launches"]) for row in question("launches")] == [("m", 1)]


@pytest.mark.parametrize("sql", ["SELEC", "SELECT * FROM nothing", "DROP TABLE slices", ""])
def test_other_questions_are_refused_or_empty(sql: str) -> None:
    database = open_tables(good_trace())
    if sql:
        with pytest.raises(UsageError, match="question"):
            ask(database, sql)
    assert ask(database, "SELECT count(*) FROM slices")[1] == [(4,)]
