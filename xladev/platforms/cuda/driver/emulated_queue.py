"""Streams without a device: queues whose work runs when somebody waits, in a random legal order.

Work of one stream keeps its order; between streams only events order anything. So a program that
forgets to wait for an event computes wrong results here, sooner or later, and with one seed always
at the same point.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from xladev.platforms.cuda.driver.interface import DriverError

Work = Callable[[], None]
_NAP_S = 2e-4
"""Between two looks at what comes from outside."""


class Awaited(Protocol):
    """What a queue may wait for: an event, or what comes from outside the emulator."""

    @property
    def is_done(self) -> bool:
        """True once it is there."""
        ...


@dataclass(slots=True, eq=False)
class QueuedEvent:
    """A point in a queue.

    Attributes:
        schedule: what runs the work before it.
        is_done: True once that work has run.
        error: the first failure of it.
        done_at_s: when it was done, by the host's clock.
        is_stamp: it leaves failures to the next event.
    """

    schedule: ExecutionOrder
    is_done: bool = False
    error: DriverError | None = None
    done_at_s: float = 0.0
    is_stamp: bool = False

    def query(self) -> bool:
        """Runs a little of what is pending, so that whoever polls gets there."""
        return self.schedule.advance(lambda: self.is_done, most=1)

    def synchronize(self, timeout_s: float | None = None) -> bool:
        """Runs what is pending until the event is reached."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        return self.schedule.advance(lambda: self.is_done, deadline=deadline)

    def failure(self) -> DriverError | None:
        """The first failure before it."""
        return self.error

    def elapsed_ms(self, since: object) -> float:
        """Host time between two events: a measure of the emulator, not of any device."""
        if not isinstance(since, QueuedEvent):
            raise DriverError("an event of another driver")
        return (self.done_at_s - since.done_at_s) * 1e3


@dataclass(slots=True, eq=False)
class Failures:
    """Of a stream and its branches.

    Attributes:
        first: the first one since the last event that was reached and is no stamp.
    """

    first: DriverError | None = None

    def take(self) -> DriverError | None:
        """The first one, which is forgotten."""
        taken, self.first = self.first, None
        return taken


@dataclass(slots=True, eq=False)
class EmulatedQueue:
    """The pending work of one stream: functions, events to reach, and events to wait for.

    Attributes:
        items: what is pending, in order; an event that is waited for comes in a tuple of one.
        failures: of its work, and of that of its branches.
    """

    items: deque[Work | QueuedEvent | tuple[Awaited]] = field(default_factory=deque)
    failures: Failures = field(default_factory=Failures)

    def is_runnable(self) -> bool:
        """True if the first item may run now."""
        if not self.items:
            return False
        first = self.items[0]
        return not isinstance(first, tuple) or first[0].is_done

    def waits_outside(self) -> bool:
        """True if the first item waits for what no queue will do."""
        first = self.items[0] if self.items else None
        return isinstance(first, tuple) and not isinstance(first[0], QueuedEvent)


class ExecutionOrder:
    """Runs the work of all queues of one driver. Thread-safe.

    Args:
        seed: of the order.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._pending: list[EmulatedQueue] = []

    def enqueue(self, queue: EmulatedQueue, item: Work | QueuedEvent | tuple[Awaited]) -> None:
        """Puts an item at the end of a queue."""
        with self._lock:
            queue.items.append(item)
            if queue not in self._pending:
                self._pending.append(queue)

    def random_order(self, count: int) -> tuple[int, int]:
        """A random order of blocks or warps, as (step, first) with a step that reaches all."""
        with self._lock:
            first = self._random.randrange(count)
            return _coprime(self._random.randrange(count) | 1, count), first

    def choose(self, count: int) -> int:
        """A random number below ``count``; not drawn if there is one alone."""
        if count == 1:
            return 0
        with self._lock:
            return self._random.randrange(count)

    def advance(
        self, until: Callable[[], bool], *, most: int | None = None, deadline: float | None = None
    ) -> bool:
        """Runs pending work until a condition holds; whether it does.

        Args:
            until: the condition.
            most: items to run at most.
            deadline: time, by the monotonic clock, after which nothing more is begun.

        Raises:
            DriverError: nothing can run: streams wait for each other.
        """
        count = 0
        while not until():
            if (most is not None and count >= most) or _is_past(deadline):
                return False
            with self._lock:
                has_run = until() or self._run_one()
            if not has_run:
                time.sleep(_NAP_S)
            count += 1
        return True

    def _run_one(self) -> bool:
        """Runs an item; False if all wait for what comes from outside."""
        runnable = [q for q in self._pending if q.is_runnable()]
        if not runnable:
            if any(q.waits_outside() for q in self._pending):
                return False
            raise DriverError("streams wait for events that nobody will reach")
        queue = self._random.choice(runnable)
        item = queue.items.popleft()
        if not queue.items:
            self._pending.remove(queue)
        if isinstance(item, QueuedEvent):
            if not item.is_stamp:
                item.error = queue.failures.take()
            item.done_at_s = time.monotonic()
            item.is_done = True
        elif not isinstance(item, tuple):
            _run(queue, item)
        return True


def _run(queue: EmulatedQueue, work: Work) -> None:
    try:
        work()
    except DriverError as e:
        queue.failures.first = queue.failures.first or e


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline


def _coprime(step: int, count: int) -> int:
    """The next number from ``step`` on that has no divisor in common with ``count``."""
    from math import gcd

    while gcd(step, count) != 1:
        step += 1
    return step
