"""Streams and events over the driver's queues and fences.

What a vendor replaces: the driver's functions, one for one.
"""

from __future__ import annotations

from weakref import finalize

from xladev.errors import ExecutionError, XladevError
from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.driver import library as npu
from xladev.runtime.event import Event
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Endpoint, Reading, Stamp, Stream


def device_range(memory: DeviceMemory) -> npu.DeviceRange:
    """What the driver calls a piece of device memory."""
    device: int = memory.executor.device  # type: ignore[attr-defined]
    return npu.DeviceRange(device, memory.handle + memory.offset, memory.nbytes)


class NpuStream(Stream):
    """A queue of one device; destroyed with the last reference."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.queue = npu.npu_queue_create(device)
        finalize(self, _destroy, device, self.queue)

    def copy(self, destination: Endpoint, source: Endpoint) -> None:
        """Enqueues a copy."""
        npu.npu_copy(self.device, self.queue, _end(destination), _end(source))

    def record(self) -> Event:
        """A fence."""
        return NpuEvent(npu.npu_fence(self.device, self.queue))

    def wait(self, event: Event) -> None:
        """Makes the queue wait for a fence, not the caller."""
        if isinstance(event, NpuEvent):
            npu.npu_wait_fence(self.device, self.queue, event.fence)
        else:
            event.wait()

    def stamp(self) -> Stamp:
        """A time stamp of the queue."""
        return NpuStamp(npu.npu_stamp(self.device, self.queue))

    def synchronize(self) -> None:
        """Waits for a fence of its own."""
        self.record().wait()


class NpuStamp(Stamp):
    """A time stamp; released with the last reference."""

    def __init__(self, stamp: int) -> None:
        self.stamp = stamp
        finalize(self, npu.npu_release_stamp, stamp)

    def read(self) -> Reading | None:
        """Asks the driver, and counts busy cycles by engine."""
        found = npu.npu_read_stamp(self.stamp)
        if found is None:
            return None
        counters = found.counters
        busy = {f"{n} cycles": c for n, c in zip(isa.ENGINES, counters.busy, strict=True)}
        return Reading(found.time_ns, {"cycles": counters.cycles, **busy})


class NpuEvent(Event):
    """A fence; released with the last reference."""

    def __init__(self, fence: int) -> None:
        self.fence = fence
        finalize(self, npu.npu_release_fence, fence)

    def is_ready(self) -> bool:
        """Asks the driver."""
        return npu.npu_poll(self.fence)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Blocks in the driver, without the interpreter's lock."""
        return npu.npu_wait(self.fence, timeout_s)

    def error(self) -> XladevError | None:
        """The fault of the list that failed, with its instruction."""
        fault = npu.npu_fault(self.fence)
        if fault is None:
            return None
        return ExecutionError(
            "a command list faulted on the template NPU",
            why=str(fault),
            code=f"NPU_{fault.code.name}",
            hint="the disassembly names the instruction; dump the list with XLADEV_DUMP_TO",
        )


def _end(end: Endpoint) -> npu.DeviceRange | npu.HostBytes:
    return device_range(end) if isinstance(end, DeviceMemory) else end


def _destroy(device: int, queue: int) -> None:
    try:
        npu.npu_queue_destroy(device, queue)
    except npu.NpuError:
        return  # the device was closed before
