"""Streams and events over the driver's queues; watches over host memory that copies use."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import finalize, ref

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tests.async_npu.driver import library
from tests.async_npu.kernels import LAUNCHES
from xladev.errors import DeviceError, XladevError
from xladev.runtime.event import Event
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.runtime.stream import Endpoint, Reading, Stamp, Stream


def device_address(memory: DeviceMemory) -> int:
    """The address of the first byte."""
    address: int = memory.handle + memory.offset
    return address


def check(status: int, what: str) -> None:
    """Raises what a status means, or the first mistake that nobody could be told of.

    Raises:
        DeviceError: the driver refused a call.
    """
    if MISTAKES:
        raise DeviceError("async_npu was used wrongly", why=MISTAKES.pop(0))
    if status:
        raise DeviceError(f"{what} was refused by async_npu", why=library.WHY[status])


MISTAKES: list[str] = []
"""What was found where no error can be raised; the next call of the driver raises it."""


class AsyncStream(Stream):
    """A queue of one device; dropped with the last reference, when its work goes on to the end."""

    def __init__(self, device: int, parent: int = -1) -> None:
        self._driver = library.load()
        self._device = device
        self.is_branch = parent >= 0
        self._lock = threading.Lock()
        self._branches: list[AsyncStream] = []
        self.queue: int = self._driver.an_queue(device, parent)
        if self.queue < 0:
            raise DeviceError("async_npu has no queue left")
        owner: int = self._driver.an_queue_owner(self.queue)
        finalize(self, self._driver.an_queue_drop, self.queue, owner).atexit = False

    def copy(self, destination: Endpoint, source: Endpoint) -> None:
        """Enqueues a copy."""
        if destination.nbytes != source.nbytes:
            raise DeviceError(f"copy of {source.nbytes} bytes into {destination.nbytes} bytes")
        ends = (*_end(destination), *_end(source))
        check(self._driver.an_copy(self.queue, *ends, source.nbytes), "a copy")
        for end in (destination, source):
            if library.SETTINGS.checks and not isinstance(end, DeviceMemory):
                HOST_MEMORY.watch(end)

    def record(self) -> AsyncEvent:
        """A moment that takes the failures so far."""
        return AsyncEvent(self._driver.an_record(self.queue))

    def mark(self) -> AsyncEvent:
        """A moment that takes none."""
        return AsyncEvent(self._driver.an_mark(self.queue))

    def wait(self, event: Event) -> None:
        """Makes the queue wait, not the caller."""
        if isinstance(event, AsyncEvent):
            self._driver.an_wait(self.queue, event.handle)
        else:
            event.wait()

    def branches(self, count: int) -> Sequence[AsyncStream]:
        """Queues whose failures are this one's."""
        with self._lock:
            while len(self._branches) < count:
                self._branches.append(AsyncStream(self._device, self.queue))
            return self._branches[:count]

    def stamp(self) -> AsyncStamp:
        """A moment that is asked for its time."""
        return AsyncStamp(self.mark())

    def synchronize(self) -> None:
        """Waits for a moment of its own."""
        self.mark().wait()
        check(library.OK, "synchronize")


class AsyncEvent(Event):
    """A moment of a queue; dropped with the last reference."""

    def __init__(self, handle: int) -> None:
        self._driver = library.load()
        self.handle = handle
        self._lock = threading.Lock()
        self._error: XladevError | None = None
        finalize(self, self._driver.an_event_drop, handle).atexit = False

    def is_ready(self) -> bool:
        """Asks the driver."""
        return bool(self._driver.an_event_wait(self.handle, 0.0))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Blocks in the driver."""
        seconds = -1.0 if timeout_s is None else max(0.0, timeout_s)
        return bool(self._driver.an_event_wait(self.handle, seconds))

    def error(self) -> XladevError | None:
        """What the kernel raised, or why a command was not run."""
        with self._lock:
            code = self._driver.an_event_failure(self.handle)
            if code and self._error is None:
                self._error = LAUNCHES.take_failure(code)
            return self._error


class AsyncStamp(Stamp):
    """The time of a moment."""

    def __init__(self, event: AsyncEvent) -> None:
        self._event = event

    def read(self) -> Reading | None:
        """By the clock of the process."""
        if not self._event.is_ready():
            return None
        return Reading(library.load().an_event_time_ns(self._event.handle))


class HostMemory:
    """Host arrays of copies that the host does not know to be done.

    The contract says that these stay; one that goes away nevertheless is waited for, or never
    touched, so that what follows is an error and not a crash.
    """

    def __init__(self) -> None:
        self._watched: dict[int, ref[Any]] = {}

    def watch(self, array: HostBytes) -> None:
        """Notes that a command uses an array, if it is known when its memory goes away."""
        owner = _owner(array)
        found = self._watched.get(id(owner))
        if isinstance(owner, np.ndarray) and (found is None or found() is not owner):
            low, high = byte_bounds(owner)
            self._watched[id(owner)] = ref(owner, partial(self._freed, id(owner), low, high - low))

    def _freed(self, key: int, address: int, nbytes: int, gone: ref[Any]) -> None:
        if self._watched.get(key) is gone:
            del self._watched[key]
        if library.load().an_host_freed(address, nbytes):
            MISTAKES.append(library.WHY[library.HOST_FREED])


def _owner(array: HostBytes) -> Any:
    """What the memory of a view belongs to."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _end(end: Endpoint) -> tuple[int, int | None]:
    """Address on the device, and pointer if it is host memory."""
    if isinstance(end, DeviceMemory):
        return device_address(end), None
    return 0, end.__array_interface__["data"][0]


HOST_MEMORY = HostMemory()
