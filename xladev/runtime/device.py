"""Device: an executor with everything the runtime keeps for it: stream, memory, pending work."""

from __future__ import annotations

import gc
import threading
import time
from array import array
from collections import deque
from typing import Any

from xladev.compiler.description import DeviceDescription
from xladev.compiler.isolation import expect, plugin_call
from xladev.errors import DeviceError, DeviceLostError, XladevError
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape
from xladev.instrument import logger
from xladev.instrument.trace import settle_traces
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.allocator import Allocator
from xladev.runtime.executor import Executor
from xladev.runtime.launch.definition_event import DefinitionEvent, ExecutionFailure
from xladev.runtime.launch.turn import Turn
from xladev.runtime.memory import DeviceMemory, MemoryStats
from xladev.runtime.stream import Stream
from xladev.runtime.transfer_queue import TransferQueue

_log = logger("runtime")

MAX_IN_FLIGHT = 32
"""Executions enqueued on one device before the next one waits for the oldest."""


def memory_space(shape: Shape) -> int:
    """The memory space that the layout of ``shape`` asks for."""
    return shape.layout.memory_space if shape.layout else 0


class Device:
    """One opened device. Thread-safe.

    Attributes:
        platform: name of its platform.
        kind: ``cpu``, ``gpu``, ``npu``, ...
        ordinal: its number on the platform.
        name: of both, such as ``npu:0``.
        executor: the plugin's side of it.
        description: what it is.
        allocator: its memory.
        clear: one signed 64-bit integer, which native code reads: 1 while the device is open, not
            lost, and has nothing pending, so that a launch need not look at it.
    """

    def __init__(
        self,
        platform: str,
        kind: str,
        ordinal: int,
        executor: Executor,
        description: DeviceDescription,
    ) -> None:
        self.platform = platform
        self.kind = kind
        self.ordinal = ordinal
        self.name = f"{platform}:{ordinal}"
        self.executor = executor
        self.description = description
        self.allocator = Allocator(executor, self.name, self._make_room)
        self._lock = threading.RLock()
        self._stream: Stream | None = None
        self._turn: Turn | None = None
        self._transfers: TransferQueue | None = None
        self._pending: deque[tuple[DefinitionEvent, Any]] = deque()
        self._read_elsewhere: list[tuple[DefinitionEvent, DeviceMemory]] = []
        self._lost: XladevError | None = None
        self._closed = False
        self.clear = array("q", [1])

    @property
    def is_closed(self) -> bool:
        """Whether it was given back."""
        return self._closed

    def __repr__(self) -> str:
        return f"<Device {self.name} ({self.description.name})>"

    @property
    def stream(self) -> Stream:
        """The stream that all executions and copies of this device go through.

        Raises:
            XladevError: the plugin could not make it.
        """
        stream = self._stream
        return self._create_stream() if stream is None else stream

    def _create_stream(self) -> Stream:
        """Makes the stream, unless another thread just has."""
        function = "Executor.create_stream"
        with self._lock:
            if self._stream is None:
                with self.call(function):
                    made = expect(self.executor.create_stream(), Stream, self.name, function)
                    self._turn = None if made.is_synchronous else self._turn or Turn()
                self._stream = made
            return self._stream

    @property
    def turn(self) -> Turn | None:
        """What a launch has from its first enqueue to its event; None if the stream is synchronous.

        It is taken before any lock of the device's or its allocator's, never within one.

        Raises:
            XladevError: the plugin could not make the stream.
        """
        if self._stream is None:
            self._create_stream()
        return self._turn

    @property
    def transfers(self) -> TransferQueue:
        """A second stream, for copies of placed programs; made when it is first wanted.

        Raises:
            XladevError: the plugin could not make it.
        """
        made = self._transfers
        if made is not None:
            return made
        function = "Executor.create_stream"
        with self._lock:
            if self._transfers is None:
                with self.call(function):
                    stream = expect(self.executor.create_stream(), Stream, self.name, function)
                self._transfers = TransferQueue(self.name, stream)
            return self._transfers

    def allocate(self, shape: Shape, label: str) -> Buffer:
        """A buffer for one array of ``shape``, in the memory space of its layout.

        Raises:
            OutOfMemoryError: it does not fit.
            DeviceLostError: the device needs a reset.
        """
        return self.allocate_nbytes(physical_nbytes(shape), label, memory_space=memory_space(shape))

    def allocate_nbytes(self, nbytes: int, label: str, *, memory_space: int = 0) -> Buffer:
        """A buffer of ``nbytes`` bytes; errors as in `allocate`."""
        self.check_usable()
        alignment = self.description.memory_space(memory_space).alignment
        with self.call("Executor.allocate"):
            return self.allocator.allocate(
                nbytes, label, alignment=alignment, memory_space=memory_space
            )

    def call(self, function: str) -> plugin_call:
        """Contains a call of the plugin: names it in errors, notices the loss of the device."""
        return plugin_call(self.name, function, self.note_error)

    def note_error(self, error: XladevError) -> None:
        """Remembers an error of this device's if it means that it is lost."""
        if isinstance(error, DeviceLostError):
            self._lost = self._lost or error
            self._look()

    def _look(self) -> None:
        """Brings `clear` up to date."""
        with self._lock:
            self.clear[0] = not (self._closed or self._lost or self._pending)

    def join(self, event: DefinitionEvent) -> None:
        """Makes later work of the stream wait for ``event``; on the host if of another platform."""
        if event.is_settled:
            return
        if not event.origin:
            for upstream in event.upstream:
                self.join(upstream)
        elif event.origin.rpartition(":")[0] != self.platform:
            event.wait()
        elif event.origin != self.name:
            with self.call("Stream.wait"):
                self.stream.wait(event.recorded)

    def read_elsewhere(self, memory: DeviceMemory, event: DefinitionEvent) -> None:
        """Notes that work of another device reads memory of this one until ``event`` is ready."""
        if event.is_ready():
            return
        with self._lock:
            left = [(e, m) for e, m in self._read_elsewhere if not e.is_ready()]
            self._read_elsewhere = [*left, (event, memory)]

    def join_readers(self, memory: DeviceMemory) -> None:
        """Makes later work of the stream, which overwrites ``memory``, wait for other devices."""
        for event, read in tuple(self._read_elsewhere):
            if read == memory:
                self.join(event)

    def retain(self, event: DefinitionEvent, objects: Any) -> None:
        """Keeps ``objects`` alive until ``event`` is ready, and limits what is in flight."""
        if event.is_ready():
            return
        self._pending.append((event, objects))
        self._look()
        self.sweep()
        while len(self._pending) > MAX_IN_FLIGHT:
            self._wait_for_oldest()

    def sweep(self) -> None:
        """Lets go of what finished executions kept alive, and gives back dropped memory."""
        with self._lock:
            while self._pending and self._pending[0][0].is_ready():
                self.note(self._pending.popleft()[0].failure())
            self._look()
        self.allocator.give_back()

    def synchronize(self) -> None:
        """Blocks until everything enqueued has finished; raises nothing for failed work."""
        with self.call("Stream.synchronize"):
            self.stream.synchronize()
        while self._pending:
            self._wait_for_oldest()
        self.allocator.give_back()

    def _wait_for_oldest(self) -> None:
        try:
            event, _ = self._pending[0]
        except IndexError:
            return
        event.wait()
        self.sweep()

    def _make_room(self) -> None:
        """Finishes pending work and collects garbage, so that dropped buffers are given back."""
        self.synchronize()
        gc.collect()

    def memory_stats(self) -> MemoryStats:
        """The platform's statistics, or those that the runtime keeps."""
        self.sweep()
        function = "Executor.memory_stats"
        with self.call(function):
            own = self.executor.memory_stats()
        return (
            self.allocator.stats() if own is None else expect(own, MemoryStats, self.name, function)
        )

    def check_usable(self) -> None:
        """Raises the error that lost the device, if it was lost.

        Raises:
            DeviceLostError: the device needs a reset.
        """
        if self._closed:
            raise DeviceError(
                f"device {self.name} was closed",
                why="Registry.close, or the end of the process, gave it back",
                hint="ask the registry for the device again",
            )
        if self._pending:
            self.sweep()
        lost = self._lost
        if lost is not None:
            raise DeviceLostError(
                f"device {self.name} was lost",
                where=self.name,
                why=lost.what,
                hint="Device.reset() makes it usable again; its arrays are gone",
            ) from lost

    def note(self, failure: ExecutionFailure | None) -> None:
        """Remembers a failure if it means that this device is lost."""
        if failure is not None and failure.origin == self.name:
            self.note_error(failure.error)

    def reset(self) -> None:
        """Makes a lost device usable again. Its arrays are gone; reading them is an error.

        Raises:
            XladevError: the plugin could not reset it.
        """
        with self._lock:
            with plugin_call(self.name, "Executor.reset"):
                self.executor.reset()
            self._pending.clear()
            self._read_elsewhere.clear()
            self._stream = self._transfers = None
            self.allocator.forget_all()
            self._lost = None
            self._look()

    def close(self, timeout_s: float = 10.0) -> None:
        """Gives the device back, once; its arrays are gone. Failures are logged.

        Args:
            timeout_s: how long pending work is waited for. A device that hangs is closed all the
                same: the process wants to end.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._look()
        try:
            self._finish(time.monotonic() + timeout_s)
            settle_traces(self.name)
            with plugin_call(self.name, "Executor.close"):
                self.executor.close()
        except XladevError as e:
            _log.error("device %s was not closed properly: %s", self.name, e)

    def _finish(self, deadline: float) -> None:
        """Waits for pending work, lets go of everything, and gives all memory back."""
        while self._pending and self._pending[0][0].wait(max(0.0, deadline - time.monotonic())):
            self.sweep()
        if self._pending:
            _log.error("device %s still works on %d launches", self.name, len(self._pending))
            self._pending.clear()
        else:
            self.allocator.give_back()
        self._stream = self._transfers = None
        self.allocator.forget_all()
