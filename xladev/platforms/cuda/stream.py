"""Streams and events of the contract over those of a driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from xladev.errors import ExecutionError, XladevError
from xladev.platforms.cuda.driver.interface import DriverEvent, DriverStream
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.joint_collectives import JointCollective
from xladev.runtime.event import Event
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.runtime.stream import Endpoint, Reading, Stamp, Stream


def device_address(memory: DeviceMemory) -> int:
    """The address of the first byte of a piece of device memory."""
    address: int = memory.handle.address
    return address + memory.offset


class CudaStream(Stream):
    """A stream of one device.

    Args:
        stream: of the driver.
        clock: of a stream that this is a branch of.
    """

    def __init__(self, stream: DriverStream, clock: Clock | None = None) -> None:
        self.stream = stream
        self._clock = Clock() if clock is None else clock
        self._branches: list[CudaStream] = []
        self._lock = threading.Lock()
        self._depends: dict[JointCollective, bool] = {}

    def depend(self, *collectives: JointCollective) -> None:
        """Gives events that are recorded from now on the failures of these."""
        with self._lock:
            self._depends.update(dict.fromkeys(collectives, False))

    def _depended(self) -> tuple[JointCollective, ...]:
        """What the next event depends on: all that is under way, and what no event has yet.

        A failure thus belongs to an event behind it, and not to what is enqueued when it is known.
        """
        if not self._depends:
            return ()
        with self._lock:
            given = self._depends.items()
            found = tuple(c for c, is_given in given if not (is_given and c.is_over))
            self._depends = dict.fromkeys(found, True)
        return found

    def branches(self, count: int) -> Sequence[CudaStream]:
        """Streams of the driver, made when they are first wanted."""
        with self._lock, driver_errors("a stream"):
            while len(self._branches) < count:
                self._branches.append(CudaStream(self.stream.branch(), self._clock))
            return self._branches[:count]

    @property
    def branch_count(self) -> int:
        """Branches that were made."""
        return len(self._branches)

    def copy(self, destination: Endpoint, source: Endpoint) -> None:
        """Enqueues a copy."""
        with driver_errors("a copy"):
            self._copy(destination, source)

    def _copy(self, destination: Endpoint, source: Endpoint) -> None:
        if destination.nbytes != source.nbytes:
            raise ExecutionError(f"copy of {source.nbytes} bytes into {destination.nbytes} bytes")
        if not source.nbytes:
            return
        if isinstance(destination, DeviceMemory):
            if isinstance(source, DeviceMemory):
                self.stream.copy(device_address(destination), device_address(source), source.nbytes)
            else:
                self.stream.copy_to_device(device_address(destination), source)
        elif isinstance(source, DeviceMemory):
            self.stream.copy_to_host(destination, device_address(source))
        else:
            self._between_hosts(destination, source)

    def _between_hosts(self, destination: HostBytes, source: HostBytes) -> None:
        """In order with the stream: the caller waits for it."""
        self.synchronize()
        destination[:] = source

    def record(self) -> Event:
        """An event of the driver."""
        with driver_errors("record"):
            return CudaEvent(self.stream.record(), self._depended())

    def mark(self) -> Event:
        """An event of the driver without a time."""
        with driver_errors("an event"):
            return CudaEvent(self.stream.mark(), self._depended())

    def stamp(self) -> Stamp:
        """An event of the driver, timed from the first one of the stream and its branches on."""
        with driver_errors("a time stamp"):
            return CudaStamp(self._clock.origin(self.stream), self.stream.stamp())

    def wait(self, event: Event) -> None:
        """Makes the stream wait, not the caller; for another platform's event, the caller."""
        if not isinstance(event, CudaEvent):
            event.wait()
            return
        with driver_errors("wait"):
            self.stream.wait(event.event)
        if event.depends:
            self.depend(*event.depends)

    def synchronize(self) -> None:
        """Waits for an event of its own; its failure belongs to the next event recorded."""
        self.record().wait()


@dataclass(frozen=True, slots=True)
class CaptureOrigin:
    """A moment that device and host both know.

    Attributes:
        event: of the device.
        time_ns: the host's clock just after it.
    """

    event: DriverEvent
    time_ns: int


class Clock:
    """Where the times of a stream and its branches begin. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origin: CaptureOrigin | None = None

    def origin(self, stream: DriverStream) -> CaptureOrigin:
        """The first moment that anybody asked for."""
        with self._lock:
            if self._origin is None:
                first = stream.stamp()
                first.synchronize()
                self._origin = CaptureOrigin(first, time.perf_counter_ns())
            return self._origin


@dataclass(frozen=True, slots=True)
class CudaStamp(Stamp):
    """A moment of a stream, by the device's clock.

    Attributes:
        origin: what it is measured from.
        event: the moment.
    """

    origin: CaptureOrigin
    event: DriverEvent

    def read(self) -> Reading | None:
        """When it was; None if it was not reached."""
        with driver_errors("a time stamp"):
            if not self.event.query():
                return None
            since_ns = self.event.elapsed_ms(self.origin.event) * 1e6
        return Reading(self.origin.time_ns + round(since_ns))


class CudaEvent(Event):
    """An event of a driver.

    Args:
        event: of the driver.
        depends: collectives with other processes before it.
    """

    def __init__(self, event: DriverEvent, depends: tuple[JointCollective, ...] = ()) -> None:
        self.event = event
        self.depends = depends

    def is_ready(self) -> bool:
        """Asks the driver."""
        with driver_errors("an event"):
            return self.event.query()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Blocks in the driver."""
        with driver_errors("an event"):
            return self.event.synchronize(timeout_s)

    def error(self) -> XladevError | None:
        """The failure of the work before it."""
        for collective in self.depends:
            if (error := collective.failure()) is not None:
                return error
        failure = self.event.failure()
        if failure is None:
            return None
        return ExecutionError(
            "work on the CUDA device failed",
            why=str(failure),
            hint="run the program on platform cuda_emu, which checks every access",
        )
