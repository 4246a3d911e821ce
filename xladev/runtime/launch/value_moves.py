"""How values of one run come into memory, and go from one device or layout to another.

Copies to and from asynchronous devices run beside their kernels, each as soon as what it reads is
there. Between devices of one platform they are the platform's own (`Stream.copy`); between others
they go by way of the host, which waits for nothing but the value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.compiler.program.program import Slot
from xladev.compiler.program.thunks import RunExecutable, Slots, Transfer
from xladev.errors import OutOfMemoryError
from xladev.hlo.physical import HostArray, is_plain, pack, physical_nbytes, unpack
from xladev.instrument import counter
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.transfer import download, transfer_scope, view
from xladev.runtime.device import Device
from xladev.runtime.launch.definition_event import DEFINED, DefinitionEvent
from xladev.runtime.launch.run_queue import Explain, RunQueue
from xladev.runtime.launch.slot_value import Frame, SlotValue, Values
from xladev.runtime.memory import DeviceMemory, HostBytes


class ValueMoves:
    """Used by one thread.

    Args:
        devices: one for each platform of the program.
        queues: those of asynchronous devices; None for others.
        explain: for each platform, what an error of its copies is to say.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        queues: Sequence[RunQueue | None],
        explain: Sequence[Explain],
    ) -> None:
        self._devices, self._queues, self._explain = devices, queues, explain
        self._fetched: dict[tuple[Frame, int], tuple[DefinitionEvent, HostBytes]] = {}

    # Memory

    def allocate(self, frame: Frame, number: int) -> SlotValue:
        """Memory for a slot: the caller's, if the slot is a result of the program."""
        given = frame.destinations.get(number)
        if given is not None:
            return SlotValue(given)
        slot = frame.procedure.slots[number]
        label = f"value {number} of {frame.procedure.name}"
        nbytes, space = physical_nbytes(slot.shape), 0
        if slot.shape.layout:
            space = slot.shape.layout.memory_space
        buffer = self.allocate_nbytes(slot.platform, nbytes, label, space)
        return SlotValue(buffer.memory, buffer)

    def allocate_nbytes(self, platform: int, nbytes: int, label: str, space: int = 0) -> Buffer:
        """A buffer; waits for this run's own work where there is no room without its memory.

        Raises:
            OutOfMemoryError: there is none even so.
        """
        device, queue = self._devices[platform], self._queues[platform]
        try:
            return device.allocate_nbytes(nbytes, label, memory_space=space)
        except OutOfMemoryError:
            if queue is None:
                raise
        queue.wait()
        return device.allocate_nbytes(nbytes, label, memory_space=space)

    def with_zeros(self, frame: Frame, thunk: RunExecutable, arguments: Values) -> Values:
        """The arguments of a region that runs for those of its results that need none that failed.

        Raises:
            Poisoned: all results need one that failed.
        """
        failed = {n for n, value in enumerate(arguments) if value.memory is None}
        if all(failed.intersection(row) for row in thunk.needs):
            memories(arguments)
        return [
            self._zeros(frame.procedure.slots[slot]) if n in failed else value
            for n, (slot, value) in enumerate(zip(thunk.arguments, arguments, strict=True))
        ]

    def _zeros(self, slot: Slot) -> SlotValue:
        device, nbytes = self._devices[slot.platform], physical_nbytes(slot.shape)
        space = slot.shape.layout.memory_space if slot.shape.layout else 0
        buffer = self.allocate_nbytes(slot.platform, nbytes, "in place of what failed", space)
        if nbytes:
            with device.call("Executor.copy_to_device"):
                to = buffer.memory.slice(0, nbytes)
                device.executor.copy_to_device(to, np.zeros(nbytes, np.uint8))
        return SlotValue(buffer.memory, buffer)

    # Copies

    def copy(self, platform: int, target: SlotValue, source: SlotValue) -> SlotValue:
        """A copy within one device, in order with its kernels; the target with its event."""
        device, queue = self._devices[platform], self._queues[platform]
        nbytes = min(target.place.nbytes, source.place.nbytes)
        to, of = target.place.slice(0, nbytes), source.place.slice(0, nbytes)
        if queue is None:
            with device.call("Stream.copy"):
                device.stream.copy(to, of)
            return target
        work = lambda stream: stream.copy(to, of)  # noqa: E731
        with device.call("Stream.copy"):
            event = queue.enqueue(work, [source], target, self._explain[platform])
        return SlotValue(target.memory, target.owner, event, queue.stream)

    def write(
        self, frame: Frame, number: int, array: HostArray | None, owner: object = None
    ) -> None:
        """Fills a slot with a host array.

        Args:
            frame: whose slot it is.
            number: of the slot.
            array: what it is to hold; None for what is no array.
            owner: of the array's memory, if that is not the array.
        """
        value = self.allocate(frame, number)
        slot = frame.procedure.slots[number]
        if array is not None and array.nbytes:
            value = self._upload(slot.platform, value, pack(array, slot.shape), owner)
        frame.values[number] = value

    def _upload(self, platform: int, value: SlotValue, data: HostBytes, owner: object) -> SlotValue:
        device, queue = self._devices[platform], self._queues[platform]
        counter("program.nbytes_transferred", data.nbytes)
        memory = value.place.slice(0, data.nbytes)
        if queue is not None:
            keeps, explain = (value, owner), self._explain[platform]
            event = queue.copy(memory, data, (), keeps, what="to device", explain=explain)
            return SlotValue(value.memory, value.owner, event, device.transfers.stream)
        with transfer_scope("to device", device, data.nbytes), device.call("Stream.copy"):
            device.stream.copy(memory, data)
        return value

    def transfer(self, frame: Frame, thunk: Transfer) -> SlotValue:
        """The value of a slot on another device, in another layout, or both."""
        source, target = (frame.procedure.slots[s] for s in (thunk.source, thunk.result))
        value = frame.values[thunk.source]
        if source == target:
            return self.copy(target.platform, self.allocate(frame, thunk.result), value)
        if self._are_peers(source, target):
            return self._copy_from_peer(frame, thunk, value)
        if thunk.result not in frame.destinations:
            shared = self._shared(value, source, target)
            if shared is not None:
                return shared
        fetched = self._fetched.pop((frame, thunk.result), None)
        if fetched is None:
            array = self.to_host(value, source)
        else:
            event, data = fetched
            self._wait_for(SlotValue(value.memory, None, event))
            array = unpack(data, source.shape)
        self.write(frame, thunk.result, array, value)
        return frame.values[thunk.result]

    def _are_peers(self, source: Slot, target: Slot) -> bool:
        """Whether the platform copies by itself: two asynchronous devices of it, one layout."""
        if source.shape != target.shape or source.platform == target.platform:
            return False
        one, other = self._devices[source.platform], self._devices[target.platform]
        queues = self._queues[source.platform], self._queues[target.platform]
        return one.platform == other.platform and None not in queues

    def _copy_from_peer(self, frame: Frame, thunk: Transfer, value: SlotValue) -> SlotValue:
        platform = frame.procedure.slots[thunk.result].platform
        sender = self._devices[frame.procedure.slots[thunk.source].platform]
        receiver, queue = self._devices[platform], self._queues[platform]
        assert queue is not None, receiver.name
        made = self.allocate(frame, thunk.result)
        nbytes = physical_nbytes(frame.shape(thunk.result))
        if not nbytes or not frame.shape(thunk.result).is_array:
            return SlotValue(made.memory, made.owner, value.event, value.stream)
        counter("program.nbytes_transferred", nbytes)
        counter("program.nbytes_from_peers", nbytes)
        to, of = made.place.slice(0, nbytes), value.place.slice(0, nbytes)
        what, explain = f"from {sender.name}", self._explain[platform]
        event = queue.copy(to, of, [value], made, what=what, explain=explain)
        return SlotValue(made.memory, made.owner, event, receiver.transfers.stream)

    def _shared(self, value: SlotValue, source: Slot, target: Slot) -> SlotValue | None:
        """The same memory as the other platform sees it, where the host addresses both."""
        device = self._devices[target.platform]
        space = device.description.memory_spaces[0]
        if source.shape != target.shape or not space.host_addressable:
            return None
        data = view(self._devices[source.platform], value.place, source.shape)
        if data is None or not data.nbytes or not is_plain(source.shape):
            return None
        if data.__array_interface__["data"][0] % space.wrap_alignment:
            return None
        self._wait_for(value)
        with device.call("Executor.wrap_host"):
            memory = device.executor.wrap_host(data)
        return None if memory is None else SlotValue(memory, (value, data))

    # What the host reads

    def to_host(self, value: SlotValue, slot: Slot) -> HostArray | None:
        """The array that a slot holds, when it is there; only to be read.

        Raises:
            Poisoned: the value failed.
        """
        if not slot.shape.is_array:
            return None
        self._wait_for(value)
        device = self._devices[slot.platform]
        data = view(device, value.place, slot.shape)
        if data is not None:
            return unpack(data, slot.shape)
        return download(device, value.place, slot.shape)

    def _wait_for(self, value: SlotValue) -> None:
        if value.event is not DEFINED:
            value.event.wait()
            value.check()

    def awaited(self, frame: Frame, slots: Slots) -> DefinitionEvent | None:
        """What the host has to wait for before it reads slots; None if for nothing."""
        for value in frame.take(slots):
            if not value.event.is_ready():
                return value.event
        return None

    def fetched(self, frame: Frame, thunk: Transfer) -> DefinitionEvent | None:
        """What the host has to wait for before it can pass a value on; None if for nothing.

        Where the host does not address the memory, a copy to the host is enqueued at once.
        """
        source, target = (frame.procedure.slots[s] for s in (thunk.source, thunk.result))
        value = frame.values[thunk.source]
        if value.memory is None or not source.shape.is_array:
            return None
        if source == target or self._are_peers(source, target):
            return None
        queue, key = self._queues[source.platform], (frame, thunk.result)
        if queue is None:
            return None
        if key not in self._fetched:
            nbytes = physical_nbytes(source.shape)
            if not nbytes or view(queue.device, value.memory, source.shape) is not None:
                return None if value.event.is_ready() else value.event
            self._fetched[key] = self._fetch(source.platform, value, nbytes)
        event, _ = self._fetched[key]
        return None if event.is_ready() else event

    def _fetch(
        self, platform: int, value: SlotValue, nbytes: int
    ) -> tuple[DefinitionEvent, HostBytes]:
        queue = self._queues[platform]
        assert queue is not None
        data = np.empty(nbytes, np.uint8)
        counter("runtime.nbytes_to_host", nbytes)
        memory, explain = value.place.slice(0, nbytes), self._explain[platform]
        return queue.copy(data, memory, [value], what="to host", explain=explain), data


def memories(values: Values) -> list[DeviceMemory]:
    """Where values are.

    Raises:
        Poisoned: one of them is known to have failed.
    """
    return [value.place for value in values]
