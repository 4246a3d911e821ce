"""From rows that native code wrote to events of a trace: programs, and the kernels in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from xladev.compiler.plan.operations import TracedOperation
from xladev.instrument import TraceEvent
from xladev.instrument.trace import COUNTER, thread_tracks
from xladev.platforms.cpu.trace_points import BEGIN, COPY, END, HELP, HELPED, PART, PART_ENDED
from xladev.platforms.cpu.worker_slices import help_events, helper_tracks

Rows = npt.NDArray[np.int64]
"""A row for each mark: program, step, time, thread."""

FIRST_MEMORY = -16
"""This and lower steps say how many bytes are in use: none, one, two ..., by an account."""


class RecordedProgram(Protocol):
    """What is known of a program."""

    @property
    def name(self) -> str:
        """Of the module."""
        ...

    @property
    def device(self) -> str:
        """Where it runs."""
        ...

    @property
    def operations(self) -> tuple[TracedOperation, ...]:
        """What its kernels stand for."""
        ...


History = Sequence[tuple[int, RecordedProgram]]
"""The programs that were at one address, with the times since when."""


Moment = tuple[int, int]
"""Ticks and nanoseconds of one moment."""


def in_nanoseconds(ticks: npt.NDArray[np.int64], begin: Moment, end: Moment) -> Any:
    """Times between two moments, or a little before, whose ticks are given."""
    took_ticks, took_ns = end[0] - begin[0], end[1] - begin[1]
    if took_ticks <= 0:
        return np.full_like(ticks, begin[1])
    scaled = (ticks - begin[0]) * (took_ns / took_ticks)
    return begin[1] + np.rint(scaled).astype(np.int64)


def events_of(
    rows: Rows, programs: Mapping[int, History], accounts: Mapping[int, str]
) -> Iterator[TraceEvent]:
    """The events of some rows, kernels before the program that they belong to.

    Args:
        rows: in the order in which they were written.
        programs: who makes marks with an address.
        accounts: the device whose memory is counted at an address.
    """
    names = thread_tracks()
    helpers = helper_tracks(rows)
    rest = rows[~np.isin(rows[:, 1], (HELP, HELPED))]
    kernels: list[TraceEvent] = []
    for event in _by_threads(rest, names, helpers, programs, accounts):
        if event.category == "kernel" and helpers:
            kernels.append(event)
        yield event
    yield from help_events(rows[np.isin(rows[:, 3], list(helpers))], helpers, kernels)


def _by_threads(
    rows: Rows,
    names: Mapping[int, str],
    helpers: Mapping[int, str],
    programs: Mapping[int, History],
    accounts: Mapping[int, str],
) -> Iterator[TraceEvent]:
    for ident in dict.fromkeys(rows[:, 3].tolist()):
        name = names.get(ident, f"thread {ident:#x}")
        track = helpers.get(ident, f"stream ({name})")
        thread = _Thread(name, track, programs, accounts)
        for address, step, now, _ in rows[rows[:, 3] == ident].tolist():
            yield from thread.events(address, step, now)


class _Run:
    """A program that has begun, or a part of one in a fork."""

    def __init__(self, address: int, program: RecordedProgram, start: int) -> None:
        self.address = address
        self.program = program
        self.start = self.last = start


class _Thread:
    """What one thread is doing: a program, a part of one, or one that another program called."""

    def __init__(
        self, name: str, track: str, programs: Mapping[int, History], accounts: Mapping[int, str]
    ) -> None:
        self._name = name
        self._track = track
        self._programs = programs
        self._accounts = accounts
        self._runs: list[_Run] = []
        self._known: dict[tuple[int, int], Mapping[str, Any]] = {}

    def events(self, address: int, step: int, now: int) -> Iterator[TraceEvent]:
        """What a mark says has ended."""
        if step <= FIRST_MEMORY:
            device = self._accounts.get(address)
            if device is not None:
                yield TraceEvent("memory", COUNTER, now, 0, device, {"value": FIRST_MEMORY - step})
        elif step in (BEGIN, PART):
            program = _at(self._programs.get(address, ()), now)
            if program is not None:
                self._runs.append(_Run(address, program, now))
        elif self._runs and self._runs[-1].address == address:
            yield from self._ended(step, now)

    def _ended(self, step: int, now: int) -> Iterator[TraceEvent]:
        run = self._runs[-1]
        track = f"{run.program.device}/{self._track}"
        if step in (END, PART_ENDED):
            self._runs.pop()
            for outer in self._runs[-1:]:
                outer.last = now
            if step == END:
                yield self._finished(run, now, track)
            return
        args, start, run.last = self._args(run, step), run.last, now
        category = "copy" if step == COPY else "kernel"
        yield TraceEvent(args["hlo_op"], category, start, now - start, track, args)

    def _finished(self, run: _Run, now: int, track: str) -> TraceEvent:
        name = run.program.name
        args = {"hlo_module": name, "thread": self._name}
        return TraceEvent(name, "cluster", run.start, now - run.start, track, args)

    def _args(self, run: _Run, step: int) -> Mapping[str, Any]:
        key = id(run.program), step
        if key not in self._known:
            self._known[key] = _described(run.program, step)
        return self._known[key]


def _described(program: RecordedProgram, step: int) -> Mapping[str, Any]:
    if not 0 <= step < len(program.operations):
        return {"hlo_op": "copy", "hlo_module": program.name}
    return program.operations[step].to_args(program.name)


def _at(history: History, now: int) -> RecordedProgram | None:
    """The program that was at an address at a time."""
    index = bisect_right([since for since, _ in history], now)
    return history[index - 1][1] if index else None
