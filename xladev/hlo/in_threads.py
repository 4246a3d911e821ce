"""Work on much data, shared among threads that live as long as it lasts.

For what lets go of the interpreter lock: NumPy's copies, hashes of long bytes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], items: Iterable[T], most: int | None = None) -> None:
    """Calls a function with each item; the calling thread takes part.

    Args:
        work: what to do; items are begun in order.
        items: for each of the calls.
        most: threads at most; by default one for each processor that the process may use.

    Raises:
        BaseException: what the first call that failed raised; the others are not begun then.
    """
    left = deque(items)
    count = min(len(left), processors() if most is None else most)
    raised: list[BaseException] = []

    def run() -> None:
        while left and not raised:
            with suppress(IndexError):
                item = left.popleft()
                try:
                    work(item)
                except BaseException as error:  # noqa: BLE001 (the caller raises it)
                    raised.append(error)

    helpers = [threading.Thread(target=run, daemon=True) for _ in range(count - 1)]
    for number, helper in enumerate(helpers):
        try:
            helper.start()
        except RuntimeError:  # none can be started while the interpreter ends
            del helpers[number:]
            break
    run()
    for helper in helpers:
        helper.join()
    if raised:
        raise raised[0]


def processors() -> int:
    """How many processors this process may run on: its affinity, where the system has one."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
