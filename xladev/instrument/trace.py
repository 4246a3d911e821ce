"""Trace events: what ran when, on which track; the profiling layer turns them into files.

Times are nanoseconds of `time.perf_counter_ns`. What is measured elsewhere, by native code or by a
device, is told when a trace ends: by `Trace.add_later`, or by a `TraceSource`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from xladev.instrument.watching import watched

_NO_ARGS: Mapping[str, Any] = {}

COUNTER = "counter"
"""Category of events that are values at a time: their args are names and numbers."""

MOST_EVENTS = 1_000_000
"""Events that a trace keeps; more are counted and dropped."""


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
        leads_to: number of the flow that starts here, as of `next_flow`; 0 for none.
        follows: number of the flow that ends here; 0 for none.
    """

    name: str
    category: str
    start_ns: int
    duration_ns: int
    track: str
    args: Mapping[str, Any] = field(default_factory=lambda: _NO_ARGS)
    leads_to: int = 0
    follows: int = 0


class TraceSource(Protocol):
    """Something that measures by itself while anybody traces, and is asked for it afterwards."""

    def start(self) -> None:
        """Begins to measure."""
        ...

    def position(self) -> int:
        """How much was measured since `start`."""
        ...

    def events(self, since: int) -> tuple[Iterable[TraceEvent], int]:
        """What was measured since a position, and how many events were dropped."""
        ...

    def stop(self) -> None:
        """Ends measuring."""
        ...


class Trace:
    """The events of one tracing session, in order of their ends.

    Attributes:
        dropped: how many events did not fit.
        has_sources: whether it records what native code and devices measure.
    """

    def __init__(self, most_events: int = MOST_EVENTS, *, sources: bool = True) -> None:
        self.has_sources = sources
        self._most = most_events
        self._events: list[TraceEvent] = []
        self._later = deque[tuple[str, Callable[[], Iterable[TraceEvent]]]]()
        self._positions: dict[int, int] = {}
        self.dropped = 0

    @property
    def events(self) -> list[TraceEvent]:
        """What was recorded so far; what is told later comes last."""
        for device in dict.fromkeys(device for device, _ in tuple(self._later)):
            self.settle(device)
        return self._events

    def add(self, event: TraceEvent) -> None:
        """Records an event; safe from any thread."""
        if len(self._events) < self._most:
            self._events.append(event)
        else:
            self.dropped += 1

    def add_later(self, device: str, events: Callable[[], Iterable[TraceEvent]]) -> None:
        """Records what a function returns when the events are asked for; safe from any thread."""
        if len(self._later) < self._most:
            self._later.append((device, events))
        else:
            self.dropped += 1

    def settle(self, device: str) -> None:
        """Records now what was to be told later of a device, whose work is done."""
        for _ in range(len(self._later)):
            try:
                owner, events = self._later.popleft()
            except IndexError:  # another thread settles
                return
            if owner == device:
                self._extend(events())
            else:
                self._later.append((owner, events))

    def _extend(self, events: Iterable[TraceEvent]) -> None:
        for event in events:
            self.add(event)

    def _open(self, sources: Iterable[TraceSource]) -> None:
        self._positions = {id(source): source.position() for source in sources}

    def _close(self, sources: Iterable[TraceSource]) -> None:
        for source in sources:
            events, dropped = source.events(self._positions.get(id(source), 0))
            self.dropped += dropped
            self._extend(events)


_lock = threading.Lock()
_traces: tuple[Trace, ...] = ()
_sources: tuple[TraceSource, ...] = ()
_tracks: dict[int, str] = {}
_flows = itertools.count(1)
_OFF: AbstractContextManager[None] = nullcontext()


def is_tracing() -> bool:
    """Whether anybody traces."""
    return bool(_traces)


def next_flow() -> int:
    """A number for `TraceEvent.leads_to` that no other flow has."""
    return next(_flows)


