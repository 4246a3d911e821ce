"""Loops that must end: a call in another thread, as part of work that nobody waits for any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from xladev.instrument.interruption import Work

Result = TypeVar("Result")

_PATIENCE_S = 60


def call_in_ended_work(call: Callable[[], Result]) -> Result:
    """What `call` returns where its work was ended before it began.

    Raises:
        AssertionError: it has not returned after a minute; its thread is left behind.
    """
    results: list[Result] = []
    work = Work()
    work.end()

    def in_work() -> None:
        with work:
            results.append(call())

    thread = threading.Thread(target=in_work, daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    assert results, "the loop goes on"
    return results[0]
