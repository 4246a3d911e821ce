"""Arrows from launches to what they made run, and launches that native code did by itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from xladev.instrument import TraceEvent, next_flow

_LAUNCHES = ("launch", "region")


@dataclass(frozen=True, slots=True)
class Arrow:
    """One flow.

    Attributes:
        number: of the flow.
        start, start_ns: the event that it comes from, and when it leaves.
        end: the event that it leads to, which it reaches as that begins.
    """

    number: int
    start: TraceEvent
    start_ns: int
    end: TraceEvent


def add_launches(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """The events, with one for each launch that no other event stands for: native ones."""
    hosts = _Launches(events)
    alone = (e for e in events if "thread" in e.args and hosts.around(e) is None)
    return [*events, *(_launch_of(each) for each in alone)]


def _launch_of(cluster: TraceEvent) -> TraceEvent:
    """The launch of a program that ran in the caller's thread."""
    args = {"device": cluster.track.partition("/")[0], "way": "native"}
    thread = str(cluster.args["thread"])
    return TraceEvent(
        cluster.name, "launch", cluster.start_ns, cluster.duration_ns, thread, args
    )  # fmt: skip


def arrows(events: Sequence[TraceEvent]) -> list[Arrow]:
    """All flows: those that events number, and one to each program that ran in its caller."""
    hosts = _Launches(events)
    starts = {e.leads_to: e for e in events if e.leads_to}
    found = [
        Arrow(e.follows, starts[e.follows], starts[e.follows].start_ns, e)
        for e in events
        if e.follows in starts and starts[e.follows].start_ns <= e.start_ns
    ]
    for event in events:
        launch = hosts.around(event) if "thread" in event.args else None
        if launch is not None:
            found.append(Arrow(next_flow(), launch, event.start_ns, event))
    return found


class _Launches:
    """The launches of each thread, to be found by what happened within."""

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        self._by_thread: dict[str, list[TraceEvent]] = {}
        for event in events:
            if event.category in _LAUNCHES:
                self._by_thread.setdefault(event.track, []).append(event)
        for launches in self._by_thread.values():
            launches.sort(key=lambda e: (e.start_ns, -e.duration_ns))
        self._starts = {
            thread: [e.start_ns for e in launches] for thread, launches in self._by_thread.items()
        }

    def around(self, event: TraceEvent) -> TraceEvent | None:
        """The innermost launch of the event's thread that it happened in."""
        thread = event.args["thread"]
        index = bisect_right(self._starts.get(thread, ()), event.start_ns)
        launches = self._by_thread.get(thread, [])[max(0, index - _NESTED) : index]
        end = event.start_ns + event.duration_ns
        within = (e for e in reversed(launches) if end <= e.start_ns + e.duration_ns)
        return next(within, None)


_NESTED = 16
"""Launches that begin between an outer one and something within it."""
