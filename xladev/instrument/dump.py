"""Dumps: intermediate products written to numbered files in a folder, one log line per file.

Environment: `XLADEV_DUMP_TO` names the folder; `XLADEV_DUMP_FILTER` is a regular expression that a
dump's name and suffix (``jit_step.after_cse.hlo``) must contain.
"""

from __future__ import annotations

import contextvars
import itertools
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xladev.errors import OptionError, XladevError

Content = str | bytes | Callable[[], str | bytes]
_log = logging.getLogger("xladev.dump")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_MAX_NAME = 120


class DumpFolder:
    """A folder that receives dumps under increasing numbers. Thread-safe.

    Args:
        folder: made when the first file is written.
        pattern: regular expression of the dumps wanted; empty means all.

    Raises:
        OptionError: ``pattern`` is no regular expression.
    """

    def __init__(self, folder: str | Path, pattern: str = "") -> None:
        self._folder = Path(folder)
        self._numbers = itertools.count(_last_number(self._folder) + 1)
        try:
            self._wanted = re.compile(pattern)
        except re.error as e:
            raise OptionError(
                f"dump filter {pattern!r} is no regular expression", why=str(e)
            ) from e

    def write(self, name: str, suffix: str, content: Content) -> Path | None:
        """Writes one file and returns its path; None if the filter does not want it.

        Raises:
            XladevError: the file cannot be written.
        """
        title = f"{name}.{suffix}"
        if not self._wanted.search(title):
            return None
        made = content() if callable(content) else content
        data = made.encode() if isinstance(made, str) else made
        path = self._folder / f"{next(self._numbers):04d}.{_safe(name)}.{_safe(suffix)}"
        self._store(path, data)
        _log.info("wrote %s (%d bytes)", path, len(data))
        return path

    def _store(self, path: Path, data: bytes) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as e:
            raise XladevError(
                f"cannot write dump {path}", why=str(e), hint="check XLADEV_DUMP_TO", code="DUMP"
            ) from e


def _last_number(folder: Path) -> int:
    """The highest number of a dump in the folder, so that a second run overwrites nothing."""
    numbers = (path.name.partition(".")[0] for path in folder.glob("[0-9]*.*"))
    return max((int(n) for n in numbers if n.isdecimal()), default=0)


def _safe(name: str) -> str:
    """A file name without separators or surprises."""
    return _UNSAFE.sub("_", name).strip(".")[:_MAX_NAME] or "_"


_UNREAD = object()
"""Stands for the environment's folder until the first question."""
_sink: object = _UNREAD
_lock = threading.Lock()
_override: contextvars.ContextVar[DumpFolder | None] = contextvars.ContextVar(
    "xladev_dump", default=None
)


def dump(name: str, suffix: str, content: Content) -> Path | None:
    """Writes a dump if dumps are on.

    Args:
        name: what is dumped, such as ``jit_step.after_cse``.
        suffix: file name suffix without its dot, such as ``hlo``, ``dot``, ``ll``.
        content: text or bytes, or a function that makes them (called only if wanted).

    Returns:
        The path of the file; None if dumps are off or the filter does not want it.

    Raises:
        XladevError: the file cannot be written.
    """
    folder = _folder()
    return None if folder is None else folder.write(name, suffix, content)


def dumping() -> bool:
    """True if dumps are on; for callers whose preparation is costly."""
    return _folder() is not None


@contextmanager
def dumping_to(folder: str | Path | None, pattern: str = "") -> Iterator[None]:
    """Sends the dumps of this thread's block to ``folder``; None changes nothing."""
    if folder is None:
        yield
        return
    token = _override.set(DumpFolder(folder, pattern))
    try:
        yield
    finally:
        _override.reset(token)


def _folder() -> DumpFolder | None:
    override = _override.get()
    if override is not None:
        return override
    sink = _sink
    if sink is None:
        return None
    return sink if isinstance(sink, DumpFolder) else _read_environment()


def _read_environment() -> DumpFolder | None:
    """Sets up the folder that the environment names, once."""
    global _sink
    with _lock:
        if _sink is _UNREAD:
            folder = os.environ.get("XLADEV_DUMP_TO")
            pattern = os.environ.get("XLADEV_DUMP_FILTER", "")
            _sink = DumpFolder(folder, pattern) if folder else None
        return _sink if isinstance(_sink, DumpFolder) else None


def reset_dumps() -> None:
    """Reads the environment again at the next dump."""
    global _sink
    _sink = _UNREAD
