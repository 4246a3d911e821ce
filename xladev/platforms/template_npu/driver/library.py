"""The driver: what a vendor's C library offers, as functions on integer handles.

Every function here stands for one of a C header: handles and addresses are integers, memory of the
host is bytes, nothing of xladev is known. Where C returns a status, these raise `NpuError` with
the same code. Calls come from any thread.

    npu_device_count, npu_open, npu_close
    npu_alloc, npu_free, npu_memory_info           device memory
    npu_load, npu_unload                           command lists
    npu_queue_create, npu_queue_destroy            queues: work in order, each by itself
    npu_submit, npu_copy, npu_fence, npu_wait_fence   what a queue takes
    npu_poll, npu_wait, npu_fault                  fences
    npu_stamp, npu_read_stamp                      time stamps in a queue
    npu_read, npu_write                            copies that return when done
    npu_counters                                   cycles, bytes, occupancy

What a vendor replaces: all of it, by `ctypes` (or cffi) calls into their own library.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xladev.platforms.template_npu.device.core import Core, CoreProgram
from xladev.platforms.template_npu.device.faults import FaultCode, FaultRecord
from xladev.platforms.template_npu.device.timing import Counters
from xladev.platforms.template_npu.driver.queue import CommandQueue, Fence

HostBytes = npt.NDArray[np.uint8]
DEFAULT_DEVICE_COUNT = 2
MAX_DEVICE_COUNT = 64
DRIVER_VERSION = "1.0"


class NpuError(Exception):
    """A call failed.

    Attributes:
        code: the status that the C function would have returned.
    """

    def __init__(self, code: FaultCode, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code


@dataclass(slots=True)
class _Device:
    core: Core
    programs: dict[int, CoreProgram] = field(default_factory=dict)
    queues: dict[int, CommandQueue] = field(default_factory=dict)


_simulated = list(range(DEFAULT_DEVICE_COUNT))
_devices: dict[int, _Device] = {}
_fences: dict[int, Fence] = {}
_stamps: dict[int, TimeStamp] = {}
_handles = itertools.count(1)


def _device(device: int) -> _Device:
    return _known(_devices, device, "device")


def _known(table: dict[int, Any], handle: int, kind: str) -> Any:
    found = table.get(handle)
    if found is None:
        raise NpuError(FaultCode.BAD_HANDLE, f"no {kind} {handle}")
    return found


def npu_device_count() -> int:
    """Number of devices."""
    return len(_simulated)


def npu_simulate_devices(count: int) -> int:
    """Adds devices until there are ``count``, or as many as can be; how many there are.

    Only a simulator has this.
    """
    _simulated.extend(range(len(_simulated), min(count, MAX_DEVICE_COUNT)))
    return len(_simulated)


def npu_open(ordinal: int) -> int:
    """Opens a device; its handle. BAD_HANDLE if there is none of that number."""
    if not 0 <= ordinal < len(_simulated):
        raise NpuError(FaultCode.BAD_HANDLE, f"no device number {ordinal}")
    handle = next(_handles)
    _devices[handle] = _Device(Core())
    return handle


def npu_close(device: int) -> None:
    """Closes a device: its queues end after what they hold, its memory is gone."""
    for queue in list(_device(device).queues):
        npu_queue_destroy(device, queue)
    del _devices[device]


# Memory


def npu_alloc(device: int, nbytes: int, alignment: int) -> int:
    """Address of new device memory; OUT_OF_MEMORY if it does not fit."""
    dram = _device(device).core.dram
    address = dram.allocate(nbytes, alignment)
    if not address:
        free = dram.data.nbytes - dram.in_use
        raise NpuError(FaultCode.OUT_OF_MEMORY, f"{nbytes} bytes do not fit, {free} are free")
    return int(address)


def npu_free(device: int, address: int) -> None:
    """Frees what `npu_alloc` gave; BAD_HANDLE for anything else."""
    dram = _device(device).core.dram
    if not dram.free(address):
        raise NpuError(FaultCode.BAD_HANDLE, f"nothing is allocated at {address:#x}")


def npu_memory_info(device: int) -> tuple[int, int, int, int]:
    """Bytes in use, most bytes ever in use, live blocks, bytes in all."""
    dram = _device(device).core.dram
    return dram.in_use, dram.peak, dram.blocks, dram.data.nbytes


def _memory(device: int, address: int, nbytes: int) -> HostBytes:
    dram = _device(device).core.dram
    if not dram.covers(address, nbytes):
        raise NpuError(FaultCode.DRAM_BOUNDS, f"{nbytes} bytes at {address:#x}")
    return dram.data[address : address + nbytes]


def npu_write(device: int, address: int, source: HostBytes) -> None:
    """Copies host memory to the device, now."""
    np.copyto(_memory(device, address, source.nbytes), source)


def npu_read(device: int, address: int, destination: HostBytes) -> None:
    """Copies device memory to the host, now."""
    np.copyto(destination, _memory(device, address, destination.nbytes))


# Programs


def npu_load(device: int, code: bytes) -> int:
    """Loads a command list; what is wrong with it shows when it runs, as a fault."""
    found = _device(device)
    handle = next(_handles)
    found.programs[handle] = found.core.load(code)
    return handle


def npu_unload(device: int, program: int) -> None:
    """Forgets a command list; submissions that wait still run."""
    programs = _device(device).programs
    _known(programs, program, "program")
    del programs[program]


def npu_program_counters(device: int, program: int) -> Counters:
    """What one run of a command list costs, known without running it."""
    loaded: CoreProgram = _known(_device(device).programs, program, "program")
    return loaded.schedule.counters


# Queues


def npu_queue_create(device: int) -> int:
    """A new queue: what it is given runs in order, apart from other queues."""
    found = _device(device)
    handle = next(_handles)
    found.queues[handle] = CommandQueue()
    return handle


def npu_queue_destroy(device: int, queue: int) -> None:
    """Ends a queue after what it holds."""
    queues = _device(device).queues
    found: CommandQueue = _known(queues, queue, "queue")
    del queues[queue]
    found.close()


def _queue(device: int, queue: int) -> CommandQueue:
    found: CommandQueue = _known(_device(device).queues, queue, "queue")
    return found


def npu_submit(device: int, queue: int, program: int, bindings: Sequence[tuple[int, int]]) -> None:
    """Enqueues a run of a command list on DRAM windows, (address, bytes) each."""
    found = _device(device)
    loaded: CoreProgram = _known(found.programs, program, "program")
    held = tuple(bindings)
    _queue(device, queue).put(lambda: found.core.run(loaded, held))


@dataclass(frozen=True, slots=True)
class DeviceRange:
    """One end of a copy that is on a device."""

    device: int
    address: int
    nbytes: int


def npu_copy(
    device: int, queue: int, destination: DeviceRange | HostBytes, source: DeviceRange | HostBytes
) -> None:
    """Enqueues a copy of equally many bytes between devices and host; else BAD_SIZE."""
    if destination.nbytes != source.nbytes:
        raise NpuError(
            FaultCode.BAD_SIZE, f"copy of {source.nbytes} into {destination.nbytes} bytes"
        )

    def run() -> FaultRecord | None:
        try:
            np.copyto(_end(destination), _end(source))
        except NpuError as e:
            return FaultRecord(e.code, -1, str(e))
        return None

    _queue(device, queue).put(run)


def _end(end: DeviceRange | HostBytes) -> HostBytes:
    if isinstance(end, DeviceRange):
        return _memory(end.device, end.address, end.nbytes)
    return end


def npu_fence(device: int, queue: int) -> int:
    """A fence after everything enqueued so far; holds the first fault since the last fence."""
    handle = next(_handles)
    _fences[handle] = _queue(device, queue).fence()
    return handle


def npu_wait_fence(device: int, queue: int, fence: int) -> None:
    """Makes what is enqueued later wait for a fence of any queue."""
    found: Fence = _known(_fences, fence, "fence")

    def run() -> None:
        found.reached.wait()

    _queue(device, queue).put(run)


def npu_release_fence(fence: int) -> None:
    """Forgets a fence."""
    _fences.pop(fence, None)


def npu_poll(fence: int) -> bool:
    """True if a fence was reached; never blocks."""
    found: Fence = _known(_fences, fence, "fence")
    return found.reached.is_set()


def npu_wait(fence: int, timeout_s: float | None = None) -> bool:
    """Blocks until a fence is reached; False if it took longer."""
    found: Fence = _known(_fences, fence, "fence")
    return found.reached.wait(timeout_s)


def npu_fault(fence: int) -> FaultRecord | None:
    """The fault that a reached fence holds."""
    found: Fence = _known(_fences, fence, "fence")
    return found.fault


# Time stamps


@dataclass(slots=True)
class TimeStamp:
    """A moment in a queue: when it was, and what the device had counted; 0 until then."""

    time_ns: int = 0
    counters: Counters = field(default_factory=Counters)


def npu_stamp(device: int, queue: int) -> int:
    """Enqueues a time stamp; its handle. After a fault it is not reached, as nothing is."""
    found = _device(device)
    handle, stamp = next(_handles), TimeStamp()
    _stamps[handle] = stamp

    def run() -> None:
        stamp.counters = found.core.counters
        stamp.time_ns = time.perf_counter_ns()

    _queue(device, queue).put(run)
    return handle


def npu_read_stamp(stamp: int) -> TimeStamp | None:
    """What a time stamp says; None if it was not reached."""
    found: TimeStamp = _known(_stamps, stamp, "stamp")
    return found if found.time_ns else None


def npu_release_stamp(stamp: int) -> None:
    """Forgets a time stamp."""
    _stamps.pop(stamp, None)


# Counters


def npu_counters(device: int) -> Counters:
    """What all lists of the device did so far."""
    counters: Counters = _device(device).core.counters
    return counters
