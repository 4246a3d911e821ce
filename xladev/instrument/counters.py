"""Named counters for statistics and tests: off until somebody collects them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from xladev.instrument.watching import watched

_lock = threading.Lock()
_open: tuple[Counter[str], ...] = ()


def counter(name: str, amount: int = 1) -> None:
    """Adds ``amount`` to counter ``name``, such as ``runtime.nbytes_to_device``."""
    if not _open:
        return
    with _lock:
        for counts in _open:
            counts[name] += amount


def counters() -> Mapping[str, int]:
    """What the innermost `collect_counters` has counted so far; empty while none is open."""
    with _lock:
        return dict(_open[-1]) if _open else {}


@contextmanager
def collect_counters() -> Iterator[Mapping[str, int]]:
    """Counts, in all threads, until the block ends; yields the live counts."""
    global _open
    counts: Counter[str] = Counter()
    with _lock:
        _open = (*_open, counts)
    try:
        with watched():
            yield counts
    finally:
        with _lock:
            _open = tuple(c for c in _open if c is not counts)
