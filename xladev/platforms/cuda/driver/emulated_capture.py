"""Emulated stream capture: work is recorded and not run; what CUDA forbids meanwhile is refused.

As with ``cudaStreamCaptureModeThreadLocal``, only the capturing thread is watched. Something
forbidden raises, and the capture ends in an error, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from xladev.platforms.cuda.driver.interface import DriverError

Work = Callable[[], None]


@dataclass(frozen=True, slots=True)
class EmulatedGraph:
    """Recorded work.

    Attributes:
        works: in order.
    """

    works: tuple[Work, ...]

    @property
    def nodes(self) -> int:
        """How much work there is."""
        return len(self.works)

    def run(self) -> None:
        """Does all of it, up to the first failure."""
        for work in self.works:
            work()


@dataclass(slots=True, eq=False)
class Capture:
    """A capture that has begun.

    Attributes:
        thread: who captures.
        works: what was recorded.
        broken: the first thing that was forbidden; empty if nothing was.
    """

    thread: int
    works: list[Work] = field(default_factory=list)
    broken: str = ""

    def refuse(self, status: str, what: str) -> DriverError:
        """The error of something forbidden; the capture is lost."""
        self.broken = self.broken or what
        return DriverError(f"{status}: {what} while a stream is captured")

    def graph(self) -> EmulatedGraph:
        """What was recorded.

        Raises:
            DriverError: something was forbidden.
        """
        if self.broken:
            raise DriverError(f"cudaErrorStreamCaptureInvalidated: {self.broken}")
        return EmulatedGraph(tuple(self.works))


class Captures:
    """The captures of one driver. Thread-safe."""

    def __init__(self) -> None:
        self._open: dict[int, Capture] = {}

    def begin(self) -> Capture:
        """Begins a capture by this thread.

        Raises:
            DriverError: it captures already.
        """
        thread = threading.get_ident()
        self.forbid("cudaStreamBeginCapture")
        made = self._open[thread] = Capture(thread)
        return made

    def end(self, capture: Capture) -> EmulatedGraph:
        """Ends a capture.

        Raises:
            DriverError: another thread does, or something was forbidden.
        """
        if capture.thread != threading.get_ident():
            raise capture.refuse("cudaErrorStreamCaptureWrongThread", "another thread ends it")
        del self._open[capture.thread]
        return capture.graph()

    def forbid(self, what: str) -> None:
        """Refuses something to a thread that captures.

        Raises:
            DriverError: it does.
        """
        capture = self._open.get(threading.get_ident())
        if capture is not None:
            raise capture.refuse("cudaErrorStreamCaptureUnsupported", what)
