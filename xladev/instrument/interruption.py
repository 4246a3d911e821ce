"""Interruptions: how loops that run for long learn that Ctrl-C ends them, in any thread.

Python handles signals in its main thread, between two of its own instructions, and so never while
that thread is in native code. So loops look now and then. In the main thread they let the handlers
of signals run, and end if one of them raises. In other threads they end soon after Ctrl-C
came, if Python's own handler answers it, which raises KeyboardInterrupt in the main thread. A
handler of the user's may want them to go on, and decides for the main thread alone.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import NoReturn

from xladev.errors import ExecutionError, InterruptionError

INTERRUPTED = 4
"""What native code returns when a look ended it; `rethrow` then raises why. EINTR's number."""

GRACE_S = 0.4
"""How long a loop may go on in another thread after Ctrl-C, to end by itself."""

_signals = array("q", [0])
_installers: list[Callable[[], None]] = []
_works: dict[int, Work] = {}
_kept: dict[int, BaseException] = {}


def signals_address() -> int:
    """Where the number of SIGINTs is that came to this process, as a signed 64-bit integer."""
    return _signals.buffer_info()[0]


def add_signal_counter(install: Callable[[], None]) -> None:
    """Registers a function that sees to it that `signals_address` counts; it is called often."""
    _installers.append(install)


def count_signals() -> None:
    """Counts SIGINTs from now on, where native code that can is in this process."""
    for install in _installers:
        install()


def is_main_thread() -> bool:
    """True in the thread that handles signals."""
    return threading.get_ident() == threading.main_thread().ident


class Work:
    """What one thread does for another one, which may end its loops: a context of the former."""

    __slots__ = ("is_ended",)

    def __init__(self) -> None:
        self.is_ended = False

    def __enter__(self) -> Work:
        _works[threading.get_ident()] = self
        return self

    def __exit__(self, *_: object) -> None:
        del _works[threading.get_ident()]

    def end(self) -> None:
        """Ends its loops, now or when they begin."""
        self.is_ended = True


def look(has_come: bool) -> bool:
    """Raises if loops of this thread must end; in the main thread, Python does that itself.

    A loop that Ctrl-C ends has some time left: one that takes less (a step of a training loop)
    gives its values as ever, and what was donated to it is not lost.

    Args:
        has_come: whether SIGINT came since this loop last had True.

    Returns:
        False while that time is not over.

    Raises:
        InterruptionError: they must.
    """
    if is_main_thread():
        return True
    count_signals()
    work = _works.get(threading.get_ident())
    if work is not None and work.is_ended:
        raise InterruptionError("a compiled loop was interrupted", why="its caller was interrupted")
    if _leaving.is_set():
        raise InterruptionError("a compiled loop was interrupted", why="the process ends by Ctrl-C")
    if not has_come or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return True
    if not _arrivals.is_over():
        return False
    raise InterruptionError("a compiled loop was interrupted by Ctrl-C")


class _Arrivals:
    """When loops first noticed the last SIGINT."""

    def __init__(self) -> None:
        self._last = 0, 0.0

    def is_over(self) -> bool:
        """Whether loops have had their time since then."""
        count, now = _signals[0], time.monotonic()
        if self._last[0] != count:
            self._last = count, now
        return now - self._last[1] >= GRACE_S


_arrivals = _Arrivals()
_leaving = threading.Event()


def leave() -> None:
    """Ends loops of all threads but the main one, from now on, if Ctrl-C ends the process."""
    last = getattr(sys, "last_type", None)
    if isinstance(last, type) and issubclass(last, KeyboardInterrupt):
        _leaving.set()


_FREE = Work()
"""That of threads that work for nobody."""


class LoopWatch:
    """Looks for interruptions of one loop that Python runs, once an iteration."""

    __slots__ = ("_is_main", "_seen", "_work")

    def __init__(self) -> None:
        self._is_main = is_main_thread()
        self._work = _works.get(threading.get_ident(), _FREE)
        if not self._is_main:
            count_signals()
        self._seen = _signals[0]

    def look(self) -> None:
        """Raises if the loop must end.

        Raises:
            InterruptionError: it must.
        """
        if self._is_main:
            return
        count = _signals[0]
        if count == self._seen and not _leaving.is_set() and not self._work.is_ended:
            return
        if look(count != self._seen):
            self._seen = count


def keep(error: BaseException) -> None:
    """Keeps what a look raised in native code, for `rethrow` in the same thread."""
    _kept[threading.get_ident()] = error


def rethrow() -> NoReturn:
    """Raises what `keep` was given in this thread.

    Raises:
        ExecutionError: that was nothing.
    """
    rethrow_of([threading.get_ident()])


def rethrow_of(threads: Sequence[int], instead: BaseException | None = None) -> NoReturn:
    """Raises what `keep` was given first in one of these threads.

    Args:
        threads: their identifiers.
        instead: what is raised if that is nothing.

    Raises:
        ExecutionError: that is nothing, too.
    """
    found = [_kept.pop(thread, None) for thread in threads]
    error = next(filter(None, found), instead)
    del found
    if error is None:
        raise ExecutionError(f"a program failed with status {INTERRUPTED}")
    try:
        raise error
    finally:
        del error, instead  # or the traceback's frame holds it, and it the frames of the launch
