"""A machine: its clocks, and executors and streams that move them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from tests.async_npu.kernels import AsyncKernel
from tests.simulated.chip import Chip
from tests.simulated.compiler import SimulatedCompiler
from xladev.compiler.description import Link
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import XladevError
from xladev.runtime.event import CompletedEvent, Event
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.runtime.platform import Platform
from xladev.runtime.registry import Registry
from xladev.runtime.stream import Endpoint, Stream, SynchronousStream

FREE = Link(1e30)
"""The link of the host to its own memory."""


class Clock:
    """The host's clock, in seconds.

    Attributes:
        now: what it says.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SimulatedExecutor(Executor):
    """One device; its memory is the host's."""

    def __init__(self, chip: Chip, clock: Clock) -> None:
        self.chip, self.clock = chip, clock
        self.link = chip.link or FREE
        self._memory: dict[int, np.ndarray] = {}  # type: ignore[type-arg]
        self._handles = itertools.count(1)

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        handle = next(self._handles)
        room = np.zeros(nbytes + alignment, np.uint8)
        start = -room.ctypes.data % alignment
        self._memory[handle] = room[start : start + nbytes]
        return DeviceMemory(self, handle, 0, nbytes, memory_space)

    def deallocate(self, memory: DeviceMemory) -> None:
        del self._memory[memory.handle]

    def bytes_of(self, memory: DeviceMemory) -> HostBytes:
        """The bytes of some memory."""
        whole = self._memory[memory.handle]
        return whole[memory.offset : memory.offset + memory.nbytes]

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        self.clock.now += self.link.seconds(source.nbytes)
        np.copyto(self.bytes_of(destination), source)

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        self.clock.now += self.link.seconds(source.nbytes)
        np.copyto(destination, self.bytes_of(source))

    def host_view(self, memory: DeviceMemory) -> HostBytes | None:
        return self.bytes_of(memory) if self.chip.link is None else None

    def wrap_host(self, data: HostBytes) -> DeviceMemory | None:
        if self.chip.link is not None:
            return None
        handle = next(self._handles)
        self._memory[handle] = data
        return DeviceMemory(self, handle, 0, data.nbytes, 0)

    def load_kernel(self, code: KernelCode) -> Kernel:
        return Kernel(code.entry, AsyncKernel.of(code.code))

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        self.clock.now += self.chip.launch_s
        seconds = self.chip.kernel_seconds(kernel.handle.module.entry)
        if isinstance(stream, SimulatedStream):
            stream.work(seconds)
        else:
            self.clock.now += seconds
        kernel.handle.run([self.bytes_of(b) for b in buffers])

    def create_stream(self) -> Stream:
        return SynchronousStream() if self.chip.link is None else SimulatedStream(self)


class SimulatedStream(Stream):
    """A queue of one device, which works beside the other ones.

    Attributes:
        ready: when it is done with all that it was given.
    """

    def __init__(self, executor: SimulatedExecutor) -> None:
        self._executor = executor
        self.ready = 0.0

    def work(self, seconds: float) -> None:
        """It is given something that takes so long."""
        self.ready = max(self.ready, self._executor.clock.now) + seconds

    def copy(self, destination: Endpoint, source: Endpoint) -> None:
        """Between devices by way of the host's memory; the links of both are busy."""
        executor, nbytes = self._executor, source.nbytes
        others = {e.executor for e in (destination, source) if isinstance(e, DeviceMemory)}
        links = [e.link for e in others if isinstance(e, SimulatedExecutor)]
        if isinstance(destination, DeviceMemory) and isinstance(source, DeviceMemory):
            links = links if len(links) > 1 else []
        seconds = sum(link.seconds(nbytes) for link in links)
        self.work(seconds if links else nbytes / executor.chip.bandwidth)
        np.copyto(_bytes(destination), _bytes(source))

    def record(self) -> Event:
        return SimulatedEvent(self._executor.clock, self.ready)

    def wait(self, event: Event) -> None:
        assert isinstance(event, (SimulatedEvent, CompletedEvent))
        if isinstance(event, SimulatedEvent):
            self.ready = max(self.ready, event.time)

    def synchronize(self) -> None:
        self.record().wait()


def _bytes(end: Endpoint) -> HostBytes:
    if not isinstance(end, DeviceMemory):
        return end
    assert isinstance(end.executor, SimulatedExecutor)
    return end.executor.bytes_of(end)


class SimulatedEvent(Event):
    """A moment of a queue; whoever waits for it has the clock put forward."""

    def __init__(self, clock: Clock, time: float) -> None:
        self._clock, self.time = clock, time

    def is_ready(self) -> bool:
        return self._clock.now >= self.time

    def wait(self, timeout_s: float | None = None) -> bool:
        until = self.time if timeout_s is None else min(self.time, self._clock.now + timeout_s)
        self._clock.now = max(self._clock.now, until)
        return self.is_ready()

    def error(self) -> XladevError | None:
        return None


class SimulatedPlatform(Platform):
    """The devices of one chip."""

    def __init__(self, chip: Chip, clock: Clock) -> None:
        self._chip, self._clock = chip, clock

    def visible_device_count(self) -> int:
        return self._chip.count

    def create_executor(self, ordinal: int) -> Executor:
        return SimulatedExecutor(self._chip, self._clock)

    def version(self) -> str:
        return "simulated 1"


def machine(*chips: Chip) -> tuple[Registry, Clock]:
    """A registry of these chips alone, and the clock of their host."""
    registry, clock = Registry(find=tuple), Clock()
    for chip in chips:
        make = partial(SimulatedPlatform, chip, clock)
        registry.register(
            PlatformSpec(chip.name, make, priority=1, compiler=partial(SimulatedCompiler, chip))
        )
    return registry, clock


def wait_for_devices(registry: Registry) -> None:
    """Puts the clock to when every device is done."""
    for device in registry.devices():
        device.synchronize()
