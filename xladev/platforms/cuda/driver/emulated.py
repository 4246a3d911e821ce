"""The emulated driver: memory, streams and kernels of a GPU that is not there, on the host.

Kernels are the same functions of one thread that a GPU runs, with every access checked
(`codegen.simt.emulation`). New memory holds a pattern, not zeros; freed memory is known as freed.
"""

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xladev.codegen.simt.emulation.host_code import HostKernel
from xladev.codegen.simt.emulation.host_threads import PATTERN
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.errors import OptionError
from xladev.platforms.cuda.driver.emulated_calls import EmulatedCall
from xladev.platforms.cuda.driver.emulated_capture import (
    CapturedMark,
    Captures,
    EmulatedGraph,
    Line,
    Work,
)
from xladev.platforms.cuda.driver.emulated_collectives import EmulatedGroup
from xladev.platforms.cuda.driver.emulated_libraries import EmulatedLibraries
from xladev.platforms.cuda.driver.emulated_nccl import EmulatedNccl
from xladev.platforms.cuda.driver.emulated_queue import (
    Awaited,
    EmulatedQueue,
    ExecutionOrder,
    Failures,
    QueuedEvent,
)
from xladev.platforms.cuda.driver.interface import (
    Allocation,
    DeviceProperties,
    DriverDevice,
    DriverError,
    DriverEvent,
    DriverFunction,
    DriverGraph,
    DriverMemoryError,
    MemoryInfo,
)
from xladev.platforms.cuda.libraries.solver_calls import WAITING
from xladev.runtime.memory import HostBytes

SEED_VARIABLE = "XLADEV_CUDA_EMU_SEED"
MEMORY_NBYTES = 4 << 30
"""Memory of one emulated device; the host's is used as it is allocated."""
ALIGNMENT = 256
POOL_NBYTES = 64 << 20
"""Freed memory that is kept for what is allocated next."""


