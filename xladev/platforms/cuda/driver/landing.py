"""Page-locked memory between a caller's arrays and a GPU: copies that need not be waited for.

What comes from the GPU lands in page-locked memory; it is moved on to the caller's array by whoever
first sees that an event behind the copy is ready. Page-locked memory is given back to a pool that
knows nothing of the GPU's work, so what a copy reads or writes is kept until the copy is done,
whether or not anybody keeps an event.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from xladev.runtime.memory import HostBytes

STAGED_NBYTES = 64 << 20
"""Copies of more bytes go straight from and to the caller's array."""


@dataclass(slots=True)
class _Copy:
    """A copy that was enqueued behind so many events.

    Attributes:
        events: how many were recorded before it.
        memory: what the GPU reads or writes.
        destination: where it goes on to; None if it goes nowhere.
    """

    events: int
    memory: HostBytes
    destination: HostBytes | None = None


@dataclass(slots=True)
class _UnderWay:
    """What is kept of one stream: copies, and events with a way to ask whether they are reached."""

    copies: deque[_Copy] = field(default_factory=deque[_Copy])
    events: deque[tuple[int, Callable[[], bool]]] = field(
        default_factory=deque[tuple[int, Callable[[], bool]]]
    )


class Landing:
    """Copies of one stream between host and GPU that are under way. Thread-safe.

    Args:
        allocate: gives page-locked memory of so many bytes, which is free with its last reference.
        synchronize: waits for the stream; called if the last reference goes while copies are
            under way.
    """

    def __init__(
        self, allocate: Callable[[int], HostBytes], synchronize: Callable[[], object]
    ) -> None:
        self._allocate = allocate
        self._under_way = _UnderWay()
        self._lock = threading.Lock()
        self._events = 0
        weakref.finalize(self, _drain, synchronize, self._under_way).atexit = False

    def outgoing(self, source: HostBytes) -> HostBytes:
        """A page-locked copy; the caller may change its array at once."""
        staged = source
        if source.nbytes <= STAGED_NBYTES:
            staged = self._allocate(source.nbytes)
            staged[:] = source
        self._keep(staged, None)
        return staged

    def incoming(self, destination: HostBytes) -> HostBytes:
        """Where to copy to what should come to ``destination``."""
        if destination.nbytes > STAGED_NBYTES:
            self._keep(destination, None)
            return destination
        staged = self._allocate(destination.nbytes)
        self._keep(staged, destination)
        return staged

    def _keep(self, memory: HostBytes, destination: HostBytes | None) -> None:
        with self._lock:
            self._under_way.copies.append(_Copy(self._events, memory, destination))

    def event(self, is_reached: Callable[[], bool]) -> int:
        """The number of an event that is recorded now.

        What lies behind events that were reached meanwhile is moved on and given back.

        Args:
            is_reached: asks the GPU, without waiting.
        """
        with self._lock:
            self._events += 1
            events = self._under_way.events
            events.append((self._events, is_reached))
            while events and events[0][1]():
                self._land(events.popleft()[0])
            return self._events

    def land(self, event: int) -> None:
        """Moves on what was copied before an event that is ready, and gives its memory back."""
        with self._lock:
            events = self._under_way.events
            while events and events[0][0] <= event:
                events.popleft()
            self._land(event)

    def _land(self, event: int) -> None:
        copies = self._under_way.copies
        while copies and copies[0].events < event:
            copy = copies.popleft()
            if copy.destination is not None:
                copy.destination[:] = copy.memory


def _drain(synchronize: Callable[[], object], under_way: _UnderWay) -> None:
    """Nobody can ask for these copies any more; their memory must not be used before they end."""
    if under_way.copies:
        with contextlib.suppress(Exception):  # a fault of the device: nothing runs any more
            synchronize()
    under_way.copies.clear()
