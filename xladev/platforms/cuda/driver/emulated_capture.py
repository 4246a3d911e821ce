"""Emulated stream capture: work is recorded and not run; what CUDA forbids meanwhile is refused.

As with ``cudaStreamCaptureModeThreadLocal``, only the capturing thread is watched. Something
forbidden raises, and the capture ends in an error, too. A stream that waits for a mark of a
captured one joins the capture; the one that began it must have waited for all of them at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from xladev.platforms.cuda.driver.interface import DriverError, DriverEvent

Work = Callable[[], None]
Choose = Callable[[int], int]
"""Gives a random number below a count."""


@dataclass(frozen=True, slots=True)
class CapturedNode:
    """Recorded work.

    Attributes:
        work: what it does.
        after: numbers of the nodes that come before it.
    """

    work: Work
    after: frozenset[int]


@dataclass(frozen=True, slots=True)
class EmulatedGraph:
    """Recorded work and its order.

    Attributes:
        works: in the order in which it was recorded.
        choose: what runs first, of what may.
    """

    works: tuple[CapturedNode, ...]
    choose: Choose

    @property
    def nodes(self) -> int:
        """How much work there is."""
        return len(self.works)

    def run(self) -> None:
        """Does all of it in a random order that is legal, up to the first failure."""
        missing = [len(node.after) for node in self.works]
        followers: list[list[int]] = [[] for _ in self.works]
        for number, node in enumerate(self.works):
            for earlier in node.after:
                followers[earlier].append(number)
        ready = [number for number, count in enumerate(missing) if not count]
        while ready:
            number = ready.pop(self.choose(len(ready)))
            self.works[number].work()
            for later in followers[number]:
                missing[later] -= 1
                if not missing[later]:
                    ready.append(later)


@dataclass(slots=True, eq=False)
class Capture:
    """A capture that has begun.

    Attributes:
        thread: who captures.
        nodes: what was recorded.
        lines: the streams that take part; the first one began.
        broken: the first thing that was forbidden; empty if nothing was.
        is_open: it has not ended.
    """

    thread: int
    nodes: list[CapturedNode] = field(default_factory=list[CapturedNode])
    lines: list[Line] = field(default_factory=list["Line"])
    broken: str = ""
    is_open: bool = True

    def refuse(self, status: str, what: str) -> DriverError:
        """The error of something forbidden; the capture is lost."""
        self.broken = self.broken or what
        return DriverError(f"{status}: {what} while a stream is captured")

    def graph(self, choose: Choose) -> EmulatedGraph:
        """What was recorded.

        Raises:
            DriverError: something was forbidden; a stream was not waited for.
        """
        if self.broken:
            raise DriverError(f"cudaErrorStreamCaptureInvalidated: {self.broken}")
        done = self._before(self.lines[0].tail)
        if any(line.tail - done for line in self.lines):
            raise DriverError("cudaErrorStreamCaptureUnjoined: a stream that joined did not end")
        return EmulatedGraph(tuple(self.nodes), choose)

    def _before(self, last: frozenset[int]) -> set[int]:
        """Some nodes, and all that come before them."""
        found, pending = set[int](), list(last)
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending.extend(self.nodes[number].after)
        return found


class Line:
    """The part of a capture that one stream has.

    Attributes:
        capture: which one.
        tail: the nodes that come before the stream's next one.
    """

    def __init__(self, capture: Capture, tail: frozenset[int] = frozenset()) -> None:
        self.capture = capture
        self.tail = tail
        capture.lines.append(self)

    def add(self, work: Work) -> None:
        """Records work."""
        self.capture.nodes.append(CapturedNode(work, self.tail))
        self.tail = frozenset({len(self.capture.nodes) - 1})

    def mark(self) -> CapturedMark:
        """A point behind what was recorded."""
        return CapturedMark(self.capture, self.tail)


@dataclass(frozen=True, slots=True)
class CapturedMark:
    """A point in a capture.

    Attributes:
        capture: which one.
        tail: the nodes before it.
    """

    capture: Capture
    tail: frozenset[int]

    def awaited_by(self, line: Line | None) -> Line:
        """The part of the capture of a stream that waits for it; None: it takes part in none.

        Raises:
            DriverError: the capture has ended; the stream takes part in another one.
        """
        if not self.capture.is_open:
            raise DriverError("cudaErrorCapturedEvent: a wait for a capture that has ended")
        if line is None:
            return Line(self.capture, self.tail)
        if line.capture is not self.capture:
            raise line.capture.refuse("cudaErrorStreamCaptureMerge", "a wait for another capture")
        line.tail |= self.tail
        return line

    def query(self) -> bool:
        """Refused: nothing of a capture ever happens."""
        raise self._captured()

    def synchronize(self, timeout_s: float | None = None) -> bool:
        """Refused."""
        raise self._captured()

    def failure(self) -> DriverError | None:
        """None: nothing of a capture fails."""
        return None

    def elapsed_ms(self, since: DriverEvent) -> float:
        """Refused."""
        raise self._captured()

    def _captured(self) -> DriverError:
        return self.capture.refuse("cudaErrorCapturedEvent", "a question about a captured event")


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

    def end(self, line: Line, choose: Choose) -> EmulatedGraph:
        """Ends a capture.

        Args:
            line: the part of the stream that ends it.
            choose: see `EmulatedGraph`.

        Raises:
            DriverError: another thread does, or another stream than began; something was forbidden;
                a stream that joined was not waited for.
        """
        capture = line.capture
        if capture.thread != threading.get_ident():
            raise capture.refuse("cudaErrorStreamCaptureWrongThread", "another thread ends it")
        if line is not capture.lines[0]:
            raise capture.refuse("cudaErrorStreamCaptureUnmatched", "another stream ends it")
        del self._open[capture.thread]
        capture.is_open = False
        return capture.graph(choose)

    def forbid(self, what: str) -> None:
        """Refuses something to a thread that captures.

        Raises:
            DriverError: it does.
        """
        capture = self._open.get(threading.get_ident())
        if capture is not None:
            raise capture.refuse("cudaErrorStreamCaptureUnsupported", what)
