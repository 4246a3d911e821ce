"""One device: memory, kernels and streams, each a call or two of the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tests.async_npu.driver import library
from tests.async_npu.kernels import LAUNCHES, AsyncKernel, configure
from tests.async_npu.stream import MISTAKES, AsyncStream, check, device_address
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import DeviceError, OutOfMemoryError
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.memory import DeviceMemory, HostBytes, MemoryStats
from xladev.runtime.stream import Stream

NBYTES = 1 << 30
READS, WRITES = 1, 2


class AsyncExecutor(Executor):
    """An opened device; `DeviceMemory.handle` is an address."""

    def __init__(self, ordinal: int) -> None:
        self._driver = library.load()
        configure()
        self._device: int = self._driver.an_open(ordinal, NBYTES)

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        """Memory full of noise."""
        address = ctypes.c_uint64()
        made = self._driver.an_alloc(self._device, nbytes, alignment, ctypes.byref(address))
        if made == library.NO_MEMORY:
            raise OutOfMemoryError("async_npu has no room", why=f"{nbytes} bytes are wanted")
        memory = DeviceMemory(self, address.value, 0, nbytes, memory_space)
        try:
            check(made, "an allocation")
        except DeviceError:
            self._driver.an_free(self._device, address)
            raise
        return memory

    def deallocate(self, memory: DeviceMemory) -> None:
        """Gives it back at once; a mistake is raised by the next call, as none is expected here."""
        status = self._driver.an_free(self._device, memory.handle)
        if status:
            MISTAKES.append(library.WHY[status])

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        """Copies now, in no order with the queues."""
        pointer = source.__array_interface__["data"][0]
        address = device_address(destination)
        check(self._driver.an_write(address, pointer, source.nbytes), "a write of the host")

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        """Copies now, in no order with the queues."""
        pointer = destination.__array_interface__["data"][0]
        address = device_address(source)
        check(self._driver.an_read(address, pointer, source.nbytes), "a read of the host")

    def load_kernel(self, code: KernelCode) -> Kernel:
        """Reads a module."""
        return Kernel(code.entry, AsyncKernel.of(code.code))

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        """Enqueues a launch."""
        assert isinstance(stream, AsyncStream)
        count, sizes = len(buffers), [b.nbytes for b in buffers]
        read = kernel.handle.operand_count
        words = ctypes.c_uint64 * count
        addresses = words(*map(device_address, buffers))
        roles = (ctypes.c_uint8 * count)(*[READS] * read, *[WRITES] * (count - read))
        token = LAUNCHES.add(kernel.handle, sizes)
        status = self._driver.an_launch(stream.queue, token, count, addresses, words(*sizes), roles)
        if status:
            LAUNCHES.forget(token)
        check(status, kernel.name)

    def create_stream(self) -> AsyncStream:
        """A queue."""
        return AsyncStream(self._device)

    def memory_stats(self) -> MemoryStats:
        """What the driver says."""
        found = (ctypes.c_uint64 * 4)()
        self._driver.an_memory_info(self._device, found)
        in_use, peak, count, limit = found
        return MemoryStats(in_use, peak, count, nbytes_limit=limit)

    def close(self) -> None:
        """Ends the device's threads."""
        self._driver.an_close(self._device)
