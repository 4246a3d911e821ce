"""Exceptions that come from outside: what the handler of a signal raises where the program is.

Python runs handlers in the main thread, between two instructions of whatever runs there: a plugin,
a pass, a callback of the user. What they raise is for whoever installed them, and no fault of that.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

_VARIADIC = 0x04  # CO_VARARGS of inspect, which takes 10 ms to import


def is_interruption(raised: BaseException) -> bool:
    """True for Ctrl-C, and for what a handler of a signal raised; such an exception must pass.

    A handler is a function that was given the frame which it seems to be called from, as Python
    gives it to handlers, or the code of one that `signal.signal` has installed.
    """
    if isinstance(raised, KeyboardInterrupt):
        return True
    if threading.current_thread() is not threading.main_thread():
        return False
    frames = list(_frames(raised.__traceback__))
    installed = set(_installed())
    if any(frame.f_code in installed for frame in frames):
        return True
    # Last: a frame that was asked for its variables keeps them, and the exception among them.
    return any(map(_is_given, frames[1:], frames))


def pass_interruption(raised: BaseException) -> None:
    """Raises it again if it `is_interruption`: what a handler of OSErrors does first.

    A time limit's `TimeoutError` is one of them, and so is caught with those of the system.
    """
    if not is_interruption(raised):
        return
    try:
        raise raised
    finally:
        del raised  # or the traceback's frames hold it, and it the frames


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    """What was running, outermost first."""
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _is_given(called: FrameType, caller: FrameType) -> bool:
    """True if a function has its caller's frame among its arguments."""
    code = called.f_code
    is_variadic = bool(code.co_flags & _VARIADIC)
    count = code.co_argcount + code.co_kwonlyargcount + is_variadic
    given = [called.f_locals.get(name) for name in code.co_varnames[:count]]
    rest = given[-1] if is_variadic and isinstance(given[-1], tuple) else ()
    return any(value is caller for value in (*given, *rest))


def _installed() -> Iterator[CodeType]:
    """The code of all handlers."""
    for number in signal.valid_signals():
        code = _code_of(signal.getsignal(number))
        if code is not None:
            yield code


def _code_of(handler: Any) -> CodeType | None:
    """The code of a function, method, partial or callable object; None for the system's own."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = vars(type(handler)).get("__call__")
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
