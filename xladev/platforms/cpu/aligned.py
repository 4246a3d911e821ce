"""Bytes at aligned addresses, for native code."""

from __future__ import annotations

import numpy as np

from xladev.platforms.cpu.payload import ALIGNMENT

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


def aligned(data: bytes | bytearray | memoryview) -> Bytes:
    """A copy of the bytes at a multiple of `ALIGNMENT`."""
    raw = np.empty(len(data) + ALIGNMENT, np.uint8)
    skip = -address_of(raw) % ALIGNMENT
    raw[skip : skip + len(data)] = np.frombuffer(data, np.uint8)
    return raw[skip : skip + len(data)]


def address_of(array: np.ndarray[tuple[int], np.dtype[np.generic]]) -> int:
    """Address of an array's first byte."""
    return int(array.__array_interface__["data"][0])
