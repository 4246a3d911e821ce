"""The real driver, on CuPy: its memory pool, streams, events and modules. Nothing here emulates.

CuPy is imported when the driver is made. Without CuPy, without NVIDIA's driver or without a GPU
there are no devices, and `CupyDriver.version` says why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from xladev.compiler.kernel_code import LaunchDimensions
from xladev.platforms.cuda.dlpack import CUDA
from xladev.platforms.cuda.driver.condition import driver_version, no_device
from xladev.platforms.cuda.driver.cupy_collectives import CupyGroup, stream_pointer
from xladev.platforms.cuda.driver.cupy_libraries import CupyCall, CupyLibraries
from xladev.platforms.cuda.driver.found import PACKAGES, loaded, missing
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
from xladev.platforms.cuda.driver.landing import Landing
from xladev.platforms.cuda.driver.nccl import Nccl
from xladev.platforms.cuda.images import machine_code
from xladev.runtime.distributed.environment import local_share
from xladev.runtime.memory import HostBytes

_POLL_S = 50e-6
_INSTALL = "CuPy is not installed: pip install xladev-cuda"


def _import_cupy() -> tuple[Any, str]:
    """CuPy, or None and why not."""
    try:
        import cupy
    except ImportError as e:
        return None, _INSTALL if e.name == "cupy" else f"CuPy cannot be imported: {e}"
    return cupy, ""


class CupyDriver:
    """NVIDIA's driver and the GPUs that it shows to this process."""

    def __init__(self) -> None:
        self._cupy, self._reason = _import_cupy()
        total = 0 if self._cupy is None else self._counted()
        is_chosen = "CUDA_VISIBLE_DEVICES" in os.environ
        self._own = range(total) if is_chosen else local_share(total)

    def _counted(self) -> int:
        try:
            return int(self._cupy.cuda.runtime.getDeviceCount())
        except self._cupy.cuda.runtime.CUDARuntimeError as e:
            built_for = int(self._cupy.cuda.runtime.runtimeGetVersion())
            self._reason = no_device(int(e.status), str(e), driver_version(), built_for)
            return 0

    def version(self) -> str:
        """Versions of CuPy and the driver, or why there is no device."""
        if self._cupy is None:
            return self._reason
        found = f"CuPy {self._cupy.__version__}"
        if self._reason:
            return f"{found}; {self._reason}"
        number = int(self._cupy.cuda.runtime.driverGetVersion())
        line = f"{found}, driver for CUDA {number // 1000}.{number % 1000 // 10}"
        absent = [f"{name} ({why})" for name in PACKAGES if (why := missing(name))]
        return f"{line}; missing: {', '.join(absent)}" if absent else line

    def device_count(self) -> int:
        """GPUs that are visible: those of ``CUDA_VISIBLE_DEVICES``, else this process's share."""
        return len(self._own)

    def group(self, devices: Sequence[DriverDevice]) -> CupyGroup:
        """See `Driver.group`."""
        ordinals = [d.ordinal for d in devices if isinstance(d, CupyDevice)]
        if len(ordinals) != len(devices):
            raise DriverError("a device belongs to another driver")
        return CupyGroup(self._cupy, ordinals)

    def nccl(self) -> Nccl:
        """See `Driver.nccl`."""

        def current(device: DriverDevice) -> _OnDevice:
            if not isinstance(device, CupyDevice):
                raise DriverError("a device belongs to another driver")
            return device.current

        def zeros(address: int, nbytes: int, stream: int) -> None:
            self._cupy.cuda.runtime.memsetAsync(address, 0, nbytes, stream)

        return Nccl(loaded("nccl"), current, stream_pointer, zeros)

    def open(self, ordinal: int) -> CupyDevice:
        """Opens a GPU.

        Raises:
            DriverError: there is none of that number.
        """
        if not 0 <= ordinal < len(self._own):
            raise DriverError(self._reason or f"there is no GPU {ordinal}")
        return CupyDevice(self._cupy, self._own[ordinal])


@dataclass(frozen=True, slots=True)
class CupyFunction:
    """A function of a loaded module, which it keeps loaded."""

    name: str
    function: Any


@dataclass(frozen=True, slots=True)
class CupyGraph:
    """A CUDA graph, ready to launch."""

    graph: Any
    nodes: int = 0


class _OnDevice:
    """A block of calls on one device, whose errors are the interface's; may be entered again.

    A launch has a dozen such blocks, so no generator makes them.

    Attributes:
        cupy: the module.
        device: CuPy's; entering it makes it the thread's current one.
        memory_error: what CuPy raises where memory does not fit.
        errors: what it raises where CUDA refuses a call.
    """

    def __init__(self, cupy: Any, ordinal: int) -> None:
        cuda = cupy.cuda
        self.cupy = cupy
        self.device = cuda.Device(ordinal)
        self.memory_error = cuda.memory.OutOfMemoryError
        self.errors = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)

    def __enter__(self) -> None:
        self.device.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.device.__exit__(kind, error, traceback)
        if error is None:
            return
        if isinstance(error, self.memory_error):
            raise DriverMemoryError(str(error)) from error
        if isinstance(error, self.errors):
            raise DriverError(str(error)) from error


