"""An array as the shim takes it."""

from __future__ import annotations

from typing import Any

from xladev.runtime.array import DeviceArray
from xladev.runtime.host_executor import host_address

Described = tuple[DeviceArray, int, int]
"""An array with its address (0: it has none that the host knows) and its size in bytes."""


def described(array: DeviceArray, *, with_address: bool) -> Described:
    """An array as the shim takes it: with address and size where the host can address it."""
    if not with_address:
        return array, 0, 0
    buffer: Any = array.buffer
    if buffer is None:
        return array, 0, 0
    return array, host_address(buffer.memory), array.nbytes
