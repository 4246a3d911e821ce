"""One device: memory, kernels and streams, each a call or two of the driver.

What a vendor replaces: the driver's functions, one for one; `_translated` shows how a status
becomes an error that says what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import finalize

from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import DeviceError, ExecutionError, OutOfMemoryError, XladevError
from xladev.platforms.template_npu.device.faults import FaultCode
from xladev.platforms.template_npu.device.timing import Counters
from xladev.platforms.template_npu.driver import library as npu
from xladev.platforms.template_npu.stream import NpuStream, device_range
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.memory import DeviceMemory, HostBytes, MemoryStats
from xladev.runtime.stream import Stream


class TemplateNpuExecutor(Executor):
    """An opened device; `DeviceMemory.handle` is an address."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        with driver_errors(f"npu:{ordinal}"):
            self.device = npu.npu_open(ordinal)
        self._finalizer = finalize(self, npu.npu_close, self.device)
        self._finalizer.atexit = False  # buffers may outlive it then

    # Tier 1

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        """Device memory."""
        with driver_errors(f"npu:{self.ordinal}"):
            address = npu.npu_alloc(self.device, nbytes, alignment)
        return DeviceMemory(self, address, 0, nbytes, memory_space)

    def deallocate(self, memory: DeviceMemory) -> None:
        """Gives it back."""
        with driver_errors(f"npu:{self.ordinal}"):
            npu.npu_free(self.device, memory.handle)

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        """Copies now."""
        with driver_errors(f"npu:{self.ordinal}"):
            npu.npu_write(self.device, device_range(destination).address, source)

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        """Copies now."""
        with driver_errors(f"npu:{self.ordinal}"):
            npu.npu_read(self.device, device_range(source).address, destination)

    # Tier 2

    def load_kernel(self, code: KernelCode) -> Kernel:
        """Loads a command list; it is unloaded with the last reference to the kernel's handle."""
        with driver_errors(code.entry):
            return Kernel(code.entry, _Program(self.device, npu.npu_load(self.device, code.code)))

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        """Submits the list with a DRAM window for each buffer.

        Raises:
            ExecutionError: the stream is another platform's, or the driver refused the list.
        """
        if not isinstance(stream, NpuStream):
            raise ExecutionError("the stream belongs to another platform", where=kernel.name)
        ranges = (device_range(b) for b in buffers)
        with driver_errors(kernel.name):
            npu.npu_submit(
                self.device,
                stream.queue,
                kernel.handle.number,
                [(r.address, r.nbytes) for r in ranges],
            )

    # Tier 4 and 5

    def create_stream(self) -> Stream:
        """A queue of the device."""
        return NpuStream(self.device)

    def memory_stats(self) -> MemoryStats:
        """What the driver's allocator says."""
        in_use, peak, blocks, total = npu.npu_memory_info(self.device)
        return MemoryStats(in_use, peak, blocks, nbytes_limit=total, nbytes_reserved=total)

    def close(self) -> None:
        """Closes the device; otherwise closed with the last reference to the executor."""
        self._finalizer()

    # Beyond the contract

    def counters(self) -> Counters:
        """Cycles, bytes and occupancy since the device was opened."""
        return npu.npu_counters(self.device)


class _Program:
    """A loaded command list, given back with the last reference."""

    def __init__(self, device: int, number: int) -> None:
        self.number = number
        finalize(self, _unload, device, number)


def _unload(device: int, number: int) -> None:
    try:
        npu.npu_unload(device, number)
    except npu.NpuError:
        return  # the device was closed before


@contextmanager
def driver_errors(where: str) -> Iterator[None]:
    """Turns a driver's status into an error of the SDK.

    Raises:
        OutOfMemoryError: memory that does not fit; the SDK then waits and tries again.
        DeviceError: any other status.
    """
    try:
        yield
    except npu.NpuError as e:
        raise _translated(e, where) from e


def _translated(e: npu.NpuError, where: str) -> XladevError:
    kind: Callable[..., XladevError] = (
        OutOfMemoryError if e.code is FaultCode.OUT_OF_MEMORY else DeviceError
    )
    return kind("the template NPU's driver refused a call", where=where, why=str(e))
