"""One background thread that calls back when events are ready, for platforms without callbacks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

from xladev.errors import PluginError, XladevError
from xladev.instrument import logger

_log = logger("runtime")

Callback = Callable[[XladevError | None], None]
_POLL_S = 0.001


class Waitable(Protocol):
    """The part of `Event` that the watcher needs."""

    def is_ready(self) -> bool:
        """See `Event.is_ready`."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """See `Event.wait`."""
        ...

    def error(self) -> XladevError | None:
        """See `Event.error`."""
        ...


class Watcher:
    """Polls pending events in a daemon thread that starts with the first and ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[Waitable, Callback]] = []
        self._running = False

    def watch(self, event: Waitable, callback: Callback) -> None:
        """Calls ``callback(event.error())`` from the thread once ``event`` is ready."""
        with self._lock:
            self._pending.append((event, callback))
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="xladev-watcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                pending = self._pending
                if not pending:
                    self._running = False
                    return
                self._pending = []
            waiting = [item for item in pending if not _fire_if_ready(*item)]
            with self._lock:
                self._pending = waiting + self._pending
            if waiting:
                _wait_briefly(waiting[0][0])


def _fire_if_ready(event: Waitable, callback: Callback) -> bool:
    """Calls back if the event is ready or broken; True if it did."""
    error: XladevError | None
    try:
        if not event.is_ready():
            return False
        error = event.error()
    except Exception as e:  # noqa: BLE001 (a plugin's event may raise anything)
        error = PluginError(f"{type(event).__name__} raised {type(e).__name__}", why=str(e))
        error.__cause__ = e
    try:
        callback(error)
    except Exception:  # noqa: BLE001 (the user's callback may raise anything)
        _log.exception("a callback on an event raised")
    return True


def _wait_briefly(event: Waitable) -> None:
    """Waits for one event; what it raises is reported by the next look at it."""
    with contextlib.suppress(Exception):
        event.wait(_POLL_S)


_WATCHER = Watcher()
watch = _WATCHER.watch
