"""Trace events: what ran when, on which track; the profiling layer turns them into files.

Times are nanoseconds of `time.perf_counter_ns`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from xladev.instrument.watching import watched

_NO_ARGS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One span of time.

    Attributes:
        name: what ran, such as ``fusion.3``.
        category: ``compile``, ``pass``, ``launch``, ``kernel``, ``copy``, ``collective``, ...
        start_ns: when it began.
        duration_ns: how long it took; 0 for an instant.
        track: where it ran: a thread's name, or a device and stream such as ``npu:0/compute``.
        args: further facts (bytes, flops, shapes), JSON-able.
    """

    name: str
    category: str
    start_ns: int
    duration_ns: int
    track: str
    args: Mapping[str, Any] = field(default_factory=lambda: _NO_ARGS)


class Trace:
    """The events of one tracing session, in order of their ends."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []

    def add(self, event: TraceEvent) -> None:
        """Records an event; safe from any thread."""
        self.events.append(event)


_trace: Trace | None = None
_OFF: AbstractContextManager[None] = nullcontext()


def trace_scope(name: str, category: str = "", **args: Any) -> AbstractContextManager[None]:
    """Records the time that a `with` block takes, on the calling thread's track."""
    if _trace is None:
        return _OFF
    return _scope(_trace, name, category, args)


def trace_event(
    name: str,
    category: str,
    start_ns: int,
    duration_ns: int,
    track: str,
    **args: Any,
) -> None:
    """Records a span measured elsewhere, such as on a device."""
    if _trace is not None:
        _trace.add(TraceEvent(name, category, start_ns, duration_ns, track, args))


@contextmanager
def _scope(trace: Trace, name: str, category: str, args: Mapping[str, Any]) -> Iterator[None]:
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        took = time.perf_counter_ns() - start
        track = threading.current_thread().name
        trace.add(TraceEvent(name, category, start, took, track, args))


@contextmanager
def tracing() -> Iterator[Trace]:
    """Records events of all threads until the block ends; an inner session takes them over."""
    global _trace
    outer, trace = _trace, Trace()
    _trace = trace
    try:
        with watched():
            yield trace
    finally:
        _trace = outer
