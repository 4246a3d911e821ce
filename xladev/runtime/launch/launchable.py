"""Launchable: a LoadedExecutable with its device and signature; takes arrays, gives arrays.

Does for every backend what a launch needs: checks arguments, waits for those computed elsewhere,
allocates results and scratch, copies what is aliased but was not donated, keeps everything alive
until the launch is over, and turns failures into poisoned results.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xladev.compiler.isolation import as_error, expect, is_contained
from xladev.compiler.signature import Signature
from xladev.errors import XladevError
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import interned
from xladev.instrument import counter, is_tracing, logger, trace_scope
from xladev.runtime.array import DeviceArray
from xladev.runtime.buffer import Buffer
from xladev.runtime.collectives.launch_collectives import Collectives
from xladev.runtime.device import Device, memory_space
from xladev.runtime.event import READY, Event
from xladev.runtime.fast_call import FastCall, FastCallSpec, TemporaryAllocation
from xladev.runtime.launch.definition_event import DEFINED, DefinitionEvent, ExecutionFailure
from xladev.runtime.launch.launch_arguments import Donated, LaunchArguments, Parameters
from xladev.runtime.launch.launch_error import in_program, launch_error
from xladev.runtime.launch.launch_trace import observed, program_trace, tells_times
from xladev.runtime.launch.turn import Turn, end_turn
from xladev.runtime.launch.value_executable import ValueExecutable
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.memory import DeviceMemory

_log = logger("runtime")
_run_ids = itertools.count(1)


def next_run_id() -> int:
    """A number that no other execution of this process has."""
    return next(_run_ids)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything that one launch uses."""

    arguments: tuple[DeviceMemory, ...]
    results: tuple[Buffer, ...]
    scratch: Buffer | None
    owners: tuple[Buffer, ...]


