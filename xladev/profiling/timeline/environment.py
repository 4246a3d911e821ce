"""`XLADEV_TRACE=PATH`: a timeline of the whole process, written when it ends.

Imported by `import xladev` if the variable is set. Processes that this one starts or forks have the
variable too: their files are named after them.
"""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
from contextlib import suppress
from pathlib import Path

from xladev.errors import XladevError
from xladev.instrument import logger
from xladev.instrument.trace import forget_traces
from xladev.profiling.timeline.file import of_process
from xladev.profiling.timeline.session import Profile, profile

VARIABLE = "XLADEV_TRACE"
_OWNER = "XLADEV_TRACE_OWNER"
"""The process that the path belongs to; any other one adds its number."""

_log = logger("profile")
_running: Profile | None = None


def start() -> None:
    """Begins to record, unless the file could not be written; then says so and goes on."""
    global _running
    given = os.environ.get(VARIABLE, "")
    if not given or _running is not None:
        return
    owner = os.environ.setdefault(_OWNER, str(os.getpid()))
    with suppress(OSError):  # of a folder that is gone
        # forks and processes started later find the same folder, wherever they are
        given = os.environ[VARIABLE] = os.path.abspath(given)
    path = Path(given) if owner == str(os.getpid()) else of_process(Path(given))
    made = profile(path)
    try:
        made.__enter__()
    except XladevError as error:
        _log.error("%s is not honoured: %s", VARIABLE, error)
        return
    _running = made
    atexit.register(_finish, os.getpid())
    _finish_with_multiprocessing()


def _finish(process: int) -> None:
    """Writes the file of the process that ends."""
    global _running
    running, _running = _running, None
    if running is None or process != os.getpid():
        return
    running.stop(wait=True)
    try:
        running.write()
    except XladevError as error:
        _log.error("the timeline is lost: %s", error)


def _finish_with_multiprocessing(_: object = None) -> None:
    """Children of multiprocessing end without atexit."""
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _finish, args=(os.getpid(),), exitpriority=0)


def _restart() -> None:
    """A forked child begins a timeline of its own."""
    global _running
    if _running is not None:
        _running = None
        forget_traces()
        start()


os.register_at_fork(after_in_child=_restart)
multiprocessing.util.register_after_fork(start, _finish_with_multiprocessing)
