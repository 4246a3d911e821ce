"""DeviceMemory: a range of bytes that one executor allocated; statistics about such memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from xladev.errors import ArgumentError

HostBytes = npt.NDArray[np.uint8]
"""Host memory as the contract passes it: one dimension, contiguous, uint8."""


class MemoryOwner(Protocol):
    """The part of `Executor` that memory refers to."""

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        """See `Executor.copy_to_device`."""
        ...

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        """See `Executor.copy_to_host`."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A range of bytes on a device; does not own them.

    Attributes:
        executor: who allocated it.
        handle: what the platform knows it by: an address, an index, an object; never anything
            that `Executor.allocate`, `wrap_host` or `from_dlpack` did not give.
        offset: first byte of the range within what ``handle`` means.
        nbytes: length of the range in bytes; 0 is allowed.
        memory_space: index into `DeviceDescription.memory_spaces`; what `Executor.allocate` was
            asked for.
    """

    executor: MemoryOwner
    handle: Any
    offset: int
    nbytes: int
    memory_space: int = 0

    def slice(self, offset: int, nbytes: int) -> DeviceMemory:
        """The part of ``nbytes`` bytes from byte ``offset`` of this range.

        Raises:
            ArgumentError: it is not within this range.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise ArgumentError(
                f"bytes {offset} to {offset + nbytes} are outside a buffer of {self.nbytes} bytes"
            )
        return DeviceMemory(
            self.executor, self.handle, self.offset + offset, nbytes, self.memory_space
        )


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What is allocated on a device; all fields have defaults.

    Attributes:
        nbytes_in_use: bytes of live allocations.
        peak_nbytes: most bytes that were live at once.
        allocations: live allocations.
        total_allocations: allocations made since the device was opened.
        nbytes_limit: bytes that can be allocated in all; None if unknown.
        nbytes_reserved: bytes that the platform holds, in use or not; None if unknown.
    """

    nbytes_in_use: int = 0
    peak_nbytes: int = 0
    allocations: int = 0
    total_allocations: int = 0
    nbytes_limit: int | None = None
    nbytes_reserved: int | None = None
