"""Collectives of several processes that are under way on streams, and a thread that watches them.

NCCL leaves a stream waiting where another process is gone. So somebody asks how far the streams
are, and hears meanwhile what the job's connections say: after an error, or the time limit, the
communicator is aborted, the streams go on, and the events behind the collective have the error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from xladev.compiler.isolation import as_error
from xladev.errors import XladevError
from xladev.platforms.cuda.driver.interface import DriverEvent
from xladev.platforms.cuda.driver.rank_group import RankGroup
from xladev.platforms.cuda.faults import driver_errors
from xladev.runtime.distributed.transport import Channel, Exchange, Progress


@dataclass(frozen=True, slots=True)
class Begun:
    """Communicators or calls that NCCL has not begun yet: it waits for other processes."""

    ranks: RankGroup

    def progress(self) -> Progress:
        """See `JointWork.progress`."""
        is_over = self.ranks.is_begun
        return Progress.DONE if is_over else Progress.UNDER_WAY

    def trouble(self) -> str:
        """See `JointWork.trouble`: an error ends it, and is looked for later."""
        return ""


class JointCollective:
    """A collective that is on streams of this process.

    Args:
        ranks: that it is enqueued on.
        before, after: events of the streams around it.
        name: for messages.

    Attributes:
        is_over: True once it is known how it ended.
    """

    def __init__(
        self,
        ranks: RankGroup,
        before: Sequence[DriverEvent],
        after: Sequence[DriverEvent],
        name: str,
    ) -> None:
        self._ranks, self._before, self._after = ranks, tuple(before), tuple(after)
        self._name = name
        self._error: XladevError | None = None
        self._lock = threading.Lock()
        self.is_over = False

    def progress(self) -> Progress:
        """See `JointWork.progress`."""
        with driver_errors(self._name):
            if all(event.query() for event in self._after):
                return Progress.DONE
            has_begun = all(event.query() for event in self._before)
        return Progress.UNDER_WAY if has_begun else Progress.AHEAD

    def trouble(self) -> str:
        """See `JointWork.trouble`."""
        return self._ranks.trouble()

    def end(self, error: XladevError | None) -> None:
        """Notes how it ended, unless that is known."""
        with self._lock:
            if not self.is_over:
                self._error = error
                self.is_over = True

    def give_up(self, why: XladevError) -> None:
        """Notes that it failed, unless it is done: its ranks are ended next."""
        try:
            is_done = self.progress() is Progress.DONE
        except XladevError:
            is_done = False
        self.end(None if is_done else why)

    def failure(self) -> XladevError | None:
        """Why it failed; None if it did not, or is under way. Streams go on after that is known."""
        return self._error


Failed = Callable[[XladevError], None]
_Watched = tuple[JointCollective, Channel, Exchange, bytes, Failed]


class Watch:
    """A daemon thread that watches what was enqueued, one after the other."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Watched | None] = SimpleQueue()
        name = "xladev-nccl-watch"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def add(
        self,
        collective: JointCollective,
        channel: Channel,
        exchange: Exchange,
        also: bytes,
        failed: Failed,
    ) -> None:
        """Watches a collective.

        Args:
            collective: that was enqueued.
            channel, exchange, also: see `Channel.attend`.
            failed: called after it has its error; makes the streams go on.
        """
        self._queue.put((collective, channel, exchange, also, failed))

    def close(self) -> None:
        """Ends the thread, after what it watches."""
        self._queue.put(None)

    def _work(self) -> None:
        while (watched := self._queue.get()) is not None:
            collective, channel, exchange, also, failed = watched
            try:
                channel.attend(exchange, collective, also)
                collective.end(None)
            except Exception as e:  # noqa: BLE001 (the events behind the collective have it)
                error = as_error(e, exchange.name, "Communicator")
                collective.end(error)
                failed(error)
            del watched, collective, failed
