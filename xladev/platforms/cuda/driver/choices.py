"""Which of some ways to compute a library call was chosen: the same one each time it is asked for.

Ways differ in the order of their sums, so a program that is loaded twice gives the same bits only
if it gets the same way twice. A choice is kept while the process runs, and in the one on-disk
cache where there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from xladev.compiler.cache.store import store_of_environment

Way = TypeVar("Way")


class Choices:
    """What one device's library calls are computed by. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def choose(
        self,
        key: str,
        read: Callable[[bytes], Way | None],
        measure: Callable[[], Way],
        write: Callable[[Way], bytes],
    ) -> Way:
        """The way that was chosen for a key before, or else the one measured now.

        One choice is measured at a time, so that measurements do not disturb each other.

        Args:
            key: of the call, the library's version and the device.
            read: the way that some bytes name; None if the library does not have it any more.
            measure: finds the best.
            write: names a way in bytes.
        """
        with self._lock:
            store = store_of_environment()
            known = self._kept.get(key) or (store.read(key) if store else None)
            way = None if known is None else read(known)
            if known is None or way is None:
                way = measure()
                known = write(way)
                if store is not None:
                    store.write(key, known)
            self._kept[key] = known
            return way
