"""What the library does when the interpreter exits, and in a child of fork."""

from __future__ import annotations

import atexit
import os
from functools import cache

from xladev.frontends.jax.library import load
from xladev.instrument import interruption


@cache
def prepare_exit() -> None:
    """Lets pending work end before the interpreter exits, and nothing enter it afterwards.

    If Ctrl-C ends the process, its loops end early. In a child of fork, what the parent was
    computing fails.
    """
    library = load()

    def leave() -> None:
        interruption.leave()
        library.xladev_drain()
        library.xladev_shut_down()

    atexit.register(leave)
    os.register_at_fork(after_in_child=library.xladev_after_fork)
