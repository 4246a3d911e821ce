"""A trace as tables of SQLite, for questions.

The tables are documented in docs/reference/timeline.md. Times are nanoseconds since the trace
began.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from xladev.errors import UsageError
from xladev.profiling.timeline.check import nanoseconds
from xladev.profiling.timeline.sound import sound_events

Json = Mapping[str, Any]

_SCHEMA = """
CREATE TABLE processes (pid INT PRIMARY KEY, name TEXT);
CREATE TABLE threads (tid INTEGER, pid INTEGER, name TEXT, PRIMARY KEY (pid, tid));
CREATE TABLE slices (
  id INTEGER PRIMARY KEY, ts INTEGER, dur INTEGER, name TEXT, cat TEXT, pid INTEGER, tid INTEGER,
  process TEXT, thread TEXT, parent INTEGER, depth INTEGER, self INTEGER,
  hlo_op TEXT, hlo_module TEXT, opcode TEXT, op_name TEXT, source TEXT,
  flops INTEGER, transcendentals INTEGER, bytes INTEGER);
CREATE TABLE args (slice INTEGER, key TEXT, value);
CREATE TABLE flows (id INTEGER, start INTEGER, end INTEGER);
CREATE TABLE counters (ts INTEGER, pid INTEGER, process TEXT, name TEXT, value NUMERIC);
"""
_COLUMNS = (
    "hlo_op", "hlo_module", "opcode", "op_name", "source", "flops", "transcendentals", "bytes",
)  # fmt: skip
_INDICES = """
CREATE INDEX slices_by_row ON slices (pid, tid, ts);
CREATE INDEX args_by_slice ON args (slice);
"""


def open_tables(document: Json) -> sqlite3.Connection:
    """A database in memory with the tables of a trace.

    Args:
        document: as `read_trace` gives it; events that are no slices, flows or counters are left,
            as damaged ones are.

    Returns:
        The connection, which reads these tables and does nothing else.
    """
    database = sqlite3.connect(":memory:")
    database.executescript(_SCHEMA)
    _Filler(database, sound_events(document)).fill()
    database.executescript(_INDICES)
    database.commit()
    database.set_authorizer(_authorize)
    return database


_READING = frozenset(
    [sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION]
)
_TOLD = frozenset(["table_info", "table_xinfo", "table_list"])
"""What PRAGMA may say."""


def _authorize(action: int, name: str | None, _second: Any, _place: Any, _inner: Any) -> int:
    """Lets a question read: no other files (ATTACH, VACUUM INTO), no settings, no extensions."""
    if action in _READING or (action == sqlite3.SQLITE_PRAGMA and name in _TOLD):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def ask(database: sqlite3.Connection, question: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of columns, and rows.

    Raises:
        UsageError: SQLite does not take the question.
    """
    try:
        cursor = database.execute(question)
        rows = cursor.fetchall()
    except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError) as error:
        raise UsageError(
            "the question is no SQL that SQLite answers",
            why=str(error),
            hint="tables: slices, processes, threads, args, flows, counters",
        ) from error
    return [column[0] for column in cursor.description or ()], rows