class EmulatedMemory:
    """The allocations of one device. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}
        self._freed: dict[int, list[HostBytes]] = {}
        self._freed_nbytes = 0

    def allocate(self, nbytes: int) -> Allocation:
        """New memory.

        Raises:
            DriverMemoryError: it does not fit.
        """
        with self._lock:
            if self.in_use + nbytes > self.limit:
                raise DriverMemoryError(
                    f"{nbytes} bytes do not fit: {self.in_use} of {self.limit} are in use"
                )
            raw = self._taken(nbytes + ALIGNMENT)
            address = -(-_address_of(raw) // ALIGNMENT) * ALIGNMENT
            made = Allocation(address, nbytes, raw)
            bisect.insort(self._starts, address)
            self._live[address] = made
            self.in_use += nbytes
            return made

    def free(self, allocation: Allocation) -> None:
        """Forgets an allocation.

        Raises:
            DriverError: it is not one, or was freed before.
        """
        with self._lock:
            if self._live.get(allocation.address) is not allocation:
                raise DriverError(f"address {allocation.address:#x} was not allocated, or freed")
            del self._live[allocation.address]
            self._starts.remove(allocation.address)
            self.in_use -= allocation.nbytes
            self._keep(allocation.owner)

    def _taken(self, nbytes: int) -> HostBytes:
        """Memory that holds the pattern: what was freed last, if it is of that size."""
        kept = self._freed.get(nbytes)
        if not kept:
            return np.full(nbytes, PATTERN, np.uint8)
        self._freed_nbytes -= nbytes
        raw = kept.pop()
        raw.fill(PATTERN)
        return raw

    def _keep(self, raw: object) -> None:
        """Keeps freed memory for the next of its size, as a pool does: addresses come again."""
        if isinstance(raw, np.ndarray) and self._freed_nbytes + raw.nbytes <= POOL_NBYTES:
            self._freed.setdefault(raw.nbytes, []).append(raw)
            self._freed_nbytes += raw.nbytes

    def bytes_at(self, address: int, nbytes: int) -> HostBytes:
        """The bytes of a range.

        Raises:
            DriverError: it is not within one live allocation.
        """
        with self._lock:
            place = bisect.bisect_right(self._starts, address) - 1
            found = self._live[self._starts[place]] if place >= 0 else None
        if found is None or address + nbytes > found.address + found.nbytes:
            raise DriverError(f"{nbytes} bytes at {address:#x} are in no live allocation")
        raw = found.owner
        assert isinstance(raw, np.ndarray)  # made by allocate
        begin = address - _address_of(raw)
        return raw[begin : begin + nbytes]


def _address_of(data: HostBytes) -> int:
    address: int = data.__array_interface__["data"][0]
    return address


@dataclass(frozen=True, slots=True)
class EmulatedFunction:
    """A kernel in this process."""

    name: str
    kernel: HostKernel


class EmulatedStream:
    """A queue of one device."""

    def __init__(
        self,
        memory: EmulatedMemory,
        schedule: ExecutionOrder,
        captures: Captures,
        failures: Failures | None = None,
    ) -> None:
        self._memory = memory
        self._schedule = schedule
        self._captures = captures
        self._line: Line | None = None
        self._queue = EmulatedQueue(failures=failures or Failures())

    @property
    def _captured(self) -> Line | None:
        """Its part of a capture, if it takes part in one that has not ended."""
        return self._line if self._line is not None and self._line.capture.is_open else None

    def copy_to_device(self, address: int, source: HostBytes) -> None:
        """See `DriverStream.copy_to_device`."""
        self._captures.forbid("a copy from the host")
        self._enqueue(lambda: np.copyto(self._memory.bytes_at(address, source.nbytes), source))

    def copy_to_host(self, destination: HostBytes, address: int) -> None:
        """See `DriverStream.copy_to_host`."""
        self._captures.forbid("a copy to the host")
        nbytes = destination.nbytes
        self._enqueue(lambda: np.copyto(destination, self._memory.bytes_at(address, nbytes)))

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        """See `DriverStream.copy`."""
        memory = self._memory
        self._enqueue(
            lambda: np.copyto(memory.bytes_at(destination, nbytes), memory.bytes_at(source, nbytes))
        )

    def launch(
        self, function: DriverFunction, dimensions: LaunchDimensions, arguments: Sequence[int]
    ) -> None:
        """See `DriverStream.launch`.

        Raises:
            DriverError: a kernel of another driver, or another number of arguments.
        """
        if isinstance(function, EmulatedCall):
            self._call(function, list(arguments))
            return
        if not isinstance(function, EmulatedFunction):
            raise DriverError("the kernel belongs to another driver")
        kernel, addresses = function.kernel, list(arguments)
        if len(addresses) != len(kernel.nbytes):
            raise DriverError(
                f"{kernel.name} takes {len(kernel.nbytes)} arrays, not {len(addresses)}"
            )
        self._enqueue(lambda: self._run(kernel, dimensions, addresses))

    def _call(self, function: EmulatedCall, addresses: list[int]) -> None:
        if len(addresses) != function.buffers:
            raise DriverError(
                f"{function.name} takes {function.buffers} buffers, not {len(addresses)}"
            )
        if isinstance(function.call, WAITING):
            self._captures.forbid("a call that waits for its own results")
        self._enqueue(lambda: function.run(self._memory, addresses))

    def _run(self, kernel: HostKernel, dimensions: LaunchDimensions, addresses: list[int]) -> None:
        for address, nbytes in zip(addresses, kernel.nbytes, strict=True):
            if nbytes:
                self._memory.bytes_at(address, nbytes)
        order = self._schedule.random_order(dimensions.grid[0])
        warps = self._schedule.random_order(-(-dimensions.block[0] // 32))
        fault = kernel.run(dimensions.grid, dimensions.block, addresses, order, warps)
        if fault is not None:
            raise DriverError(f"{kernel.name}: {fault}")

    def record(self) -> QueuedEvent:
        """See `DriverStream.record`."""
        self._captures.forbid("an event")
        event = QueuedEvent(self._schedule)
        self._schedule.enqueue(self._queue, event)
        return event

    def stamp(self) -> QueuedEvent:
        """See `DriverStream.stamp`."""
        self._captures.forbid("an event")
        event = QueuedEvent(self._schedule, is_stamp=True)
        self._schedule.enqueue(self._queue, event)
        return event

    def call(self, work: Work) -> None:
        """Enqueues work of an emulated library."""
        self._enqueue(work)

    def expect(self, arrival: Awaited) -> None:
        """Makes what is enqueued later wait for what comes from outside the emulator."""
        self._captures.forbid("a wait for another process")
        self._schedule.enqueue(self._queue, (arrival,))

    def branch(self) -> EmulatedStream:
        """See `DriverStream.branch`."""
        self._captures.forbid("cudaStreamCreate")
        failures = self._queue.failures
        return EmulatedStream(self._memory, self._schedule, self._captures, failures)

    def mark(self) -> QueuedEvent | CapturedMark:
        """See `DriverStream.mark`."""
        if self._captured is not None:
            return self._captured.mark()
        event = QueuedEvent(self._schedule, is_stamp=True)
        self._schedule.enqueue(self._queue, event)
        return event

    def begin_capture(self) -> None:
        """See `DriverStream.begin_capture`."""
        self._line = Line(self._captures.begin())

    def end_capture(self) -> EmulatedGraph:
        """See `DriverStream.end_capture`."""
        line, self._line = self._line, None
        if line is None:
            raise DriverError("cudaErrorIllegalState: the stream is not captured")
        return self._captures.end(line, self._schedule.choose)

    def launch_graph(self, graph: DriverGraph) -> None:
        """See `DriverStream.launch_graph`."""
        if not isinstance(graph, EmulatedGraph):
            raise DriverError("the graph belongs to another driver")
        self._enqueue(graph.run)

    def wait(self, event: DriverEvent) -> None:
        """See `DriverStream.wait`."""
        if isinstance(event, CapturedMark):
            self._line = event.awaited_by(self._captured)
            return
        if not isinstance(event, QueuedEvent):
            raise DriverError("the event belongs to another driver")
        self._captures.forbid("a wait for work that is not captured")
        self._schedule.enqueue(self._queue, (event,))

    def _enqueue(self, work: Work) -> None:
        if self._captured is None:
            self._schedule.enqueue(self._queue, work)
        else:
            self._captured.add(work)


class EmulatedDevice:
    """One device."""

    def __init__(
        self, ordinal: int, memory: EmulatedMemory, schedule: ExecutionOrder, captures: Captures
    ) -> None:
        self._memory = memory
        self._captures = captures
        self._schedule = schedule
        self.libraries = EmulatedLibraries()
        self.properties = DeviceProperties(
            f"emulated GPU {ordinal}", (9, 0), os.cpu_count() or 1, memory.limit
        )

    def allocate(self, nbytes: int) -> Allocation:
        """See `DriverDevice.allocate`."""
        self._captures.forbid("an allocation")
        return self._memory.allocate(nbytes)

    def free(self, allocation: Allocation) -> None:
        """See `DriverDevice.free`."""
        self._captures.forbid("a deallocation")
        self._memory.free(allocation)

    def memory_info(self) -> MemoryInfo:
        """See `DriverDevice.memory_info`."""
        return MemoryInfo(self._memory.in_use, self._memory.in_use, self._memory.limit)

    def copy_to_device(self, address: int, source: HostBytes) -> None:
        """See `DriverDevice.copy_to_device`."""
        self._captures.forbid("a copy from the host")
        np.copyto(self._memory.bytes_at(address, source.nbytes), source)

    def copy_to_host(self, destination: HostBytes, address: int) -> None:
        """See `DriverDevice.copy_to_host`."""
        self._captures.forbid("a copy to the host")
        np.copyto(destination, self._memory.bytes_at(address, destination.nbytes))

    def create_stream(self) -> EmulatedStream:
        """See `DriverDevice.create_stream`."""
        return EmulatedStream(self._memory, self._schedule, self._captures)

    @property
    def dlpack_device(self) -> tuple[int, int] | None:
        """None: no other library knows emulated memory, and a host's would read it unwaited."""
        return None

    def wait_for_others(self) -> None:
        """See `DriverDevice.wait_for_others`; there are none."""

    def load(self, image: bytes, symbol: str) -> EmulatedFunction:
        """See `DriverDevice.load`; images come from `codegen.simt.emulation.host_code`."""
        self._captures.forbid("loading a kernel")
        return EmulatedFunction(symbol, HostKernel(image))

    def close(self) -> None:
        """See `DriverDevice.close`."""


