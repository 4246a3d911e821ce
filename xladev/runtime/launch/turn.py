"""Turn: who enqueues on an asynchronous stream, so that each launch is told its own failures.

The event of a launch has the first failure since the event recorded before it. So from the first
enqueue of a launch to its event, nobody else may enqueue or record. A launch whose host waits, or
that runs the user's code, records before and lets go of its turn meanwhile: whoever holds one ends
it without needing another, so no two threads wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class _Held(threading.local):
    """The turn of this thread; one at most."""

    turn: Turn | None = None


_held = _Held()


class Turn:
    """The turn on the stream of one device, which one thread has at a time. Thread-safe.

    An interruption may end `take` and `end_turn` anywhere: `end_turn` in a ``finally`` around both
    leaves nothing locked.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # which tells whether this thread holds it

    @property
    def is_held(self) -> bool:
        """Whether this thread has it."""
        return _held.turn is self

    def take(self) -> None:
        """Blocks until no other thread has it; nothing if this one has it already.

        A thread that has another turn lets go of that first; it has recorded before.
        """
        if _held.turn is self:
            return
        end_turn()
        _held.turn = self
        self._lock.acquire()
        _held.turn = self  # a signal's handler that launched meanwhile has ended it

    def _end(self) -> None:
        with suppress(RuntimeError):  # it was interrupted before it had the lock
            self._lock.release()


def end_turn() -> None:
    """Lets go of the turn that this thread has, if any."""
    turn = _held.turn
    if turn is not None:
        turn._end()
        _held.turn = None


@contextmanager
def turn_let_go() -> Iterator[None]:
    """Lets other threads launch while this one waits for what it has recorded."""
    turn = _held.turn
    end_turn()
    yield
    if turn is not None:
        turn.take()
