"""Pages of LLVM's own code, given back once a program is compiled: a process that runs needs none.

Its library is 150 MB, of which compiling maps some 70. They stay in the system's cache of files, so
the next compilation finds them there: mapping all of them again takes some milliseconds.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

COST_S = 0.005
"""Seconds by which the next compilation is longer once pages were given back: 2 to 5 ms."""

SHARE = 0.03
"""How much longer, at most, giving pages back may make all work of LLVM."""

_DONTNEED = 4
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) .*$")

Range = tuple[int, int]
"""Address of the first byte, and number of bytes."""


class CodePages:
    """Gives pages of a library back, as often as its work is worth it. Thread-safe.

    Args:
        name: part of the path of the library's file.
        give_back: takes a range of pages that the file can bring again.
    """

    def __init__(self, name: str, give_back: Callable[[Range], None] | None = None) -> None:
        self._name = name
        self._give_back = give_back or _give_back
        self._lock = threading.Lock()
        self._has_worked = False
        self._left_s = 0.0
        self._ranges: Sequence[Range] | None = None

    @contextmanager
    def work(self) -> Iterator[None]:
        """While the library works in this thread."""
        start = time.thread_time()
        try:
            yield
        finally:
            self.note_work(time.thread_time() - start)

    def note_work(self, seconds: float) -> None:
        """The library has worked so long."""
        with self._lock:
            self._has_worked = True
            self._left_s += seconds * SHARE

    def let_go(self) -> None:
        """Gives its pages back if it has worked since, and for long enough altogether."""
        with self._lock:
            if not self._has_worked or self._left_s < COST_S:
                return
            self._has_worked = False
            self._left_s -= COST_S
            if self._ranges is None:
                self._ranges = tuple(unchanged_ranges(self._name))
        for each in self._ranges:
            self._give_back(each)


def unchanged_ranges(name: str) -> Iterator[Range]:
    """Mappings of a file that cannot be written to, and of which no page was: the file has them.

    What was written to before it was protected, as a dynamic linker does, is left out.
    """
    if sys.platform != "linux":
        return
    found: tuple[int, int] | None = None
    for line in _mappings():
        mapping = _MAPPING.match(line)
        if mapping is not None:
            start, end = int(mapping[1], 16), int(mapping[2], 16)
            is_wanted = name in line and "w" not in mapping[3]
            found = (start, end - start) if is_wanted else None
        elif found is not None and line.split()[:2] == ["Anonymous:", "0"]:
            yield found


def _mappings() -> Sequence[str]:
    """What the system says of this process's mappings; nothing where it does not say."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return ()


def _give_back(pages: Range) -> None:
    """Unmaps pages; a failure leaves them where they are, which does no harm."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    madvise(*pages, _DONTNEED)


LLVM_PAGES = CodePages("libllvmlite")
"""Those of LLVM in this process."""