class CupyDevice:
    """One GPU with a pool of its own."""

    def __init__(self, cupy: Any, ordinal: int) -> None:
        self._on = _OnDevice(cupy, ordinal)
        self.ordinal = ordinal
        self._runtime = cupy.cuda.runtime
        with self._on:
            self._pool = cupy.cuda.MemoryPool()
            self.properties = _properties(self._runtime.getDeviceProperties(ordinal))
        name = self.properties.name
        self.libraries = CupyLibraries(cupy, self._on, self._pool, name)

    @property
    def current(self) -> _OnDevice:
        """Makes it the thread's current device while it is entered."""
        return self._on

    def allocate(self, nbytes: int) -> Allocation:
        """See `DriverDevice.allocate`; CuPy aligns to 512 bytes."""
        with self._on:
            pointer = self._pool.malloc(nbytes)
        return Allocation(int(pointer.ptr), nbytes, [pointer])

    def free(self, allocation: Allocation) -> None:
        """See `DriverDevice.free`: the pool takes memory back with its last reference."""
        owner = allocation.owner
        if not isinstance(owner, list) or not owner:
            raise DriverError(f"address {allocation.address:#x} was not allocated, or freed")
        with self._on:
            owner.clear()

    def memory_info(self) -> MemoryInfo:
        """See `DriverDevice.memory_info`."""
        with self._on:
            free, _ = self._runtime.memGetInfo()
            used, held = int(self._pool.used_bytes()), int(self._pool.total_bytes())
        return MemoryInfo(used, held, int(free) + held)

    def copy_to_device(self, address: int, source: HostBytes) -> None:
        """See `DriverDevice.copy_to_device`."""
        with self._on:
            kind = self._runtime.memcpyHostToDevice
            self._runtime.memcpy(address, source.ctypes.data, source.nbytes, kind)
            # The call returns when the bytes have left the array, which is before they arrive.
            self._runtime.streamSynchronize(self._runtime.streamLegacy)

    def copy_to_host(self, destination: HostBytes, address: int) -> None:
        """See `DriverDevice.copy_to_host`."""
        with self._on:
            kind = self._runtime.memcpyDeviceToHost
            self._runtime.memcpy(destination.ctypes.data, address, destination.nbytes, kind)

    def create_stream(self) -> CupyStream:
        """See `DriverDevice.create_stream`; not ordered with the default stream either."""
        with self._on:
            return CupyStream(self._on, self._on.cupy.cuda.Stream(non_blocking=True))

    @property
    def dlpack_device(self) -> tuple[int, int] | None:
        """kDLCUDA and CUDA's number of the GPU."""
        return CUDA, self.ordinal

    def wait_for_others(self) -> None:
        """See `DriverDevice.wait_for_others`."""
        with self._on:
            self._runtime.streamSynchronize(self._runtime.streamLegacy)

    def load(self, image: bytes, symbol: str) -> CupyFunction:
        """See `DriverDevice.load`: PTX as what `machine_code` makes of it, or a cubin."""
        with self._on:
            module = self._on.cupy.cuda.function.Module()
            try:
                module.load(machine_code(image, self.properties.target))
            except self._on.cupy.cuda.driver.CUDADriverError:
                # An assembler newer than the driver: the driver's own compiler takes the PTX.
                module.load(image if image.endswith(b"\0") else image + b"\0")
            return CupyFunction(symbol, module.get_function(symbol))

    def close(self) -> None:
        """See `DriverDevice.close`."""
        with self._on:
            self._pool.free_all_blocks()