class EmulatedDriver:
    """Any number of devices, whose streams share one schedule and one address space.

    Args:
        seed: of the order of work; None for what `XLADEV_CUDA_EMU_SEED` says, or 0.

    Raises:
        OptionError: the variable is no number.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = _seed() if seed is None else seed
        self._schedule = ExecutionOrder(self.seed)
        self._memory = EmulatedMemory(MEMORY_NBYTES)
        self._captures = Captures()
        self._nccl = EmulatedNccl(self._memory)
        self._count = 0

    def version(self) -> str:
        """That it is emulated, and the seed."""
        return f"emulated on the host, seed {self.seed}"

    def device_count(self) -> int:
        """As many as were provided."""
        return self._count

    def provide(self, count: int) -> int:
        """Devices after so many were asked for."""
        self._count = max(self._count, count)
        return self._count

    def group(self, devices: Sequence[DriverDevice]) -> EmulatedGroup:
        """See `Driver.group`."""
        return EmulatedGroup(self._memory, len(devices))

    def nccl(self) -> EmulatedNccl:
        """See `Driver.nccl`."""
        return self._nccl

    def open(self, ordinal: int) -> EmulatedDevice:
        """See `Driver.open`."""
        return EmulatedDevice(ordinal, self._memory, self._schedule, self._captures)


def _seed() -> int:
    text = os.environ.get(SEED_VARIABLE, "0")
    if not text.isdecimal():
        raise OptionError(f"{SEED_VARIABLE} is {text!r}", why="it must be a number from 0 on")
    return int(text)
