"""Page-locked memory between a caller's arrays and a GPU: copies that need not be waited for.

What comes from the GPU lands in page-locked memory; it is moved on to the caller's array by whoever
first sees that an event behind the copy is ready.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from xladev.runtime.memory import HostBytes

STAGED_NBYTES = 64 << 20
"""Copies of more bytes go straight from and to the caller's array."""


class Landing:
    """Copies of one stream that are on their way to the host. Thread-safe.

    Args:
        allocate: gives page-locked memory of so many bytes, which is free with its last reference.
    """

    def __init__(self, allocate: Callable[[int], HostBytes]) -> None:
        self._allocate = allocate
        self._pending: deque[tuple[int, HostBytes, HostBytes]] = deque()
        self._lock = threading.Lock()
        self._events = 0

    def outgoing(self, source: HostBytes) -> HostBytes:
        """A page-locked copy; the caller may change its array at once."""
        if source.nbytes > STAGED_NBYTES:
            return source
        staged = self._allocate(source.nbytes)
        staged[:] = source
        return staged

    def incoming(self, destination: HostBytes) -> HostBytes:
        """Where to copy to what should come to ``destination``."""
        if destination.nbytes > STAGED_NBYTES:
            return destination
        staged = self._allocate(destination.nbytes)
        with self._lock:
            self._pending.append((self._events, staged, destination))
        return staged

    def event(self) -> int:
        """The number of an event that is recorded now."""
        with self._lock:
            self._events += 1
            return self._events

    def land(self, event: int) -> None:
        """Moves on what was copied before an event that is ready."""
        with self._lock:
            while self._pending and self._pending[0][0] < event:
                _, staged, destination = self._pending.popleft()
                destination[:] = staged
