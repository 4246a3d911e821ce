"""Bytes at aligned addresses, for native code."""

from __future__ import annotations

import numpy as np

from xladev.platforms.cpu.payload import ALIGNMENT

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


def empty(nbytes: int) -> Bytes:
    """New memory at a multiple of `ALIGNMENT`; contents are arbitrary."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    skip = -address_of(raw) % ALIGNMENT
    return raw[skip:][:nbytes]  # at once, NumPy gives an empty part the address of the whole


def freeze(memory: Bytes) -> None:
    """Lets nobody write to what `empty` gave any more; views that were made of it still may."""
    memory.flags.writeable = False
    if isinstance(memory.base, np.ndarray):
        memory.base.flags.writeable = False


def aligned(data: bytes | bytearray | memoryview) -> Bytes:
    """A copy of the bytes at a multiple of `ALIGNMENT`."""
    copy = empty(len(data))
    copy[:] = np.frombuffer(data, np.uint8)
    return copy


def in_place(data: bytes | memoryview) -> Bytes:
    """The bytes where they are, if that is at a multiple of `ALIGNMENT`; else a copy.

    Args:
        data: what nobody writes to.
    """
    found = np.frombuffer(data, np.uint8)
    return found if address_of(found) % ALIGNMENT == 0 else aligned(data)


def address_of(array: np.ndarray[tuple[int], np.dtype[np.generic]]) -> int:
    """Address of an array's first byte."""
    return int(array.__array_interface__["data"][0])
