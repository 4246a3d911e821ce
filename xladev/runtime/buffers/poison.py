"""Poison: fresh memory filled with a pattern, so that what was never written shows at once.

A test flag. Memory that a program is given holds whatever was there before, which is zeros, or even
the right result of the last run, often enough for a wrong program to pass.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory

VARIABLE = "XLADEV_POISON"
PATTERN = 0xFF
"""Each byte: NaN of every floating-point type that has one, -1 of signed integers."""
MOST_NBYTES = 1 << 26
"""Bytes of a buffer that are filled, its first ones: more would touch memory that a test only
reserves."""

_word = array("q", [int(os.environ.get(VARIABLE, "") not in ("", "0"))])


def is_poisoning() -> bool:
    """True if `XLADEV_POISON` was neither empty nor 0 when the process began, or `poisoning`."""
    return _word[0] != 0


def poison_address() -> int:
    """The address of a signed 64-bit integer that native code reads: 0 while nothing is filled."""
    return _word.buffer_info()[0]


@contextmanager
def poisoning() -> Iterator[None]:
    """Fills memory that is allocated, by all threads, until the block ends."""
    before, _word[0] = _word[0], 1
    try:
        yield
    finally:
        _word[0] = before


def poison(executor: Executor, memory: DeviceMemory) -> None:
    """Fills memory that `Executor.allocate` just gave."""
    nbytes = min(memory.nbytes, MOST_NBYTES)
    executor.copy_to_device(memory.slice(0, nbytes), np.full(nbytes, PATTERN, np.uint8))