def thread_track() -> str:
    """The track of the calling thread: its name, in which a slash would mean a device."""
    thread = threading.current_thread()
    track = thread.name.replace("/", "|")
    _tracks[thread.ident or 0] = track
    return track


def thread_tracks() -> dict[int, str]:
    """Tracks by the identifiers of threads: of those alive, and of those that recorded."""
    alive = {t.ident or 0: t.name.replace("/", "|") for t in threading.enumerate()}
    return {**alive, **_tracks}


def trace_scope(
    name: str, category: str = "", *, leads_to: int = 0, **args: Any
) -> AbstractContextManager[None]:
    """Records the time that a `with` block takes, on the calling thread's track."""
    return _Scope(name, category, args, leads_to) if _traces else _OFF


def trace_event(
    name: str,
    category: str,
    start_ns: int,
    duration_ns: int,
    track: str,
    **args: Any,
) -> None:
    """Records a span measured elsewhere, such as on a device."""
    if _traces:
        _record(TraceEvent(name, category, start_ns, duration_ns, track, args))


def trace_counter(name: str, track: str, value: float) -> None:
    """Records a value that changes over time, such as bytes in use on a device."""
    if _traces:
        now = time.perf_counter_ns()
        _record(TraceEvent(name, COUNTER, now, 0, track, {"value": value}))


def trace_later(device: str, events: Callable[[], Iterable[TraceEvent]]) -> None:
    """Records what a function returns when the trace ends, as devices tell times late."""
    for trace in _traces:
        trace.add_later(device, events)


def settle_traces(device: str) -> None:
    """Records what is still to be told of a device that goes away."""
    for trace in _traces:
        trace.settle(device)


def add_trace_source(source: TraceSource) -> None:
    """Asks a source, from now on, for what it measured while somebody traced."""
    global _sources
    with _lock:
        _sources = (*_sources, source)
        if any(t.has_sources for t in _traces):
            source.start()


def forget_traces() -> None:
    """Ends all traces without their events: those of the process that forked this one."""
    global _traces, _lock
    _lock = threading.Lock()
    _traces = ()
    for source in _sources:
        source.stop()


def _record(event: TraceEvent) -> None:
    for trace in _traces:
        trace.add(event)


class _Scope(AbstractContextManager[None]):
    """One span of the calling thread."""

    __slots__ = ("_args", "_category", "_leads_to", "_name", "_start")

    def __init__(self, name: str, category: str, args: Mapping[str, Any], leads_to: int) -> None:
        self._name = name
        self._category = category
        self._args = args
        self._leads_to = leads_to
        self._start = 0

    def __enter__(self) -> None:
        self._start = time.perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        took = time.perf_counter_ns() - self._start
        track = thread_track()
        _record(
            TraceEvent(
                self._name, self._category, self._start, took, track, self._args, self._leads_to
            )
        )


@contextmanager
def tracing(
    most_events: int = MOST_EVENTS, *, watch: bool = True, sources: bool = True
) -> Iterator[Trace]:
    """Records events of all threads until the block ends; sessions within see theirs as well.

    Args:
        most_events: how many are kept.
        watch: whether calls that native code could do alone go through Python, which says more of
            each.
        sources: whether what native code and devices measure is recorded too, which must first be
            made ready for it.
    """
    trace = Trace(most_events, sources=sources)
    with watched() if watch else nullcontext():
        _begin(trace)
        try:
            yield trace
        finally:
            _end(trace)


def _begin(trace: Trace) -> None:
    global _traces
    with _lock:
        if not _traces:
            _tracks.clear()
        if trace.has_sources:
            if not any(t.has_sources for t in _traces):
                for source in _sources:
                    source.start()
            trace._open(_sources)
        _traces = (*_traces, trace)


def _end(trace: Trace) -> None:
    global _traces
    with _lock:
        _traces = tuple(t for t in _traces if t is not trace)
        try:
            if trace.has_sources:
                trace._close(_sources)
        finally:
            if trace.has_sources and not any(t.has_sources for t in _traces):
                for source in _sources:
                    source.stop()
