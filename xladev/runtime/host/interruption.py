"""Long calls that Ctrl-C can leave: kernels look at no signals, so another thread runs them.

Python handles signals in the main thread, between two of its own instructions. While that thread
waits for another one it can; while it is in a kernel it cannot. Loops end at their next look.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from xladev.instrument.interruption import Work

T = TypeVar("T")


def interruptible(call: Callable[[], T]) -> T:
    """What ``call`` gives or raises; in the main thread, Ctrl-C ends the wait for it.

    Loops of the call then end. A kernel goes on behind, keeps what it uses, and ends with the
    process at the latest. In any other thread, which gets no signals, the call is simply made.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed meanwhile; or what a handler of a signal raised.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: Future[T] = Future()
    context = contextvars.copy_context()
    work = Work()
    arguments = (context, call, outcome, work)
    thread = threading.Thread(target=_run, args=arguments, name="xladev-call", daemon=True)
    try:
        thread.start()
        return outcome.result()
    finally:
        work.end()


def _run(
    context: contextvars.Context, call: Callable[[], T], outcome: Future[T], work: Work
) -> None:
    try:
        with work:
            outcome.set_result(context.run(call))
    except BaseException as error:  # noqa: BLE001 (raised where the caller waits)
        outcome.set_exception(error)