class _Filler:
    def __init__(self, database: sqlite3.Connection, events: Sequence[Json]) -> None:
        self._database = database
        self._events = events
        self._processes = self._names("process_name", lambda e: e.get("pid"))
        self._threads = self._names("thread_name", lambda e: (e.get("pid"), e.get("tid")))

    def _names(self, kind: str, key: Any) -> dict[Any, str]:
        return {
            key(e): str(e["args"].get("name", ""))
            for e in self._events
            if e.get("ph") == "M" and e.get("name") == kind
        }

    def fill(self) -> None:
        """Writes all tables."""
        insert = self._database.executemany
        insert("INSERT OR IGNORE INTO processes VALUES (?, ?)", self._processes.items())
        threads = [(tid, pid, name) for (pid, tid), name in self._threads.items()]
        insert("INSERT OR IGNORE INTO threads VALUES (?, ?, ?)", threads)
        slices = self._slices()
        self._insert_slices(slices)
        insert("INSERT INTO flows VALUES (?, ?, ?)", self._flows(slices))
        insert("INSERT INTO counters VALUES (?, ?, ?, ?, ?)", self._counters())

    def _slices(self) -> list[dict[str, Any]]:
        """Slices row by row, outer ones first, each with its parent and the time of its own."""
        rows: dict[Any, list[dict[str, Any]]] = {}
        for event in self._events:
            if event.get("ph") == "X":
                made = {**event, "ts": nanoseconds(event["ts"])}
                made["dur"] = nanoseconds(event["dur"])
                rows.setdefault((event.get("pid"), event.get("tid")), []).append(made)
        found: list[dict[str, Any]] = []
        for row in rows.values():
            row.sort(key=lambda s: (s["ts"], -s["dur"]))
            _nest(row, len(found) + 1)
            found += row
        return found

    def _insert_slices(self, slices: Sequence[Mapping[str, Any]]) -> None:
        marks = ", ".join("?" * (12 + len(_COLUMNS)))
        self._database.executemany(
            f"INSERT INTO slices VALUES ({marks})",
            [self._slice_row(s) for s in slices],
        )
        args = [
            (s["id"], key, value if isinstance(value, (int, float, str)) else str(value))
            for s in slices
            for key, value in s["args"].items()
        ]
        self._database.executemany("INSERT INTO args VALUES (?, ?, ?)", args)

    def _slice_row(self, s: Mapping[str, Any]) -> tuple[Any, ...]:
        pid, tid, args = s.get("pid"), s.get("tid"), s["args"]
        return (
            s["id"], s["ts"], s["dur"], s.get("name"), s.get("cat"), pid, tid,
            self._processes.get(pid, ""), self._threads.get((pid, tid), ""),
            s["parent"], s["depth"], s["self"], *(args.get(c) for c in _COLUMNS),
        )  # fmt: skip

    def _flows(self, slices: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """Each flow with the innermost slices that it leaves and reaches."""
        by_row: dict[Any, list[Mapping[str, Any]]] = {}
        for s in slices:
            by_row.setdefault((s.get("pid"), s.get("tid")), []).append(s)
        ends: dict[Any, dict[str, int | None]] = {}
        for event in self._events:
            if event.get("ph") in ("s", "f"):
                row = by_row.get((event.get("pid"), event.get("tid")), ())
                found = _innermost(row, nanoseconds(event["ts"]))
                ends.setdefault(event.get("id"), {})[event["ph"]] = found
        return [(number, both.get("s"), both.get("f")) for number, both in ends.items()]

    def _counters(self) -> list[tuple[Any, ...]]:
        return [
            (nanoseconds(e["ts"]), e.get("pid"), self._processes.get(e.get("pid"), ""),
             e.get("name"), value)
            for e in self._events
            if e.get("ph") == "C"
            for value in e["args"].values()
        ]  # fmt: skip


def _nest(row: Sequence[dict[str, Any]], first: int) -> None:
    """Says of each slice of a row, outer ones first, what it is in."""
    around: list[dict[str, Any]] = []
    for number, s in enumerate(row, first):
        while around and around[-1]["ts"] + around[-1]["dur"] <= s["ts"]:
            around.pop()
        s |= {"id": number, "parent": None, "depth": len(around), "self": s["dur"]}
        if around:
            s["parent"] = around[-1]["id"]
            around[-1]["self"] -= s["dur"]
        around.append(s)


def _innermost(row: Sequence[Mapping[str, Any]], now: int) -> int | None:
    """The slice of a row that begins last among those that a moment is in."""
    low, high = 0, len(row)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if row[middle]["ts"] <= now else (low, middle)
    before = row[max(0, low - _LOOK_BACK) : low]
    return next((s["id"] for s in reversed(before) if now <= s["ts"] + s["dur"]), None)


_LOOK_BACK = 4096
"""Slices within one that are looked at to find it."""