class Launchable:
    """A program on one device. Thread-safe.

    Args:
        device: where it runs.
        signature: what it takes and gives.
        loaded: the plugin's or the SDK's executable.
    """

    def __init__(self, device: Device, signature: Signature, loaded: LoadedExecutable) -> None:
        self.device = device
        self.signature = signature
        self.loaded = loaded
        name = signature.name
        self._parameters = Parameters(device, signature)
        self._results = tuple(interned(s.with_default_layout()) for s in signature.result_leaves)
        self._result_buffers = tuple(
            (physical_nbytes(shape), f"result {i} of {name}", memory_space(shape))
            for i, shape in enumerate(signature.result_shapes)
        )
        self._scratch_label = f"scratch of {name}"

    @property
    def allocated_nbytes(self) -> int:
        """Bytes that a launch allocates if nothing is donated: results and scratch."""
        results = sum(nbytes for nbytes, _, _ in self._result_buffers)
        return results + self.signature.scratch_nbytes

    def execute(
        self,
        arguments: Sequence[Any],
        *,
        donate: Donated = (),
        run_id: int | None = None,
        collectives: Collectives | None = None,
    ) -> tuple[DeviceArray, ...]:
        """Enqueues one execution.

        Args:
            arguments: one array for each of `Signature.parameter_leaves`: of this device, or
                anything NumPy takes for an array; what stands for a token is not looked at.
            donate: indices of arguments that are not needed any more; they are deleted, and their
                memory, NumPy arrays included, may be reused for results.
            run_id: common to all participants of the execution.
            collectives: the other participants; None if alone.

        Returns:
            One array for each of `Signature.result_leaves`. If an argument or the launch failed,
            reading them raises why; of a program of several parts, those that depend on the part
            that failed.

        Raises:
            XladevError: an argument or the launch failed, and there is no result to say so.
            ArgumentError: wrong number, dtype, shape or device of arguments, or a deleted array.
            OutOfMemoryError: no room for arguments, results or scratch.
            DeviceLostError: the device needs a reset.
        """
        run = next_run_id() if run_id is None else run_id
        self.device.check_usable()
        given = self._parameters.take(arguments, donate, alone=collectives is None)
        counter("runtime.launches")
        with trace_scope(self.signature.name, "launch", device=self.device.name, run_id=run):
            return self._execute(given, run, collectives)

    def make_fast_call(self, *, is_bare: bool) -> FastCall | None:
        """What does ordinary launches in native code; None if there is nothing of the kind.

        Args:
            is_bare: see `FastCallSpec`.
        """
        shapes = (*self._parameters.shapes, *self._results)
        if not all(s.is_array and not s.is_dynamic and not memory_space(s) for s in shapes):
            return None
        if not self.device.stream.is_synchronous:
            return None
        function = "LoadedExecutable.make_fast_call"
        try:
            return self.loaded.make_fast_call(self._fast_call_spec(is_bare))
        except BaseException as e:
            if not is_contained(e):
                raise
            _log.error("%s", as_error(e, self.device.name, function))
            return None

    def _fast_call_spec(self, is_bare: bool) -> FastCallSpec:
        scratch = self.signature.scratch_nbytes
        shapes = self.signature.argument_shapes, self.signature.result_shapes
        sizes = [[physical_nbytes(shape) for shape in row] for row in shapes]
        return FastCallSpec(
            self.device,
            self.device.clear,
            self.device.allocator.account,
            self.device.allocator.register,
            self._parameters.shapes,
            self._results,
            tuple(TemporaryAllocation(max(n, 1), label) for n, label, _ in self._result_buffers),
            TemporaryAllocation(scratch, self._scratch_label) if scratch else None,
            tuple(
                (a.result, a.parameter, min(sizes[0][a.parameter], sizes[1][a.result]))
                for a in self.signature.aliases
            ),
            is_bare,
        )

    def _execute(
        self,
        given: LaunchArguments,
        run_id: int,
        collectives: Collectives | None,
    ) -> tuple[DeviceArray, ...]:
        upstream = given.events()
        poison = next((f for event in upstream if (f := event.failure()) is not None), None)
        if poison is not None:
            given.end_donated()
            return self._failed(poison, run_id, collectives)
        if isinstance(self.loaded, ValueExecutable):
            return self._execute_by_value(self.loaded, given, upstream, run_id, collectives)
        try:
            prepared, failure, recorded = self._enqueue(given, run_id, collectives)
            if failure is None and recorded is READY and not upstream:
                return self._as_results(prepared.results, [DEFINED] * len(prepared.results))
            defined = DefinitionEvent(
                self.device.name, recorded, upstream, explain=self._explained, is_read=bool(failure)
            )
            self.device.retain(defined, (prepared, self.loaded))
        except BaseException:
            self._wait_for_pending()  # copies or the launch may be under way, and nothing is kept
            raise
        if failure is not None:
            return self._failed(failure, run_id, collectives)
        if is_tracing() and not tells_times(self.device.stream):
            self._observe(defined)
        if collectives is not None and (failed := defined.failure()) is not None:
            collectives.pool.abort(run_id, failed.error)
        self._raise_what_nobody_could_read(defined)
        return self._as_results(prepared.results, [defined] * len(prepared.results))

    def _execute_by_value(
        self,
        executable: ValueExecutable,
        given: LaunchArguments,
        upstream: Sequence[DefinitionEvent],
        run_id: int,
        collectives: Collectives | None,
    ) -> tuple[DeviceArray, ...]:
        """Launches what has an event per result: each is poisoned by what it depends on alone."""
        prepared = self._prepare(given, None)
        try:
            outcome = executable.run(_context(prepared, run_id, collectives), upstream)
        except BaseException as e:
            if not is_contained(e):
                raise
            failure = self._failure(e, "LoadedExecutable.launch")
            return self._failed(failure, run_id, collectives)
        if not upstream and not outcome.events:
            return self._as_results(prepared.results, [DEFINED] * len(prepared.results))
        ended = DefinitionEvent(upstream=(*upstream, *outcome.events))
        for device in (self.device, *outcome.devices):
            device.retain(ended, (prepared, self.loaded, outcome.kept))
        if is_tracing() and not tells_times(self.device.stream):
            self._observe(ended)
        self._raise_what_nobody_could_read(ended)
        events = outcome.results
        if upstream:  # an argument that fails is everybody's
            events = tuple(DefinitionEvent(upstream=(*upstream, event)) for event in events)
        return self._as_results(prepared.results, events)

    def _enqueue(
        self, given: LaunchArguments, run_id: int, collectives: Collectives | None
    ) -> tuple[_Prepared, ExecutionFailure | None, Event | None]:
        """Allocates, copies and launches, with the device's turn.

        With other participants it is only taken to record: a launch may wait for theirs.
        """
        turn = self.device.turn
        try:
            prepared = self._prepare(given, turn if collectives is None else None)
            return prepared, *self._launch(prepared, run_id, collectives, turn)
        finally:
            if turn is not None:
                end_turn()

    def _observe(self, defined: DefinitionEvent) -> None:
        """Lets a timeline have the launch as the host sees it, for want of the device's times."""
        name, device, start_ns = self.signature.name, self.device.name, time.perf_counter_ns()
        defined.on_settled(lambda: observed(name, device, start_ns))

    # Buffers

    def _prepare(self, given: LaunchArguments, turn: Turn | None) -> _Prepared:
        """Makes what the launch needs, and takes its turn for what is enqueued from then on."""
        buffers = given.buffers()
        aliases = {a.result: a.parameter for a in self.signature.aliases}
        in_place = {r for r, parameter in aliases.items() if parameter in given.reusable}
        results: dict[int, Buffer] = {
            i: self._allocate_result(i)
            for i in range(len(self._result_buffers))
            if i not in in_place
        }
        scratch = self._allocate_scratch()
        given.end_donated()
        for result in in_place:
            if given.is_free(aliases[result]):
                results[result] = buffers[aliases[result]]
                self.device.join_readers(results[result].memory)
            else:
                results[result] = self._allocate_result(result)
        arguments = [buffer.memory for buffer in buffers]
        if turn is not None:
            turn.take()
        for result, parameter in aliases.items():
            memory = results[result].memory
            if results[result] is not buffers[parameter]:
                self._copy(memory, arguments[parameter])
            arguments[parameter] = memory
        made = tuple(results[i] for i in range(len(results)))
        return _Prepared(tuple(arguments), made, scratch, tuple(buffers))

    def _copy(self, target: DeviceMemory, source: DeviceMemory) -> None:
        nbytes = min(source.nbytes, target.nbytes)
        with self.device.call("Stream.copy"):
            self.device.stream.copy(target.slice(0, nbytes), source.slice(0, nbytes))

    def _allocate_result(self, index: int) -> Buffer:
        nbytes, label, space = self._result_buffers[index]
        return self.device.allocate_nbytes(nbytes, label, memory_space=space)

    def _allocate_scratch(self) -> Buffer | None:
        nbytes = self.signature.scratch_nbytes
        return self.device.allocate_nbytes(nbytes, self._scratch_label) if nbytes else None

    # Launch

    def _launch(
        self,
        prepared: _Prepared,
        run_id: int,
        collectives: Collectives | None,
        turn: Turn | None,
    ) -> tuple[ExecutionFailure | None, Event | None]:
        """Launches; returns why that failed, and the event after which buffers are free."""
        context = _context(prepared, run_id, collectives)
        failure = None
        try:
            stream = self.device.stream
            with program_trace(self.loaded, stream, self.device.name, self.signature.name):
                self.loaded.launch(stream, context)
        except BaseException as e:
            if not is_contained(e):
                raise
            failure = self._failure(e, "LoadedExecutable.launch")
        try:
            if turn is not None:
                turn.take()
            event = expect(self.device.stream.record(), Event, self.device.name, "Stream.record")
        except BaseException as e:
            self._wait_for_pending()
            if not is_contained(e):
                raise
            return failure or self._failure(e, "Stream.record"), None
        return failure, event

    def _wait_for_pending(self) -> None:
        """Blocks until nothing uses the buffers of a launch that was ended on its way."""
        with contextlib.suppress(Exception):
            self.device.stream.synchronize()

    def _failure(self, raised: BaseException, function: str) -> ExecutionFailure:
        """Why the results are not there; also tells the device, which may be lost."""
        error = launch_error(raised, self.device.name, function, self.signature.name)
        failure = ExecutionFailure(error, self.device.name)
        self.device.note(failure)
        return failure

    def _explained(self, error: XladevError) -> XladevError:
        """What an event tells of a launch, with the program's name; also tells the device."""
        self.device.note_error(error)
        with contextlib.suppress(Exception):  # names of kernels are worth less than the error
            return in_program(error, self.signature.name, self.loaded.kernel_names)
        return error

    # Results

    def _failed(
        self, failure: ExecutionFailure, run_id: int, collectives: Collectives | None
    ) -> tuple[DeviceArray, ...]:
        if collectives is not None:
            collectives.pool.abort(run_id, failure.error)
        event = DefinitionEvent(self.device.name, failure=failure)
        self._raise_what_nobody_could_read(event)
        return tuple(DeviceArray(self.device, shape, None, event) for shape in self._results)

    def _raise_what_nobody_could_read(self, event: DefinitionEvent) -> None:
        """Raises a failure that is known, where there is no result that could carry it."""
        if not self._results and event.is_ready():
            event.check()

    def _as_results(
        self, buffers: Sequence[Buffer], events: Sequence[DefinitionEvent]
    ) -> tuple[DeviceArray, ...]:
        count = len(self._results)
        sizes, of_sizes = iter(buffers[count:]), iter(events[count:])
        arrays: list[DeviceArray] = []
        for shape, buffer, event in zip(self._results, buffers, events, strict=False):
            own: tuple[Buffer, ...] = ()
            if shape.is_dynamic:
                wanted = sum(shape.dynamic)
                own = tuple(itertools.islice(sizes, wanted))
                joint = {id(e): e for e in (event, *itertools.islice(of_sizes, wanted))}
                event = DefinitionEvent(upstream=joint.values()) if len(joint) > 1 else event
            arrays.append(DeviceArray(self.device, shape, buffer, event, own))
        return tuple(arrays)


def _context(prepared: _Prepared, run_id: int, collectives: Collectives | None) -> LaunchContext:
    return LaunchContext(
        prepared.arguments,
        tuple(buffer.memory for buffer in prepared.results),
        None if prepared.scratch is None else prepared.scratch.memory,
        collectives,
        0 if collectives is None else collectives.replica,
        run_id,
        0 if collectives is None else collectives.partition,
    )
