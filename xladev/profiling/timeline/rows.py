"""Rows of a timeline: which process and row an event is shown in, so that slices nest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xladev.instrument import TraceEvent

HOST = "host"
"""Name of the process that stands for this one; all others stand for devices."""

_HOST_ROWS = {
    "compile": "compile", "compile-region": "compile", "pass": "compile", "codegen": "compile",
    "transfer": "transfers",
}  # fmt: skip
"""Categories of host events that have a row of their own beside the thread's, and its name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of slices.

    Attributes:
        process: ``host``, or a device such as ``npu:0``.
        name: a thread or a stream.
        lane: 0, or a further line for slices that overlap others of the same row.
    """

    process: str
    name: str
    lane: int = 0

    @property
    def title(self) -> str:
        """What viewers show."""
        return f"{self.name} ({self.lane + 1})" if self.lane else self.name


def row_of(event: TraceEvent) -> Row:
    """Where an event belongs."""
    process, slash, name = event.track.partition("/")
    if slash:
        return Row(process, name)
    kind = _HOST_ROWS.get(event.category)
    return Row(HOST, f"{event.track}: {kind}" if kind else event.track)


def in_rows(events: Iterable[TraceEvent]) -> dict[Row, list[TraceEvent]]:
    """The slices of each row, outer ones first; each is within another one or beside it."""
    groups: dict[Row, list[TraceEvent]] = {}
    for event in events:
        groups.setdefault(row_of(event), []).append(event)
    rows: dict[Row, list[TraceEvent]] = {}
    for row, members in groups.items():
        members.sort(key=lambda e: (e.start_ns, -e.duration_ns))
        for lane, nested in enumerate(_lanes(members)):
            rows[Row(row.process, row.name, lane)] = nested
    return rows


def _lanes(events: Sequence[TraceEvent]) -> list[list[TraceEvent]]:
    """Events in order, split so that those of a lane nest."""
    lanes: list[list[TraceEvent]] = []
    around: list[list[int]] = []
    for event in events:
        end = event.start_ns + event.duration_ns
        for ends, lane in zip(around, lanes, strict=True):
            while ends and ends[-1] <= event.start_ns:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                lane.append(event)
                break
        else:
            around.append([end])
            lanes.append([event])
    return lanes


class Numbers:
    """Process and thread ids: this process has its own, all others are made up and unique."""

    def __init__(self) -> None:
        self._host = os.getpid()
        self.processes: dict[str, int] = {HOST: self._host}
        self.rows: dict[Row, int] = {}

    def process(self, name: str) -> int:
        """Number of a process."""
        made = self._host + len(self.processes)
        return self.processes.setdefault(name, made)

    def row(self, row: Row) -> int:
        """Number of a row; no two processes share one."""
        self.process(row.process)
        return self.rows.setdefault(row, len(self.rows) + 1)
