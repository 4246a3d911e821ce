"""Long calls that Ctrl-C can leave: native code looks at no signals, so another thread runs it.

Python handles signals in the main thread, between two of its own instructions. While that thread
waits for another one it can; while it is in native code it cannot.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def interruptible(call: Callable[[], T]) -> T:
    """What ``call`` gives or raises; in the main thread, Ctrl-C ends the wait for it.

    The call itself then goes on behind, keeps what it uses, and ends with the process at the
    latest. In any other thread, which gets no signals, it is simply called.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: Future[T] = Future()
    context = contextvars.copy_context()
    arguments = (context, call, outcome)
    threading.Thread(target=_run, args=arguments, name="xladev-call", daemon=True).start()
    return outcome.result()


def _run(context: contextvars.Context, call: Callable[[], T], outcome: Future[T]) -> None:
    try:
        outcome.set_result(context.run(call))
    except BaseException as error:  # noqa: BLE001 (raised where the caller waits)
        outcome.set_exception(error)
