"""One launch of a Program: its thunks in order, with loops, branches and calls run by the SDK.

Values are buffers that nothing writes once they are filled, so that loops and calls pass them on
without copies. Work is enqueued on the devices' streams; the host waits where it must read (a
predicate, a value that crosses platforms) and before it lets go of memory that pending work uses.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xladev.compiler.isolation import expect
from xladev.compiler.program.program import Procedure, Slot
from xladev.compiler.program.thunks import (
    Call,
    Collective,
    Conditional,
    Constant,
    DeviceNumber,
    Evaluate,
    RandomState,
    RunExecutable,
    Thunk,
    Transfer,
    While,
)
from xladev.errors import XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.physical import HostArray, is_plain, pack, unpack
from xladev.hlo.shape import Shape
from xladev.instrument import counter, trace_scope
from xladev.instrument.interruption import LoopWatch
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.transfer import download, transfer_scope, view
from xladev.runtime.collectives.collective_run import run_collective
from xladev.runtime.device import Device
from xladev.runtime.evaluation import evaluate
from xladev.runtime.event import Event
from xladev.runtime.launch.launch_error import in_program
from xladev.runtime.launch.launch_trace import program_trace
from xladev.runtime.launch.program_parts import ProgramParts
from xladev.runtime.launch.turn import Turn, end_turn
from xladev.runtime.loaded_executable import LaunchContext
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import finish


@dataclass(frozen=True, slots=True)
class SlotValue:
    """What a slot holds.

    Attributes:
        memory: where it is.
        owner: kept alive as long as the value; None for what the caller owns.
    """

    memory: DeviceMemory
    owner: object = None


Values = list[SlotValue]


class ProgramRun:
    """The state of one launch; used by one thread."""

    def __init__(self, loaded: ProgramParts, context: LaunchContext) -> None:
        self._loaded = loaded
        self._program = loaded.program
        self._devices = loaded.devices
        self._context = context
        self._in_use: list[list[object]] = [[] for _ in loaded.devices]
        self._turns = [(p, t) for p, d in enumerate(loaded.devices) if (t := d.turn) is not None]
        self._recorded: list[list[Event]] = [[] for _ in loaded.devices]
        self._collective_calls: Counter[str] = Counter()

    def run(self) -> None:
        """Runs the entry procedure and fills the context's results.

        Raises:
            XladevError: a step failed.
        """
        entry = self._program.entry
        destinations = dict(zip(entry.results, map(SlotValue, self._context.results), strict=True))
        arguments = [SlotValue(memory) for memory in self._context.arguments]
        try:
            self._procedure(len(self._program.procedures) - 1, arguments, destinations)
        except BaseException:
            self._wait_for_all()
            raise
        self._settle()

    def _procedure(
        self, number: int, arguments: Values, destinations: dict[int, SlotValue] | None = None
    ) -> Values:
        loaded = self._loaded.procedures[number]
        frame = _Frame(loaded.procedure, arguments, destinations or {})
        for thunk, dying in zip(loaded.procedure.thunks, loaded.dying, strict=True):
            self._thunk(frame, thunk)
            for slot in dying:
                self._drop(frame, slot)
        return [frame.values[slot] for slot in loaded.procedure.results]

    def _thunk(self, frame: _Frame, thunk: Thunk) -> None:
        match thunk:
            case RunExecutable():
                self._run_executable(frame, thunk)
            case Transfer():
                frame.values[thunk.result] = self._transfer(frame, thunk)
            case Constant():
                frame.values[thunk.result] = self._constant(frame, thunk)
            case While():
                state = self._while(frame.take(thunk.arguments), thunk)
                self._give(frame, thunk.results, state)
            case Conditional():
                branch = self._branch(frame, thunk)
                arguments = frame.take(thunk.arguments[branch])
                results = self._procedure(thunk.branches[branch], arguments)
                self._give(frame, thunk.results, results)
            case Call():
                results = self._procedure(thunk.procedure, frame.take(thunk.arguments))
                self._give(frame, thunk.results, results)
            case DeviceNumber():
                self._device_number(frame, thunk)
            case RandomState():
                self._random_state(frame, thunk)
            case Evaluate():
                self._evaluate(frame, thunk)
            case Collective():
                self._collective(frame, thunk)

    # Regions

    def _run_executable(self, frame: _Frame, thunk: RunExecutable) -> None:
        executable = self._program.executables[thunk.executable]
        signature = executable.signature
        device = self._devices[self._program.platforms.index(signature.platform)]
        arguments = frame.take(thunk.arguments)
        results = [self._allocate(frame, slot) for slot in thunk.results]
        memories = [value.memory for value in arguments]
        for alias in signature.aliases:
            result = results[alias.result].memory
            self._copy(device, result, memories[alias.parameter])
            memories[alias.parameter] = result
        scratch = self._scratch(device, signature.scratch_nbytes)
        context = LaunchContext(
            tuple(memories),
            tuple(value.memory for value in results),
            None if scratch is None else scratch.memory,
            self._context.communicator,
            self._context.replica,
            self._context.run_id,
            self._context.partition,
        )
        counter(f"program.launches.{signature.platform}")
        with trace_scope(signature.name, "region", device=device.name):
            loaded = self._loaded.executable(thunk.executable)
            if device.turn is None:
                self._let_go()
            else:
                self._take_turn(device)
            with program_trace(loaded, device.stream, device.name, signature.name):
                loaded.launch(device.stream, context)
        if self._loaded.waits_for_each:
            self._wait(self._devices.index(device), thunk.executable)
        frame.set(thunk.results, results)

    def _scratch(self, device: Device, nbytes: int) -> Buffer | None:
        if not nbytes:
            return None
        buffer = device.allocate_nbytes(nbytes, f"scratch of {self._program.name}")
        self._keep(self._devices.index(device), buffer)
        return buffer

    def _evaluate(self, frame: _Frame, thunk: Evaluate) -> None:
        signature = self._program.executables[thunk.executable].signature
        arrays = [self._read(frame, slot) for slot in thunk.arguments]
        counter("program.launches.evaluator")
        with trace_scope(signature.name, "region", device="evaluator"):
            who = self._context.replica, self._context.partition
            evaluator = HloEvaluator(*who, seed=self._loaded.evaluations.advanced(who, 1))
            module = self._loaded.module(thunk.executable)
            self._let_go()
            results = evaluate(evaluator, module, signature, arrays)
        for slot, array in zip(thunk.results, results, strict=True):
            self._write(frame, slot, array)

    def _device_number(self, frame: _Frame, thunk: DeviceNumber) -> None:
        numbers = {"replica": self._context.replica, "partition": self._context.partition}
        self._write(frame, thunk.result, np.asarray(numbers[thunk.kind], np.uint32))

    def _random_state(self, frame: _Frame, thunk: RandomState) -> None:
        who = self._context.replica, self._context.partition
        count = self._loaded.counter.advanced(who, thunk.delta)
        self._write(frame, thunk.result, np.array([count, thunk.seed], np.uint64))

    # Control flow

    def _while(self, state: Values, thunk: While) -> Values:
        condition = self._loaded.procedures[thunk.condition].procedure
        watch = LoopWatch()
        while self._read_flag(self._procedure(thunk.condition, state), condition):
            state = self._procedure(thunk.body, state)
            watch.look()
        return state

    def _read_flag(self, values: Values, procedure: Procedure) -> bool:
        slot = procedure.slots[procedure.results[0]]
        return bool(self._to_host(values[0], slot))

    def _branch(self, frame: _Frame, thunk: Conditional) -> int:
        """The branch that the index chooses: true is 0; out of range is the last."""
        index = self._read(frame, thunk.index)
        if index is None or index.dtype == np.bool_:
            return 0 if index is not None and bool(index) else 1
        chosen, last = int(index), len(thunk.branches) - 1
        return chosen if 0 <= chosen <= last else last

    # Collectives

    def _collective(self, frame: _Frame, thunk: Collective) -> None:
        self._collective_calls[thunk.name] += 1
        name = f"{thunk.name}#{self._collective_calls[thunk.name]}"
        results = [self._allocate(frame, slot) for slot in thunk.results]
        self._take_turn(self._devices[0])
        with trace_scope(thunk.name, "collective", device=self._devices[0].name):
            run_collective(
                self._devices[0],
                self._context,
                thunk,
                name,
                [(v.memory, frame.shape(s)) for v, s in frame.pairs(thunk.arguments)],
                [(v.memory, frame.shape(s)) for v, s in zip(results, thunk.results, strict=True)],
                None if thunk.reducer is None else self._loaded.module(thunk.reducer).entry,
            )
        frame.set(thunk.results, results)

    # Values

    def _constant(self, frame: _Frame, thunk: Constant) -> SlotValue:
        slot = frame.procedure.slots[thunk.result]
        buffer = self._loaded.constant(thunk.constant, slot.shape, slot.platform)
        return SlotValue(buffer.memory, buffer)

    def _allocate(self, frame: _Frame, number: int) -> SlotValue:
        """Memory for a slot: the caller's, if the slot is a result of the program."""
        given = frame.destinations.get(number)
        if given is not None:
            return given
        slot = frame.procedure.slots[number]
        label = f"value {number} of {frame.procedure.name}"
        buffer = self._devices[slot.platform].allocate(slot.shape, label)
        return SlotValue(buffer.memory, buffer)

    def _give(self, frame: _Frame, slots: Sequence[int], values: Values) -> None:
        """Stores what a callee returned; copied where the program's result is wanted."""
        for number, value in zip(slots, values, strict=True):
            given = frame.destinations.get(number)
            if given is not None:
                platform = frame.procedure.slots[number].platform
                self._copy(self._devices[platform], given.memory, value.memory)
                self._keep(platform, value)
            frame.values[number] = value if given is None else given

    def _transfer(self, frame: _Frame, thunk: Transfer) -> SlotValue:
        source, target = (frame.procedure.slots[s] for s in (thunk.source, thunk.result))
        value = frame.values[thunk.source]
        if source == target:
            result = self._allocate(frame, thunk.result)
            self._copy(self._devices[target.platform], result.memory, value.memory)
            return result
        if thunk.result not in frame.destinations:
            shared = self._shared(value, source, target)
            if shared is not None:
                return shared
        self._write(frame, thunk.result, self._to_host(value, source))
        self._keep(target.platform, value)  # or its memory is given to others before it was read
        return frame.values[thunk.result]

    def _shared(self, value: SlotValue, source: Slot, target: Slot) -> SlotValue | None:
        """The same memory as the other platform sees it, where the host addresses both."""
        device = self._devices[target.platform]
        space = device.description.memory_spaces[0]
        if source.shape != target.shape or not space.host_addressable:
            return None
        data = view(self._devices[source.platform], value.memory, source.shape)
        if data is None or not data.nbytes or not is_plain(source.shape):
            return None
        if data.__array_interface__["data"][0] % space.wrap_alignment:
            return None
        self._wait(source.platform)
        with device.call("Executor.wrap_host"):
            memory = device.executor.wrap_host(data)
        return None if memory is None else SlotValue(memory, (value, data))

    def _read(self, frame: _Frame, number: int) -> HostArray | None:
        return self._to_host(frame.values[number], frame.procedure.slots[number])

    def _to_host(self, value: SlotValue, slot: Slot) -> HostArray | None:
        """The array that a slot holds; only to be read."""
        if not slot.shape.is_array:
            return None
        self._wait(slot.platform)
        device = self._devices[slot.platform]
        data = view(device, value.memory, slot.shape)
        if data is not None:
            return unpack(data, slot.shape)
        return download(device, value.memory, slot.shape)

    def _write(self, frame: _Frame, number: int, array: HostArray | None) -> None:
        """Fills a slot with a host array."""
        slot = frame.procedure.slots[number]
        value = self._allocate(frame, number)
        frame.values[number] = value
        if array is None or not array.nbytes:
            return
        data = pack(array, slot.shape)
        self._copy_bytes(slot.platform, value.memory, data)

    def _copy_bytes(self, platform: int, memory: DeviceMemory, data: HostArray) -> None:
        device = self._devices[platform]
        counter("program.nbytes_transferred", data.nbytes)
        self._take_turn(device)
        with transfer_scope("to device", device, data.nbytes), device.call("Stream.copy"):
            device.stream.copy(memory.slice(0, data.nbytes), data)
        self._keep(platform, data)

    def _copy(self, device: Device, target: DeviceMemory, source: DeviceMemory) -> None:
        nbytes = min(target.nbytes, source.nbytes)
        self._take_turn(device)
        with device.call("Stream.copy"):
            device.stream.copy(target.slice(0, nbytes), source.slice(0, nbytes))

    # Turns

    def _take_turn(self, device: Device) -> None:
        """Before anything is enqueued on a device.

        Participants take none until they record: their regions may wait for each other.
        """
        turn = device.turn
        if turn is not None and not turn.is_held and self._context.communicator is None:
            self._let_go()
            turn.take()

    def _let_go(self) -> None:
        """Records what was enqueued, for `_wait` to look at, and lets others launch.

        The host computes, and runs the user's code, without a turn.
        """
        for platform, turn in self._turns:
            if turn.is_held:
                self._record(platform, turn)

    def _record(self, platform: int, turn: Turn) -> None:
        """Records, in a turn that ends with it."""
        device = self._devices[platform]
        try:
            if not turn.is_held:
                self._let_go()
                turn.take()
            with device.call("Stream.record"):
                self._recorded[platform].append(device.stream.record())
        finally:
            end_turn()

    # Lifetimes

    def _drop(self, frame: _Frame, slot: int) -> None:
        value = frame.values.pop(slot, None)
        if value is not None:
            self._keep(frame.procedure.slots[slot].platform, value.owner)

    def _keep(self, platform: int, owner: object) -> None:
        """Keeps what pending work may use until the host has waited for it."""
        if owner is not None and not self._devices[platform].stream.is_synchronous:
            self._in_use[platform].append(owner)

    def _wait(self, platform: int, executable: int | None = None) -> None:
        """Blocks until a platform's work is done; raises why it failed, if it did.

        Args:
            platform: number of the platform.
            executable: the one that was just launched, if no other work can have failed.
        """
        device = self._devices[platform]
        turn, recorded = device.turn, self._recorded[platform]
        if turn is None:
            return
        try:
            self._record(platform, turn)
            with device.call("Event.wait"):
                for event in recorded:
                    event.wait()
                errors = [event.error() for event in recorded]
        except BaseException:
            finish(device.stream)
            raise
        finally:
            recorded.clear()
        error = next(filter(None, errors), None)
        self._in_use[platform].clear()
        if error is not None:
            with device.call("Event.error"):  # which notices that it is lost
                raise self._explained(error, device, executable)

    def _explained(self, error: object, device: Device, executable: int | None) -> XladevError:
        """What an event tells of a run, with the names of the program and its kernels."""
        found = expect(error, XladevError, device.name, "Event.error").at(device.name)
        kernels = self._loaded.kernel_names(device.platform, executable)
        return in_program(found, self._program.name, kernels)

    def _wait_for_all(self) -> None:
        """Blocks until no pending work uses what a run holds that fails already."""
        for platform in range(len(self._devices)):
            with contextlib.suppress(XladevError):
                self._wait(platform)

    def _settle(self) -> None:
        """Waits for the other platforms, and for the target if memory depends on it."""
        for platform, in_use in enumerate(self._in_use):
            if platform or in_use or self._recorded[platform]:
                self._wait(platform)


class _Frame:
    """The slots of one procedure that runs."""

    def __init__(
        self, procedure: Procedure, arguments: Values, destinations: dict[int, SlotValue]
    ) -> None:
        self.procedure = procedure
        self.destinations = destinations
        self.values = dict(zip(procedure.parameters, arguments, strict=True))

    def take(self, slots: Sequence[int]) -> Values:
        """What the slots hold."""
        return [self.values[slot] for slot in slots]

    def pairs(self, slots: Sequence[int]) -> list[tuple[SlotValue, int]]:
        """What the slots hold, with their numbers."""
        return [(self.values[slot], slot) for slot in slots]

    def shape(self, slot: int) -> Shape:
        """Shape of a slot."""
        return self.procedure.slots[slot].shape

    def set(self, slots: Sequence[int], values: Values) -> None:
        """Stores values."""
        self.values.update(zip(slots, values, strict=True))
