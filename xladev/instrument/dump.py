"""Dumps: intermediate products written to numbered files in a folder, one log line per file.

Files appear whole or not at all, and no process takes another's place. Those of a compilation are
told to whoever makes pages of them.

Environment: `XLADEV_DUMP_TO` names the folder; `XLADEV_DUMP_FILTER` is a regular expression that a
dump's name and suffix (``jit_step.after_cse.hlo``) must contain.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from xladev.errors import OptionError, XladevError, printable
from xladev.instrument.log import logger
from xladev.instrument.signals import pass_interruption

Content = str | bytes | Callable[[], str | bytes]
_log = logger("dump")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_MAX_NAME = 120
_MAX_TRIES = 10_000


@dataclass(frozen=True, slots=True)
class DumpGroup:
    """The dumps of one compilation.

    Attributes:
        number: of the compilation in its process.
        title: the module's name.
        platform: that it is compiled for.
    """

    number: int
    title: str
    platform: str


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """One file of a compilation.

    Attributes:
        path: of the file.
        name, suffix: what `dump` was called with.
        group: the compilation.
        is_last: True if the compilation dumps no more; ``path`` is then its folder.
    """

    path: Path
    name: str
    suffix: str
    group: DumpGroup
    is_last: bool = False


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
        data = printable(made).encode() if isinstance(made, str) else made
        path = self._store(f"{_safe(name)}.{_safe(suffix)}", data)
        _log.info("wrote %s (%d bytes)", path, len(data))
        group = _group.get()
        if group is not None:
            _tell(DumpedFile(path, name, suffix, group))
        return path

    def finish(self, group: DumpGroup) -> None:
        """Tells that a compilation dumps no more."""
        if self._folder.is_dir():
            _tell(DumpedFile(self._folder, "", "", group, is_last=True))

    def _store(self, title: str, data: bytes) -> Path:
        """Writes a file, whole or not at all."""
        draft = self._folder / f".{os.getpid()}.{threading.get_ident()}.{title}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(data)
                return self._numbered(draft, title)
            finally:
                with suppress(OSError):
                    draft.unlink()
        except OSError as e:
            pass_interruption(e)
            raise XladevError(
                f"cannot write dump {self._folder / title}",
                why=str(e),
                hint="check XLADEV_DUMP_TO",
                code="DUMP",
            ) from e

    def _numbered(self, draft: Path, title: str) -> Path:
        """The draft under the next number under which no other process has such a file."""
        for _ in range(_MAX_TRIES):
            path = self._folder / f"{next(self._numbers):04d}.{title}"
            try:
                os.link(draft, path)
            except FileExistsError:
                continue
            except OSError:  # a file system without links
                os.replace(draft, path)
            return path
        raise FileExistsError(f"{_MAX_TRIES} numbers are taken")


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


_group: contextvars.ContextVar[DumpGroup | None] = contextvars.ContextVar(
    "xladev_dump_group", default=None
)
_group_numbers = itertools.count(1)


def _tell(file: DumpedFile) -> None:
    """Tells the function that xladev names for making pages; what it fails in is only logged."""
    module, _, name = str(sys.modules["xladev"].__dict__["_DUMP_PAGES"]).partition(":")
    try:
        getattr(import_module(module), name)(file)
    except (XladevError, OSError) as error:  # compilation goes on without pages
        pass_interruption(error)
        _log.warning("no page of dumps in %s: %s", file.path.parent, error)


@contextmanager
def dump_group(title: str, platform: str) -> Iterator[None]:
    """The dumps of this thread's block are those of one compilation."""
    if not dumping():
        yield
        return
    group = DumpGroup(next(_group_numbers), title, platform)
    token = _group.set(group)
    try:
        yield
    finally:
        _group.reset(token)
        folder = _folder()
        if folder is not None:
            folder.finish(group)


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
