"""Streams and events of the contract over those of a driver."""

from __future__ import annotations

import time
from dataclasses import dataclass

from xladev.errors import ExecutionError, XladevError
from xladev.platforms.cuda.driver.interface import DriverEvent, DriverStream
from xladev.platforms.cuda.faults import driver_errors
from xladev.runtime.event import Event
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.runtime.stream import Endpoint, Reading, Stamp, Stream


def device_address(memory: DeviceMemory) -> int:
    """The address of the first byte of a piece of device memory."""
    address: int = memory.handle.address
    return address + memory.offset


class CudaStream(Stream):
    """A stream of one device."""

    def __init__(self, stream: DriverStream) -> None:
        self.stream = stream
        self._origin: Origin | None = None

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
            return CudaEvent(self.stream.record())

    def stamp(self) -> Stamp:
        """An event of the driver, timed from the stream's first one on."""
        with driver_errors("a time stamp"):
            if self._origin is None:
                first = self.stream.stamp()
                first.synchronize()
                self._origin = Origin(first, time.perf_counter_ns())
            return CudaStamp(self._origin, self.stream.stamp())

    def wait(self, event: Event) -> None:
        """Makes the stream wait, not the caller; for another platform's event, the caller."""
        if not isinstance(event, CudaEvent):
            event.wait()
            return
        with driver_errors("wait"):
            self.stream.wait(event.event)

    def synchronize(self) -> None:
        """Waits for an event of its own; its failure belongs to the next event recorded."""
        self.record().wait()


@dataclass(frozen=True, slots=True)
class Origin:
    """A moment that device and host both know.

    Attributes:
        event: of the device.
        time_ns: the host's clock just after it.
    """

    event: DriverEvent
    time_ns: int


@dataclass(frozen=True, slots=True)
class CudaStamp(Stamp):
    """A moment of a stream, by the device's clock.

    Attributes:
        origin: what it is measured from.
        event: the moment.
    """

    origin: Origin
    event: DriverEvent

    def read(self) -> Reading | None:
        """When it was; None if it was not reached."""
        with driver_errors("a time stamp"):
            if not self.event.query():
                return None
            since_ns = self.event.elapsed_ms(self.origin.event) * 1e6
        return Reading(self.origin.time_ns + round(since_ns))


class CudaEvent(Event):
    """An event of a driver."""

    def __init__(self, event: DriverEvent) -> None:
        self.event = event

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
        failure = self.event.failure()
        if failure is None:
            return None
        return ExecutionError(
            "work on the CUDA device failed",
            why=str(failure),
            hint="run the program on platform cuda_emu, which checks every access",
        )
