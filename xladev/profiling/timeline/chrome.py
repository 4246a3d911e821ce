"""Events as Chrome trace JSON, which Perfetto and chrome://tracing show.

The format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xladev.instrument import TraceEvent
from xladev.instrument.trace import COUNTER
from xladev.profiling.timeline.launches import Arrow, add_launches, arrows
from xladev.profiling.timeline.rows import HOST, Numbers, Row, in_rows

Json = dict[str, Any]

VERSION = 1
"""Of the meaning of names, categories and arguments: ``otherData.version``."""


def chrome_trace(events: Sequence[TraceEvent], start_ns: int, facts: Mapping[str, Any]) -> Json:
    """The document.

    Args:
        events: in any order.
        start_ns: the moment that times count from; earlier events begin at 0.
        facts: what else is known of the trace: events dropped, wall-clock time.
    """
    return {
        "traceEvents": _Writer(start_ns).all(events),
        "displayTimeUnit": "ns",
        "otherData": {"producer": "xladev", "version": VERSION, **facts},
    }


class _Writer:
    def __init__(self, start_ns: int) -> None:
        self._start = start_ns
        self._numbers = Numbers()

    def all(self, events: Sequence[TraceEvent]) -> list[Json]:
        """Names first, then everything in the order of its time, outer slices first."""
        slices = add_launches([e for e in events if e.category != COUNTER])
        rows = in_rows(slices)
        self._number_rows(rows)
        places = {id(e): row for row, members in rows.items() for e in members}
        timed = [self._slice(e, row) for row, members in rows.items() for e in members]
        for arrow in arrows(slices):
            timed += self._flow(arrow, places)
        timed += [self._counter(e) for e in events if e.category == COUNTER]
        timed.sort(key=lambda e: (e["ts"], -e.get("dur", 0.0)))
        return [*self._names(), *timed]

    def _number_rows(self, rows: Mapping[Row, Any]) -> None:
        """The host first, then devices by name."""
        for row in sorted(rows, key=lambda r: (r.process != HOST, r.process, r.name, r.lane)):
            self._numbers.row(row)

    def _names(self) -> Iterator[Json]:
        for order, (name, pid) in enumerate(self._numbers.processes.items()):
            yield _named("process_name", pid, 0, {"name": name})
            yield _named("process_sort_index", pid, 0, {"sort_index": order})
        for row, tid in self._numbers.rows.items():
            pid = self._numbers.process(row.process)
            yield _named("thread_name", pid, tid, {"name": row.title})
            yield _named("thread_sort_index", pid, tid, {"sort_index": tid})

    def _at(self, row: Row) -> Json:
        return {"pid": self._numbers.process(row.process), "tid": self._numbers.row(row)}

    def _time(self, time_ns: int) -> float:
        return max(0, time_ns - self._start) / 1e3

    def _slice(self, event: TraceEvent, row: Row) -> Json:
        start = self._time(event.start_ns)
        end = self._time(event.start_ns + event.duration_ns)
        made = {
            "ph": "X",
            "name": event.name,
            "cat": event.category or "other",
            "ts": start,
            "dur": round(end - start, 3),
            **self._at(row),
        }
        if event.args:
            made["args"] = event.args
        return made

    def _flow(self, arrow: Arrow, places: Mapping[int, Row]) -> tuple[Json, Json]:
        shared = {"name": "launch", "cat": "flow", "id": arrow.number}
        start = self._time(arrow.start_ns)
        end = self._time(arrow.end.start_ns)
        return (
            {"ph": "s", "ts": start, **shared, **self._at(places[id(arrow.start)])},
            {"ph": "f", "bp": "e", "ts": end, **shared, **self._at(places[id(arrow.end)])},
        )

    def _counter(self, event: TraceEvent) -> Json:
        return {
            "ph": "C",
            "name": event.name,
            "ts": self._time(event.start_ns),
            "pid": self._numbers.process(event.track),
            "tid": 0,
            "args": dict(event.args),
        }


def _named(what: str, pid: int, tid: int, args: Json) -> Json:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
