"""HostExecutor: an executor whose device memory is host memory; NumPy arrays need no copy.

The base of the CPU, of interpreters and of emulators: it is complete up to tier 1.
"""

from __future__ import annotations

import numpy as np

from xladev.errors import ArgumentError
from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory, HostBytes


class HostMemory:
    """The handle of host memory.

    Attributes:
        data: the bytes; keeps their owner alive.
        address: of the first byte.
    """

    __slots__ = ("address", "data")

    def __init__(self, data: HostBytes) -> None:
        self.data = data
        self.address: int = data.__array_interface__["data"][0]


def host_address(memory: DeviceMemory) -> int:
    """The address of the first byte of memory of a HostExecutor."""
    address: int = memory.handle.address
    return address + memory.offset


def host_bytes(memory: DeviceMemory) -> HostBytes:
    """The bytes of memory of a HostExecutor, without a copy."""
    data: HostBytes = memory.handle.data
    return data[memory.offset : memory.offset + memory.nbytes]


class HostExecutor(Executor):
    """Tier 1 in host memory, with views and wrapping of NumPy arrays."""

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        """See `Executor.allocate`; contents are arbitrary."""
        raw = np.empty(nbytes + alignment - 1, np.uint8)
        skip = -raw.__array_interface__["data"][0] % alignment
        return DeviceMemory(self, HostMemory(raw[skip : skip + nbytes]), 0, nbytes, memory_space)

    def deallocate(self, memory: DeviceMemory) -> None:
        """Nothing: the handle's last reference frees the memory."""

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        """See `Executor.copy_to_device`."""
        np.copyto(_exactly(destination, source), source)

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        """See `Executor.copy_to_host`."""
        np.copyto(destination, _exactly(source, destination))

    def wrap_host(self, data: HostBytes) -> DeviceMemory:
        """Memory that is ``data`` itself."""
        return DeviceMemory(self, HostMemory(data), 0, data.nbytes)

    def host_view(self, memory: DeviceMemory) -> HostBytes:
        """The bytes of ``memory``."""
        return host_bytes(memory)


def _exactly(memory: DeviceMemory, other: HostBytes) -> HostBytes:
    if memory.nbytes != other.nbytes:
        raise ArgumentError(f"copy between {memory.nbytes} and {other.nbytes} bytes")
    return host_bytes(memory)
