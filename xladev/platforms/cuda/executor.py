"""One device: memory, kernels and streams, each a call or two of the driver interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xladev.compiler.description import DeviceDescription
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import ExecutionError
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape
from xladev.platforms.cuda.description import describe_device
from xladev.platforms.cuda.dlpack import Borrowed, capsule_of, taken_from
from xladev.platforms.cuda.driver.interface import Allocation, DriverDevice, DriverFunction
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.graphs import CudaGraphs
from xladev.platforms.cuda.libraries.calls import FORMAT, read_call
from xladev.platforms.cuda.stream import CudaStream, device_address
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.launch_graphs import LaunchGraphs
from xladev.runtime.memory import DeviceMemory, HostBytes, MemoryStats
from xladev.runtime.stream import Stream


@dataclass(slots=True)
class _Counts:
    """Of allocations."""

    live: int = 0
    total: int = 0
    nbytes: int = 0
    peak_nbytes: int = 0

    def add(self, nbytes: int) -> None:
        """One more; asks no driver, which would take as long as the allocation."""
        self.live, self.total = self.live + 1, self.total + 1
        self.nbytes += nbytes
        self.peak_nbytes = max(self.peak_nbytes, self.nbytes)

    def remove(self, nbytes: int) -> None:
        """One less."""
        self.live -= 1
        self.nbytes -= nbytes


class CudaExecutor(Executor):
    """An opened device; `DeviceMemory.handle` is an `Allocation`.

    Args:
        device: of either driver.
        name: such as ``cuda:0``, for messages.
    """

    def __init__(self, device: DriverDevice, name: str) -> None:
        self.device = device
        self.name = name
        self._counts = _Counts()

    # Tier 1

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        """Memory from the driver's pool."""
        with driver_errors(self.name):
            made = self.device.allocate(nbytes + max(0, alignment - _ALIGNMENT))
        offset = -made.address % alignment
        self._counts.add(made.nbytes)
        return DeviceMemory(self, made, offset, nbytes, memory_space)

    def deallocate(self, memory: DeviceMemory) -> None:
        """Gives it back to the pool."""
        handle: Allocation = memory.handle
        if isinstance(handle.owner, Borrowed):
            handle.owner.give_back()
            return
        with driver_errors(self.name):
            self.device.free(handle)
        self._counts.remove(handle.nbytes)

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        """Copies now."""
        if source.nbytes:
            with driver_errors(self.name):
                self.device.copy_to_device(device_address(destination), source)

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        """Copies now."""
        if destination.nbytes:
            with driver_errors(self.name):
                self.device.copy_to_host(destination, device_address(source))

    # Tier 2

    def load_kernel(self, code: KernelCode) -> Kernel:
        """Loads a kernel; it is unloaded with the last reference to the kernel's handle."""
        with driver_errors(code.entry):
            return Kernel(code.entry, self._loaded(code))

    def _loaded(self, code: KernelCode) -> DriverFunction:
        if code.format == FORMAT:
            return self.device.libraries.prepare(read_call(code.code), code.entry)
        return self.device.load(code.code, code.entry)

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        """Enqueues a kernel on the addresses of its buffers.

        Raises:
            ExecutionError: the stream is another platform's.
        """
        if not isinstance(stream, CudaStream):
            raise ExecutionError("the stream belongs to another platform", where=kernel.name)
        function: DriverFunction = kernel.handle
        with driver_errors(kernel.name):
            stream.stream.launch(function, dimensions, [device_address(b) for b in buffers])

    def create_launch_graphs(self) -> LaunchGraphs | None:
        """CUDA graphs, unless ``XLADEV_CUDA_GRAPHS`` is 0."""
        if os.environ.get("XLADEV_CUDA_GRAPHS", "1") == "0":
            return None
        return CudaGraphs(self.create_stream)

    # Tiers 4 and 5

    def create_stream(self) -> Stream:
        """A stream of the driver."""
        with driver_errors(self.name):
            return CudaStream(self.device.create_stream())

    def to_dlpack(self, memory: DeviceMemory, shape: Shape, owner: object) -> object | None:
        """A capsule over the memory itself; None for emulated memory, and dtypes without code."""
        device = self.device.dlpack_device
        if device is None:
            return None
        return capsule_of(device_address(memory), shape, device, owner)

    def from_dlpack(self, producer: Any) -> tuple[DeviceMemory, Shape] | None:
        """The producer's memory itself, once its work is done; None if it is not dense."""
        device = self.device.dlpack_device
        if device is None or tuple(producer.__dlpack_device__()) != device:
            return None
        taken = taken_from(producer.__dlpack__(stream=_LEGACY_STREAM))
        if taken is None:
            return None
        with driver_errors(self.name):
            self.device.wait_for_others()
        nbytes = physical_nbytes(taken.shape)
        handle = Allocation(taken.address, nbytes, taken)
        return DeviceMemory(self, handle, 0, nbytes), taken.shape

    def device_pointer(self, memory: DeviceMemory) -> int | None:
        """The address, on a GPU."""
        return None if self.device.dlpack_device is None else device_address(memory)

    def memory_stats(self) -> MemoryStats:
        """What the pool says."""
        with driver_errors(self.name):
            info = self.device.memory_info()
        counts = self._counts
        peak = max(counts.peak_nbytes, info.in_use)
        return MemoryStats(info.in_use, peak, counts.live, counts.total, info.limit, info.reserved)

    # Optional

    def describe(self) -> DeviceDescription:
        """This very device."""
        return describe_device(self.device.properties, self.device.dlpack_device)

    def close(self) -> None:
        """Gives the pool's memory back."""
        with driver_errors(self.name):
            self.device.close()


_LEGACY_STREAM = 1
"""CUDA's default stream, as DLPack numbers it: a producer makes it wait for its own work."""
_ALIGNMENT = 256
"""What every allocation of a driver is aligned to."""
