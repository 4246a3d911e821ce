"""LAPACK on one thread, whatever the process has set: see `threads.ll`.

Results then have the same bits on any machine of one kind, and the parts of a program that our own
threads share do not start others.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from xladev.platforms.cpu.engine import LoadedObject
from xladev.platforms.cpu.lapack.found import Lapack, found_lapack, require
from xladev.platforms.cpu.lapack.routines import BEGIN, END, LIBRARY_PREFIX
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached

LAPACK_THREADS_LEVEL = 1
"""How far the code is optimised."""

_lock = threading.Lock()


def library_symbols(names: Sequence[str], where: str) -> dict[str, int]:
    """Addresses of what code imports of LAPACK, by name; in the order of the names.

    Raises:
        CompileError: this process has no LAPACK, or one without a routine.
    """
    routines = tuple(
        name.removeprefix(LIBRARY_PREFIX) for name in names if name not in (BEGIN, END)
    )
    known = {LIBRARY_PREFIX + routine: at for routine, at in require(routines, where).items()}
    with _lock:
        known.update(_make())
    return {name: known[name] for name in names}


@cache
def _make() -> Mapping[str, int]:
    words = "get", "set", "lock", "inside", "kept"
    code, _ = load_cached(
        "lapack_threads", lapack_threads_text(), LAPACK_THREADS_LEVEL, (BEGIN, END, *words)
    )
    keep_forever(code, *code.parts)
    found = found_lapack()
    if isinstance(found, Lapack) and found.threads is not None:
        ctypes.c_size_t.from_address(code.address("get")).value = found.threads.get
        ctypes.c_size_t.from_address(code.address("set")).value = found.threads.set
        os.register_at_fork(after_in_child=lambda: _forget_others(code))
    return MappingProxyType({symbol: code.address(symbol) for symbol in (BEGIN, END)})


def _forget_others(code: LoadedObject) -> None:
    """In a forked process: the threads that were among their calls are not here."""
    inside = ctypes.c_int64.from_address(code.address("inside"))
    kept = ctypes.c_int32.from_address(code.address("kept")).value
    ctypes.c_int32.from_address(code.address("lock")).value = 0
    if inside.value and kept > 1:
        found = found_lapack()
        if isinstance(found, Lapack) and found.threads is not None:
            ctypes.CFUNCTYPE(None, ctypes.c_int)(found.threads.set)(kept)
    inside.value = 0


def lapack_threads_text() -> str:
    """The code, as LLVM assembly."""
    return (Path(__file__).parent / "threads.ll").read_text("utf-8")
