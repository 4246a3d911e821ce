"""The Event contract: a point in a stream, reached or not, with the error of the work before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from xladev.errors import XladevError
from xladev.runtime.host.watcher import watch


class Event(ABC):
    """A recorded point in a stream. Thread-safe; a vendor writes three functions at tier 4."""

    @abstractmethod
    def is_ready(self) -> bool:
        """True once everything enqueued before the event has finished or failed; never blocks."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> bool:
        """Blocks until ready; True if ready, False if ``timeout_s`` seconds passed before.

        Does not raise the error that the event may hold. Must release the GIL while it blocks.
        """

    @abstractmethod
    def error(self) -> XladevError | None:
        """Why the work before the event failed; None if it did not. Asked only when ready."""

    # Derived by the SDK

    def on_ready(self, callback: Callable[[XladevError | None], None]) -> None:
        """Calls ``callback(error)`` once, when ready: at once, or from the watcher's thread."""
        if self.is_ready():
            callback(self.error())
            return
        watch(self, callback)


class CompletedEvent(Event):
    """An event that was ready when it was made, as on a synchronous stream."""

    __slots__ = ("_error",)

    def __init__(self, error: XladevError | None = None) -> None:
        self._error = error

    def is_ready(self) -> bool:
        """True."""
        return True

    def wait(self, timeout_s: float | None = None) -> bool:
        """True, at once."""
        return True

    def error(self) -> XladevError | None:
        """The error it was made with."""
        return self._error


READY = CompletedEvent()
"""An event that is ready and holds no error."""
