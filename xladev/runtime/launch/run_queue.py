"""One asynchronous device during one run of a program: its kernels, and the copies beside them.

Each piece of work has an event of its own, recorded before anybody else enqueues: what reads its
results waits for that and for nothing that was enqueued later, and its failure is known to be its
own. Whatever the work uses is kept until that event is ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from xladev.errors import XladevError
from xladev.runtime.device import Device
from xladev.runtime.event import READY, Event
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.launch.slot_value import SlotValue
from xladev.runtime.launch.turn import end_turn
from xladev.runtime.stream import Endpoint, Stream, finish

Explain = Callable[[XladevError], XladevError]
_Kept = deque[tuple[DefinitionEvent, object]]

_SWEEP_EVERY = 16
"""Pieces of work between two looks at what is done."""


class RunQueue:
    """Used by one thread.

    Args:
        device: with an asynchronous stream.
        takes_turns: False for participants, which record in a turn but enqueue without one: their
            regions may wait for each other.

    Attributes:
        failed: the events that were seen ready and failed.
    """

    def __init__(self, device: Device, *, takes_turns: bool) -> None:
        self.device = device
        self.stream = device.stream
        self._takes_turns = takes_turns
        self._kept: tuple[_Kept, _Kept] = deque(), deque()
        self._count = 0
        self.failed: list[DefinitionEvent] = []

    def enqueue(
        self,
        work: Callable[[Stream], object],
        values: Sequence[SlotValue],
        keeps: object,
        explain: Explain,
        *,
        fails_alone: bool = False,
    ) -> DefinitionEvent:
        """Gives work to the device's stream.

        Args:
            work: enqueues it.
            values: what it reads; it begins when they are there.
            keeps: what it uses besides.
            explain: what an error of it is to say.
            fails_alone: True if what it reads may have failed and it did not: its results are
                `apart`.

        Returns:
            The event of what it writes.

        Raises:
            Exception: whatever the platform raised; what was enqueued before keeps what it uses.
        """
        device, stream, turn = self.device, self.stream, self.device.turn
        assert turn is not None, device.name
        raised: Exception | None = None
        try:
            if self._takes_turns:
                turn.take()
            try:
                for value in values:
                    self._join(stream, value)
                work(stream)
            except Exception as e:  # noqa: BLE001 (raised below, when what came before is recorded)
                raised = e
            turn.take()
            with device.call("Stream.record"):
                recorded = stream.record()
        except BaseException:
            finish(stream)
            raise
        finally:
            end_turn()
        upstream = () if fails_alone else [v.event for v in values]
        event = DefinitionEvent(
            device.name, recorded, upstream, explain=explain, is_read=raised is not None
        )
        self._keep(0, event, (values, keeps))
        if raised is not None:
            try:
                raise raised
            finally:
                raised = None  # or it holds itself, by the frame of its traceback
        return event

    def apart(self, event: DefinitionEvent, values: Sequence[SlotValue]) -> DefinitionEvent:
        """The event of one result of work that has others, which fails with these values too.

        Args:
            event: of the work.
            values: those that the result is computed from.
        """
        upstream = [*(v.event for v in values), event]
        return DefinitionEvent(self.device.name, event.recorded, upstream, is_read=True)

    def copy(
        self,
        destination: Endpoint,
        source: Endpoint,
        values: Sequence[SlotValue] = (),
        keeps: object = None,
        *,
        what: str,
        explain: Explain,
    ) -> DefinitionEvent:
        """Gives a copy to the stream of transfers; it runs beside kernels.

        Args:
            destination, source: as in `Stream.copy`.
            values: what it reads.
            keeps: what it uses besides.
            what: what a timeline calls it.
            explain: what an error of it is to say.
        """
        transfers = self.device.transfers
        with self.device.call("Stream.copy"):
            after = [e for v in values if (e := awaited_event(v, transfers.stream)) is not None]
            recorded = transfers.copy(destination, source, after, what)
        upstream = [v.event for v in values]
        event = DefinitionEvent(self.device.name, recorded, upstream, explain=explain)
        self._keep(1, event, (values, keeps, destination, source))
        return event

    def _join(self, stream: Stream, value: SlotValue) -> None:
        event = awaited_event(value, stream)
        if event is not None:
            with self.device.call("Stream.wait"):
                stream.wait(event)

    def _keep(self, row: int, event: DefinitionEvent, objects: object) -> None:
        self._kept[row].append((event, objects))
        self._count += 1
        if self._count % _SWEEP_EVERY == 0:
            self.sweep()

    def sweep(self) -> None:
        """Lets go of what finished work used."""
        for row in self._kept:
            while row and row[0][0].is_ready():
                event, _ = row.popleft()
                if event.failure() is not None:
                    self.failed.append(event)

    def wait(self) -> None:
        """Blocks until nothing uses what is kept, and lets go of it."""
        for row in self._kept:
            if row:
                row[-1][0].wait()
                for event, _ in row:
                    event.wait()
        self.sweep()

    def left(self) -> list[tuple[DefinitionEvent, object]]:
        """The work that was not seen done, with what it uses; given up to the caller."""
        self.sweep()
        left = [*self._kept[0], *self._kept[1]]
        for row in self._kept:
            row.clear()
        return left


def awaited_event(value: SlotValue, stream: Stream) -> Event | None:
    """What a stream has to wait for before it reads a value; None if it need not."""
    if value.stream is None or value.stream is stream or value.event.is_settled:
        return None
    recorded = value.event.recorded
    return None if recorded is READY else recorded
