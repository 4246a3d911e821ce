"""Emulated library calls: they check what the real ones check, and compute with NumPy.

A call is checked twice, as on a GPU: when it is prepared (descriptors, types, leading dimensions)
and when it runs (addresses, alignment, that every element is in one live allocation). What it
may overwrite (its workspace, the triangle that a factorisation leaves) is filled with a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from xladev.codegen.simt.emulation.host_threads import PATTERN
from xladev.hlo import dtype as dt
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import LibraryCall
from xladev.runtime.memory import HostBytes

Array = npt.NDArray[Any]
"""Of emulated memory: writing to it writes there."""


class CallMemory(Protocol):
    """Emulated memory, as `driver.emulated` has it."""

    def bytes_at(self, address: int, nbytes: int) -> HostBytes:
        """The bytes of a range, which is in one live allocation."""
        ...


@dataclass(frozen=True, slots=True)
class Buffers:
    """The addresses that a call is launched with.

    Attributes:
        memory: what they point to.
        addresses: as `DriverStream.launch` was given them.
        function: of the library, for errors.
        invalid: the status of a wrong argument.
    """

    memory: CallMemory
    addresses: Sequence[int]
    function: str
    invalid: str

    def refuse(self, why: str) -> LibraryError:
        """The error of a wrong argument."""
        return LibraryError(self.function, self.invalid, why)

    def array(self, number: int, dtype: str, count: int) -> Array:
        """``count`` elements from the start of a buffer on.

        Raises:
            LibraryError: the address is no multiple of the element's size.
        """
        made = dt.by_name(dtype)
        nbytes = made.np.itemsize
        address = self.addresses[number]
        if address % nbytes:
            raise self.refuse(f"address {address:#x} of buffer {number} is not aligned to {nbytes}")
        return self.memory.bytes_at(address, count * nbytes).view(made.np)

    def matrices(
        self,
        number: int,
        dtype: str,
        batch: int,
        rows: int,
        columns: int,
        leading: int,
        stride: int,
    ) -> Array:
        """Column-major matrices as ``[batch, rows, columns]``."""
        last = (batch - 1) * stride + (columns - 1) * leading + rows
        flat = self.array(number, dtype, last)
        size = flat.itemsize
        steps = (stride * size, size, leading * size)
        found: Array = np.ndarray(
            (batch, rows, columns), flat.dtype, buffer=flat.view(np.uint8), strides=steps
        )
        return found

    def spoil(self, number: int, nbytes: int) -> None:
        """Overwrites a workspace, as its owner may."""
        if nbytes:
            self.memory.bytes_at(self.addresses[number], nbytes)[:] = PATTERN


Run = Callable[[Any, Buffers], None]


@dataclass(frozen=True, slots=True)
class Emulation:
    """How one kind of call is emulated.

    Attributes:
        function: of the library.
        invalid: its status for a wrong argument.
        buffers: how many a call has, without the workspace.
        check: refuses what the library refuses before it sees an address.
        run: computes.
    """

    function: str
    invalid: str
    buffers: Callable[[Any], int]
    check: Callable[[Any], None]
    run: Run


@dataclass(frozen=True, slots=True)
class EmulatedCall:
    """A prepared call.

    Attributes:
        name: of the kernel that it is.
        call: what is asked.
        emulation: how it is answered.
    """

    name: str
    call: LibraryCall
    emulation: Emulation

    @property
    def buffers(self) -> int:
        """How many addresses a launch has."""
        return self.emulation.buffers(self.call) + bool(self.call.workspace_nbytes)

    def run(self, memory: CallMemory, addresses: Sequence[int]) -> None:
        """Computes, or raises what the library would return."""
        found = self.emulation
        buffers = Buffers(memory, addresses, found.function, found.invalid)
        if self.call.workspace_nbytes:
            if addresses[-1] % 16:
                raise buffers.refuse("the workspace is not aligned to 16 bytes")
            buffers.spoil(len(addresses) - 1, self.call.workspace_nbytes)
        found.run(self.call, buffers)