class CupyStream:
    """One stream of a GPU."""

    def __init__(self, on: _OnDevice, stream: Any) -> None:
        self._on = on
        self._stream = stream
        self._runtime = on.cupy.cuda.runtime
        self._landing = Landing(self._page_locked, stream.synchronize)

    @property
    def pointer(self) -> int:
        """CUDA's number of the stream, for other libraries."""
        return int(self._stream.ptr)

    def _page_locked(self, nbytes: int) -> HostBytes:
        memory = self._on.cupy.cuda.alloc_pinned_memory(nbytes)
        return np.frombuffer(memory, np.uint8, nbytes)

    def copy_to_device(self, address: int, source: HostBytes) -> None:
        """See `DriverStream.copy_to_device`."""
        with self._on:
            staged = self._landing.outgoing(source)
        self._copy(address, staged.ctypes.data, staged.nbytes, "HostToDevice")

    def copy_to_host(self, destination: HostBytes, address: int) -> None:
        """See `DriverStream.copy_to_host`."""
        with self._on:
            staged = self._landing.incoming(destination)
        self._copy(staged.ctypes.data, address, staged.nbytes, "DeviceToHost")

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        """See `DriverStream.copy`."""
        self._copy(destination, source, nbytes, "Default")

    def _copy(self, destination: int, source: int, nbytes: int, kind: str) -> None:
        code = getattr(self._runtime, f"memcpy{kind}")
        with self._on:
            self._runtime.memcpyAsync(destination, source, nbytes, code, self._stream.ptr)

    def launch(
        self, function: DriverFunction, dimensions: LaunchDimensions, arguments: Sequence[int]
    ) -> None:
        """See `DriverStream.launch`.

        Raises:
            DriverError: a kernel of another driver, or the launch was refused.
        """
        if isinstance(function, CupyCall):
            with self._on:
                function.enqueue(list(arguments), self._stream.ptr)
            return
        if not isinstance(function, CupyFunction):
            raise DriverError("the kernel belongs to another driver")
        with self._on:
            function.function(
                dimensions.grid,
                dimensions.block,
                tuple(arguments),
                dimensions.shared_nbytes,
                self._stream,
            )

    def record(self) -> CupyEvent:
        """See `DriverStream.record`."""
        with self._on:
            event = self._on.cupy.cuda.Event()
            event.record(self._stream)
        return CupyEvent(self._on, event, self._landing, self._landing.event(partial(_done, event)))

    def stamp(self) -> CupyEvent:
        """See `DriverStream.stamp`."""
        with self._on:
            event = self._on.cupy.cuda.Event()
            event.record(self._stream)
        return CupyEvent(self._on, event, self._landing, 0)

    def branch(self) -> CupyStream:
        """See `DriverStream.branch`; CUDA reports failures whatever stream they are of."""
        with self._on:
            return CupyStream(self._on, self._on.cupy.cuda.Stream(non_blocking=True))

    def mark(self) -> CupyEvent:
        """See `DriverStream.mark`."""
        with self._on:
            event = self._on.cupy.cuda.Event(disable_timing=True)
            event.record(self._stream)
        return CupyEvent(self._on, event, self._landing, 0)

    def begin_capture(self) -> None:
        """See `DriverStream.begin_capture`; other threads go on allocating."""
        with self._on:
            self._stream.begin_capture(self._runtime.streamCaptureModeThreadLocal)

    def end_capture(self) -> CupyGraph:
        """See `DriverStream.end_capture`."""
        with self._on:
            return CupyGraph(self._stream.end_capture())

    def launch_graph(self, graph: DriverGraph) -> None:
        """See `DriverStream.launch_graph`."""
        if not isinstance(graph, CupyGraph):
            raise DriverError("the graph belongs to another driver")
        with self._on:
            graph.graph.launch(self._stream)

    def wait(self, event: DriverEvent) -> None:
        """See `DriverStream.wait`."""
        if not isinstance(event, CupyEvent):
            raise DriverError("the event belongs to another driver")
        with self._on:
            self._stream.wait_event(event.event)


class CupyEvent:
    """A recorded event; whoever sees it ready moves on what was copied to the host before it."""

    def __init__(self, on: _OnDevice, event: Any, landing: Landing, number: int) -> None:
        self._on = on
        self._landing = landing
        self._number = number
        self.event = event
        self._failure: DriverError | None = None

    def query(self) -> bool:
        """See `DriverEvent.query`; failed work is finished work."""
        try:
            with self._on:
                if not self.event.done:
                    return False
        except DriverError as e:
            self._failure = e
        self._landing.land(self._number)
        return True

    def synchronize(self, timeout_s: float | None = None) -> bool:
        """See `DriverEvent.synchronize`."""
        if timeout_s is not None:
            return self._polled(time.monotonic() + timeout_s)
        try:
            with self._on:
                self.event.synchronize()
        except DriverError as e:
            self._failure = e
        self._landing.land(self._number)
        return True

    def _polled(self, deadline: float) -> bool:
        while not self.query():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def failure(self) -> DriverError | None:
        """See `DriverEvent.failure`; CUDA reports a fault at every call after it."""
        return self._failure

    def elapsed_ms(self, since: DriverEvent) -> float:
        """See `DriverEvent.elapsed_ms`."""
        if not isinstance(since, CupyEvent):
            raise DriverError("an event of another driver")
        with self._on:
            return float(self._on.cupy.cuda.get_elapsed_time(since.event, self.event))


def _done(event: Any) -> bool:
    """Whether an event of CuPy is reached; failed work is finished work."""
    try:
        return bool(event.done)
    except Exception:  # noqa: BLE001 - a fault of the device, which the next call reports
        return True


def _properties(found: dict[str, Any]) -> DeviceProperties:
    """What the contract wants of CUDA's properties: clocks in kHz, bus width in bits."""
    name = found["name"]
    clock, width = found.get("memoryClockRate", 0), found.get("memoryBusWidth", 0)
    return DeviceProperties(
        name=name.decode() if isinstance(name, bytes) else str(name),
        capability=(int(found["major"]), int(found["minor"])),
        multiprocessors=int(found["multiProcessorCount"]),
        memory_nbytes=int(found["totalGlobalMem"]),
        bandwidth=2.0 * clock * 1e3 * width / 8 if clock and width else None,
    )
