"""One launch of a Program: its thunks as far as they depend on each other, on several devices.

Values are buffers that nothing writes once they are filled, so that loops and calls pass them on
without copies. Work is enqueued on the devices' streams, each piece with an event of its own; the
host waits where it must read (a predicate, a value that crosses platforms), and only for the values
that it reads. What fails poisons the values that depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from xladev.compiler.isolation import is_contained
from xladev.compiler.program.program import Procedure
from xladev.compiler.program.thunks import (
    Call,
    Collective,
    CollectiveDone,
    CollectiveStart,
    Conditional,
    Constant,
    DeviceNumber,
    Evaluate,
    RandomState,
    RunExecutable,
    Thunk,
    Transfer,
    While,
    writes,
)
from xladev.hlo.evaluator import HloEvaluator
from xladev.instrument import counter, trace_scope
from xladev.instrument.interruption import LoopWatch
from xladev.runtime.device import Device
from xladev.runtime.evaluation import evaluate
from xladev.runtime.launch.definition_event import DefinitionEvent, ExecutionFailure
from xladev.runtime.launch.launch_error import launch_error
from xladev.runtime.launch.launch_trace import program_trace
from xladev.runtime.launch.program_parts import ProgramParts, explained
from xladev.runtime.launch.run_collectives import RunCollectives
from xladev.runtime.launch.run_queue import RunQueue
from xladev.runtime.launch.slot_value import Frame, Poisoned, SlotValue, Values
from xladev.runtime.launch.thunk_order import ProcedureSteps, run_in_order_of_dependence
from xladev.runtime.launch.value_executable import RunOutcome
from xladev.runtime.launch.value_moves import ValueMoves, memories
from xladev.runtime.loaded_executable import LaunchContext
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream


class ProgramRun:
    """The state of one launch; used by one thread.

    Args:
        loaded: the program.
        context: its buffers.
        upstream: events of arguments that are not there yet.
    """

    def __init__(
        self, loaded: ProgramParts, context: LaunchContext, upstream: Sequence[DefinitionEvent] = ()
    ) -> None:
        self._loaded = loaded
        self._program = loaded.program
        self._devices = loaded.devices
        self._context = context
        self._upstream = upstream
        self._is_alone = context.communicator is None
        self._queues = [
            None if d.turn is None else RunQueue(d, takes_turns=self._is_alone)
            for d in loaded.devices
        ]
        explain = [partial(explained, loaded, d, None) for d in loaded.devices]
        self._moves = ValueMoves(loaded.devices, self._queues, explain)
        self._waits_by_value = self._is_alone and any(self._queues)
        self._failed: list[DefinitionEvent] = []
        self._collectives = RunCollectives(loaded, context, self._queues[0], self._moves)

    def run(self) -> RunOutcome:
        """Enqueues everything, and says when each result is there.

        Raises:
            XladevError: a step failed, and other participants wait for this one.
        """
        entry = self._program.entry
        destinations = dict(zip(entry.results, self._context.results, strict=True))
        try:
            number = len(self._program.procedures) - 1
            values = self._procedure(number, self._arguments(), destinations)
            self._join_results(values)
            if not self._is_alone:
                self._check_all()
        except BaseException as e:
            self._wait_for_all()
            if isinstance(e, Poisoned):
                raise e.failure.read() from None
            raise
        return self._outcome(values)

    def _arguments(self) -> Values:
        """What is still being computed is there when the target has done what it was given."""
        queue = self._queues[0]
        if not self._upstream or queue is None:
            return [SlotValue(memory) for memory in self._context.arguments]
        values = [SlotValue(None, None, event) for event in self._upstream]
        event = queue.enqueue(
            _nothing, values, None, partial(explained, self._loaded, queue.device, None)
        )
        return [SlotValue(memory, None, event, queue.stream) for memory in self._context.arguments]

    def _join_results(self, values: Values) -> None:
        """What is launched next on the target finds the results there."""
        queue = self._queues[0]
        if queue is None:
            return
        copied = [v for v in values if v.stream not in (None, queue.stream)]
        if any(not v.event.is_settled for v in copied):
            explain = partial(explained, self._loaded, queue.device, None)
            queue.enqueue(_nothing, copied, None, explain)

    def _outcome(self, values: Values) -> RunOutcome:
        left = [(q.device, q.left()) for q in self._queues if q is not None]
        return RunOutcome(
            tuple(value.event for value in values),
            (*self._failed, *self._failures(), *(event for _, row in left for event, _ in row)),
            [row for _, row in left],
            tuple(device for device, row in left[1:] if row),
        )

    def _procedure(
        self,
        number: int,
        arguments: Values,
        destinations: Mapping[int, DeviceMemory] | None = None,
    ) -> Values:
        loaded = self._loaded.procedures[number]
        frame = Frame(loaded.procedure, arguments, destinations or {})
        if self._waits_by_value and loaded.reads_on_host:
            steps = ProcedureSteps(frame, loaded.uses, self._take, self._awaited)
            run_in_order_of_dependence(self._loaded.ordered(number), steps)
        else:
            for thunk, dying in zip(loaded.procedure.thunks, loaded.dying, strict=True):
                self._take(frame, thunk)
                for slot in dying:
                    frame.values.pop(slot, None)
        return frame.take(loaded.procedure.results)

    def _take(self, frame: Frame, thunk: Thunk) -> None:
        """Runs a thunk; what fails is that of its results, unless others wait for this run."""
        try:
            self._thunk(frame, thunk)
            return
        except Poisoned as e:
            failure = e.failure
            if not self._is_alone:
                raise
        except BaseException as e:
            if not self._is_alone or not is_contained(e):
                raise
            failure = self._failure(frame, thunk, e)
        event = DefinitionEvent(failure.origin, failure=failure)
        self._failed.append(event)
        frame.set(writes(thunk), [SlotValue(None, None, event) for _ in writes(thunk)])

    def _awaited(self, frame: Frame, thunk: Thunk) -> DefinitionEvent | None:
        """What the host would have to wait for before it runs a thunk; None if for nothing."""
        match thunk:
            case Transfer():
                return self._moves.fetched(frame, thunk)
            case Evaluate():
                return self._moves.awaited(frame, thunk.arguments)
            case Conditional():
                return self._moves.awaited(frame, (thunk.index,))
            case _:
                return None

    def _failure(self, frame: Frame, thunk: Thunk, raised: BaseException) -> ExecutionFailure:
        """Why the results of a thunk are not there, where something raised it."""
        device = self._devices[0]
        if isinstance(thunk, RunExecutable) and thunk.results:
            device = self._devices[frame.procedure.slots[thunk.results[0]].platform]
        function = "LoadedExecutable.launch"
        error = launch_error(raised, device.name, function, self._program.name)
        device.note_error(error)
        return ExecutionFailure(error, device.name)

    def _thunk(self, frame: Frame, thunk: Thunk) -> None:
        match thunk:
            case RunExecutable():
                self._run_executable(frame, thunk)
            case Transfer():
                frame.values[thunk.result] = self._moves.transfer(frame, thunk)
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
            case CollectiveStart():
                self._collectives.start(frame, thunk)
            case CollectiveDone():
                self._collectives.end(frame, thunk)
            case Collective():
                self._collectives.run(frame, thunk)

    # Regions

    def _run_executable(self, frame: Frame, thunk: RunExecutable) -> None:
        executable = self._program.executables[thunk.executable]
        signature = executable.signature
        platform = self._program.platforms.index(signature.platform)
        device, queue = self._devices[platform], self._queues[platform]
        arguments = frame.take(thunk.arguments)
        failed = [n for n, value in enumerate(arguments) if value.memory is None]
        if failed and thunk.needs:
            arguments = self._moves.with_zeros(frame, thunk, arguments)
        given = memories(arguments)
        results = [self._moves.allocate(frame, slot) for slot in thunk.results]
        scratch = None
        if signature.scratch_nbytes:
            label = f"scratch of {self._program.name}"
            scratch = self._moves.allocate_nbytes(platform, signature.scratch_nbytes, label)

        def launch(stream: Stream) -> None:
            for alias in signature.aliases:
                result = results[alias.result].place
                _copy_within(device, stream, result, given[alias.parameter])
                given[alias.parameter] = result
            context = LaunchContext(
                tuple(given),
                tuple(memories(results)),
                None if scratch is None else scratch.memory,
                self._context.communicator,
                self._context.replica,
                self._context.run_id,
                self._context.partition,
            )
            loaded = self._loaded.executable(thunk.executable)
            with program_trace(loaded, stream, device.name, signature.name):
                loaded.launch(stream, context)

        counter(f"program.launches.{signature.platform}")
        with trace_scope(signature.name, "region", device=device.name):
            if queue is None:
                launch(device.stream)
            else:
                explain = partial(explained, self._loaded, device, thunk.executable)
                keeps, apart = (results, scratch), bool(thunk.needs)
                event = queue.enqueue(launch, arguments, keeps, explain, fails_alone=apart)
                events = [event] * len(results)
                if apart:
                    needed = ([arguments[n] for n in row] for row in thunk.needs)
                    events = [queue.apart(event, row) for row in needed]
                results = [
                    SlotValue(v.memory, v.owner, each, queue.stream)
                    for v, each in zip(results, events, strict=True)
                ]
                if self._loaded.waits_for_each:
                    event.wait()
        frame.set(thunk.results, results)
        for slot, row in zip(thunk.results, thunk.needs if failed else (), strict=False):
            lost = next((n for n in row if n in failed), None)
            if lost is not None:
                frame.values[slot] = frame.values[thunk.arguments[lost]]

    def _evaluate(self, frame: Frame, thunk: Evaluate) -> None:
        signature = self._program.executables[thunk.executable].signature
        slots = frame.procedure.slots
        arrays = [self._moves.to_host(frame.values[s], slots[s]) for s in thunk.arguments]
        counter("program.launches.evaluator")
        with trace_scope(signature.name, "region", device="evaluator"):
            who = self._context.replica, self._context.partition
            evaluator = HloEvaluator(*who, seed=self._loaded.evaluations.advanced(who, 1))
            module = self._loaded.module(thunk.executable)
            results = evaluate(evaluator, module, signature, arrays)
        for slot, array in zip(thunk.results, results, strict=True):
            self._moves.write(frame, slot, array)

    def _device_number(self, frame: Frame, thunk: DeviceNumber) -> None:
        numbers = {"replica": self._context.replica, "partition": self._context.partition}
        self._moves.write(frame, thunk.result, np.asarray(numbers[thunk.kind], np.uint32))

    def _random_state(self, frame: Frame, thunk: RandomState) -> None:
        who = self._context.replica, self._context.partition
        count = self._loaded.counter.advanced(who, thunk.delta)
        self._moves.write(frame, thunk.result, np.array([count, thunk.seed], np.uint64))

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
        return bool(self._moves.to_host(values[0], slot))

    def _branch(self, frame: Frame, thunk: Conditional) -> int:
        """The branch that the index chooses: true is 0; out of range is the last."""
        slot = frame.procedure.slots[thunk.index]
        index = self._moves.to_host(frame.values[thunk.index], slot)
        if index is None or index.dtype == np.bool_:
            return 0 if index is not None and bool(index) else 1
        chosen, last = int(index), len(thunk.branches) - 1
        return chosen if 0 <= chosen <= last else last

    # Values

    def _constant(self, frame: Frame, thunk: Constant) -> SlotValue:
        slot = frame.procedure.slots[thunk.result]
        buffer = self._loaded.constant(thunk.constant, slot.shape, slot.platform)
        return SlotValue(buffer.memory, buffer)

    def _give(self, frame: Frame, slots: Sequence[int], values: Values) -> None:
        """Stores what a callee returned; copied where the program's result is wanted."""
        for number, value in zip(slots, values, strict=True):
            given = frame.destinations.get(number)
            if given is not None and value.memory is not None:
                platform = frame.procedure.slots[number].platform
                value = self._moves.copy(platform, SlotValue(given), value)
            frame.values[number] = value

    # How it ends

    def _wait_for_all(self) -> None:
        """Blocks until no work of the run is pending."""
        self._collectives.give_up()
        for queue in self._queues:
            if queue is not None:
                queue.wait()

    def _failures(self) -> Iterator[DefinitionEvent]:
        """The events that were seen ready and failed."""
        for queue in self._queues:
            if queue is not None:
                yield from queue.failed

    def _check_all(self) -> None:
        """Raises the first failure, when all work is done.

        Raises:
            Poisoned: a step failed.
        """
        self._wait_for_all()
        for event in self._failures():
            SlotValue(None, None, event).check()


def _nothing(_: Stream) -> None:
    """Only waits."""


def _copy_within(
    device: Device, stream: Stream, target: DeviceMemory, source: DeviceMemory
) -> None:
    nbytes = min(target.nbytes, source.nbytes)
    with device.call("Stream.copy"):
        stream.copy(target.slice(0, nbytes), source.slice(0, nbytes))
