"""The Stream contract: work in order on one device; and the default stream, a synchronous one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from xladev.errors import ArgumentError
from xladev.runtime.event import READY, Event
from xladev.runtime.memory import DeviceMemory, HostBytes

Endpoint = DeviceMemory | HostBytes
"""One end of a copy."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a device says of a moment in a stream.

    Attributes:
        time_ns: when it was, by the clock of `time.perf_counter_ns`.
        counts: what the device had counted then (cycles, bytes), by name; a timeline shows by how
            much they grew while a kernel ran.
    """

    time_ns: int
    counts: Mapping[str, float] = field(default_factory=dict[str, float])


class Stamp(ABC):
    """A moment in a stream: when all that was enqueued before is done."""

    @abstractmethod
    def read(self) -> Reading | None:
        """When it was; None if it was not reached. Asked once the stream has been waited for."""


class Stream(ABC):
    """A queue of work that runs in order; calls enqueue and return. Four functions at tier 4."""

    @abstractmethod
    def copy(self, destination: Endpoint, source: Endpoint) -> None:
        """Enqueues a copy of equally many bytes; either end may be host memory.

        Device ends belong to executors of this stream's platform. The SDK keeps host memory alive
        and unchanged until an event recorded later is ready.
        """

    @abstractmethod
    def record(self) -> Event:
        """An event that is ready once everything enqueued so far has finished or failed.

        Its error is the first failure since the last event recorded; a failure does not stop what
        is enqueued later (the SDK poisons the values computed from it).
        """

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Makes later work wait for an event of the same platform, without blocking the caller."""

    @abstractmethod
    def synchronize(self) -> None:
        """Blocks until everything enqueued has finished; raises nothing for failed work."""

    def stamp(self) -> Stamp | None:
        """Enqueues a time stamp; None (the default) if the device tells no times.

        Asked before and after each kernel while somebody traces. It takes no failure away: the
        next event recorded has it all the same.
        """
        return None

    def branches(self, count: int) -> Sequence[Stream]:
        """Further streams of the device, the same ones at each call.

        As many as it has, if these are fewer than wanted: a program that is spread over more puts
        the work of several on one. None (the default) where the device has one queue.

        Only `mark` and `wait` order them with this one. Their failures belong to the next event
        recorded on this one: the first failure since the last such event, whichever queue it was
        on. Queues that fail at once need a lock around what they keep it in. Where this one is
        being recorded (`LaunchGraphs`), so is the work of those that wait for its marks. Asked only
        where `DeviceDescription.compute_streams` is above 1, or `overlaps_collectives` is set:
        kernels take the first ``compute_streams - 1``, collectives the next one.

        Args:
            count: how many are wanted at most, at least 1.
        """
        return ()

    def mark(self) -> Event:
        """As `record`, for streams to wait for: it takes no failure away.

        Asked of streams that have branches, and of these.
        """
        return self.record()

    @property
    def is_synchronous(self) -> bool:
        """True if calls return only when their work is done."""
        return False


class SynchronousStream(Stream):
    """Runs everything at once in the calling thread, over the four functions of tier 1."""

    __slots__ = ()

    def copy(self, destination: Endpoint, source: Endpoint) -> None:
        """Copies now; between two device ends through host memory."""
        if isinstance(source, DeviceMemory):
            _copy_from_device(destination, source)
        elif isinstance(destination, DeviceMemory):
            _check_nbytes(destination.nbytes, source.nbytes)
            destination.executor.copy_to_device(destination, source)
        else:
            _check_nbytes(destination.nbytes, source.nbytes)
            np.copyto(destination, source)

    def record(self) -> Event:
        """A ready event."""
        return READY

    def wait(self, event: Event) -> None:
        """Blocks the caller."""
        event.wait()

    def synchronize(self) -> None:
        """Nothing is pending."""

    @property
    def is_synchronous(self) -> bool:
        """True."""
        return True


def finish(stream: Stream) -> None:
    """Blocks until nothing uses the memory of a call that fails; raises nothing in its place."""
    with suppress(Exception):
        stream.synchronize()


def _copy_from_device(destination: Endpoint, source: DeviceMemory) -> None:
    _check_nbytes(destination.nbytes, source.nbytes)
    if not isinstance(destination, DeviceMemory):
        source.executor.copy_to_host(destination, source)
        return
    bounce = np.empty(source.nbytes, np.uint8)
    source.executor.copy_to_host(bounce, source)
    destination.executor.copy_to_device(destination, bounce)


def _check_nbytes(destination: int, source: int) -> None:
    if destination != source:
        raise ArgumentError(f"copy of {source} bytes into {destination} bytes")
