"""Whether anybody watches: one word that native code reads instead of asking each sink."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_watchers = array("q", [0])


@contextmanager
def watched() -> Iterator[None]:
    """Somebody traces or counts, in all threads, until the block ends."""
    _add(1)
    try:
        yield
    finally:
        _add(-1)


def watchers_address() -> int:
    """Where the number of open traces and collections is, as a signed 64-bit integer."""
    return _watchers.buffer_info()[0]


def _add(number: int) -> None:
    with _lock:
        _watchers[0] += number
