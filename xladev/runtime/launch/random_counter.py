"""The counters behind `rng-get-and-update-state`: one per replica and partition, never reset."""

from __future__ import annotations

from collections import Counter
from threading import Lock

_WRAP = 2**64


class RandomCounter:
    """Counts from 0 for each device of a loaded program. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[int, int]] = Counter()

    def advanced(self, who: tuple[int, int], delta: int) -> int:
        """The count of (replica, partition) before ``delta`` is added to it, modulo 2**64."""
        with self._lock:
            before = self._counts[who]
            self._counts[who] = (before + delta) % _WRAP
        return before
