"""The events of one run of parallel steps: recorded once, where something waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.plan.kernel_plan import Parallel
from xladev.compiler.streams.stream_waits import MAIN, START
from xladev.runtime.event import Event
from xladev.runtime.stream import Stream, finish


class StreamOrder:
    """Orders streams as a `Parallel` step says.

    Args:
        streams: the launch's own, then its branches; where there are fewer than the step has, each
            has the work of several, in its order.
        step: steps, their streams, and what they wait for.
    """

    def __init__(self, streams: Sequence[Stream], step: Parallel) -> None:
        self._streams = streams
        self._step = step
        self._rows = [row % len(streams) for row in step.streams]
        self._awaited = {number for row in (*step.waits, step.joins) for number in row}
        self._marks: dict[int, Event] = {}
        self._used: set[int] = set()
        if START in self._awaited:
            self._marks[START] = streams[MAIN].mark()

    def before(self, number: int) -> Stream:
        """The stream of a step, which waits for what the step must follow."""
        used = self._rows[number]
        self._used.add(used)
        for awaited in self._step.waits[number]:
            if self._row_of(awaited) != used:
                self._streams[used].wait(self._marks[awaited])
        return self._streams[used]

    def after(self, number: int) -> None:
        """Records the event of a step that was enqueued."""
        if number in self._awaited:
            self._marks[number] = self._streams[self._rows[number]].mark()

    def join(self) -> None:
        """Makes the launch's own stream wait for what others do last."""
        for number in self._step.joins:
            if self._row_of(number) != MAIN:
                self._streams[MAIN].wait(self._marks[number])

    def _row_of(self, number: int) -> int:
        return MAIN if number == START else self._rows[number]

    def join_all(self) -> None:
        """The same for whatever was enqueued, if not all of it was; raises nothing.

        What cannot be waited for by an event is waited for here.
        """
        for stream in sorted(self._used - {MAIN}):
            try:
                self._streams[MAIN].wait(self._streams[stream].mark())
            except Exception:  # noqa: BLE001 (the launch has failed, and says why)
                finish(self._streams[stream])
