"""Launchable: a LoadedExecutable with its device and signature; takes arrays, gives arrays.

Does for every backend what a launch needs: checks arguments, waits for those computed elsewhere,
allocates results and scratch, copies what is aliased but was not donated, keeps everything alive
until the launch is over, and turns failures into poisoned results.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xladev.compiler.isolation import as_error, expect
from xladev.compiler.signature import Signature
from xladev.errors import ArgumentError, ExecutionError, XladevError
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape
from xladev.instrument import counter, trace_scope
from xladev.runtime.allocator import Buffer
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.collectives import Collectives
from xladev.runtime.definition_event import DEFINED, DefinitionEvent, Failure
from xladev.runtime.device import Device, memory_space
from xladev.runtime.event import READY, Event
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.memory import DeviceMemory

_run_ids = itertools.count(1)
Donated = Collection[int]


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
        self._parameters = tuple(s.with_default_layout() for s in signature.parameter_leaves)
        self._results = tuple(s.with_default_layout() for s in signature.result_leaves)
        self._result_buffers = tuple(
            (physical_nbytes(shape), f"result {i} of {name}", memory_space(shape))
            for i, shape in enumerate(signature.result_shapes)
        )
        self._scratch_label = f"scratch of {name}"

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
            One array for each of `Signature.result_leaves`, with one common event. If an argument
            or the launch failed, reading them raises why.

        Raises:
            ArgumentError: wrong number, dtype, shape or device of arguments, or a deleted array.
            OutOfMemoryError: no room for arguments, results or scratch.
            DeviceLostError: the device needs a reset.
        """
        run = next_run_id() if run_id is None else run_id
        self.device.check_usable()
        arrays = self._as_arrays(arguments, donate)
        counter("runtime.launches")
        with trace_scope(self.signature.name, "launch", device=self.device.name, run_id=run):
            return self._execute(arrays, donate, run, collectives)

    def _execute(
        self,
        arrays: tuple[DeviceArray, ...],
        donate: Donated,
        run_id: int,
        collectives: Collectives | None,
    ) -> tuple[DeviceArray, ...]:
        upstream = _unfinished_events(arrays)
        poison = next((f for event in upstream if (f := event.failure()) is not None), None)
        if poison is not None:
            self._end_donated(arrays, donate)
            return self._failed(poison, run_id, collectives)
        prepared = self._prepare(arrays, donate)
        failure, recorded = self._launch(prepared, run_id, collectives)
        if failure is None and recorded is READY and not upstream:
            return self._as_results(prepared.results, DEFINED)
        self.device.retain(DefinitionEvent(self.device.name, recorded), prepared)
        if failure is not None:
            return self._failed(failure, run_id, collectives)
        defined = DefinitionEvent(self.device.name, recorded, upstream)
        if collectives is not None and (failed := defined.failure()) is not None:
            collectives.pool.abort(run_id, failed.error)
        return self._as_results(prepared.results, defined)

    # Arguments

    def _as_arrays(self, arguments: Sequence[Any], donate: Donated) -> tuple[DeviceArray, ...]:
        shapes = self.signature.parameter_leaves
        if len(arguments) != len(shapes):
            raise ArgumentError(
                f"{self.signature.name} takes {len(shapes)} arrays, not {len(arguments)}",
                why=", ".join(s.to_string(layout=False) for s in shapes),
            )
        arrays = tuple(self._as_array(i, a, donate) for i, a in enumerate(arguments))
        self._check_donation(arrays, donate)
        return arrays

    def _as_array(self, index: int, argument: Any, donate: Donated) -> DeviceArray:
        shape = self._parameters[index]
        label = f"parameter {index} of {self.signature.name}"
        if not shape.is_array:
            return DeviceArray(self.device, shape, self.device.allocate(shape, label), DEFINED)
        if not isinstance(argument, DeviceArray):
            host = np.asarray(argument)
            return put(
                self.device, host, shape, alias=self._may_alias(host, index, donate), label=label
            )
        if argument.device is not self.device:
            raise ArgumentError(
                f"{label} lives on {argument.device.name}",
                why=f"the program runs on {self.device.name}",
                hint="copy it with to_device(array, device)",
            )
        return argument if argument.hlo_shape == shape else self._converted(argument, shape, label)

    def _converted(self, argument: DeviceArray, shape: Shape, label: str) -> DeviceArray:
        """The argument in the layout or bounds that the program takes, through the host."""
        argument.check_live()
        argument.event.wait()
        if argument.event.failure() is not None:
            return argument
        return put(self.device, argument.numpy(), shape, label=label)

    def _may_alias(self, host: Any, index: int, donate: Donated) -> bool:
        """True if the caller cannot change the array while it is in use, or has given it away."""
        return index in donate or not host.flags.writeable or self.device.stream.is_synchronous

    def _check_donation(self, arrays: tuple[DeviceArray, ...], donate: Donated) -> None:
        for index in donate:
            if not 0 <= index < len(arrays):
                raise ArgumentError(f"{self.signature.name} has no argument {index} to donate")
            if sum(a is arrays[index] for a in arrays) > 1:
                raise ArgumentError(
                    f"argument {index} of {self.signature.name} is donated and passed twice"
                )
        for array in arrays:
            array.check_live()

    def _end_donated(self, arrays: tuple[DeviceArray, ...], donate: Donated) -> None:
        for index in donate:
            arrays[index].end(f"it was donated to {self.signature.name}")

    # Buffers

    def _prepare(self, arrays: tuple[DeviceArray, ...], donate: Donated) -> _Prepared:
        buffers = self._argument_buffers(arrays)
        arguments = [buffer.memory for buffer in buffers]
        results: dict[int, Buffer] = {}
        reusable = {i for i in donate if arrays[i].is_writable}
        for alias in self.signature.aliases:
            buffer = buffers[alias.parameter]
            if alias.parameter not in reusable:
                buffer = self._copy_of(alias.result, buffer.memory)
            results[alias.result] = buffer
            arguments[alias.parameter] = buffer.memory
        count = len(self._result_buffers)
        made = tuple(results.get(i) or self._allocate_result(i) for i in range(count))
        scratch = self._allocate_scratch()
        self._end_donated(arrays, donate)
        return _Prepared(tuple(arguments), made, scratch, tuple(buffers))

    def _argument_buffers(self, arrays: tuple[DeviceArray, ...]) -> list[Buffer]:
        """The buffers of the leaves, then those of the hidden sizes."""
        leaves = [buffer for array in arrays if (buffer := array.buffer) is not None]
        return leaves + [size for array in arrays for size in array.size_buffers]

    def _copy_of(self, result: int, source: DeviceMemory) -> Buffer:
        buffer = self._allocate_result(result)
        nbytes = min(source.nbytes, buffer.memory.nbytes)
        with self.device.call("Stream.copy"):
            self.device.stream.copy(buffer.memory.slice(0, nbytes), source.slice(0, nbytes))
        return buffer

    def _allocate_result(self, index: int) -> Buffer:
        nbytes, label, space = self._result_buffers[index]
        return self.device.allocate_nbytes(nbytes, label, memory_space=space)

    def _allocate_scratch(self) -> Buffer | None:
        nbytes = self.signature.scratch_nbytes
        return self.device.allocate_nbytes(nbytes, self._scratch_label) if nbytes else None

    # Launch

    def _launch(
        self, prepared: _Prepared, run_id: int, collectives: Collectives | None
    ) -> tuple[Failure | None, Event | None]:
        """Launches; returns why that failed, and the event after which buffers are free."""
        context = LaunchContext(
            prepared.arguments,
            tuple(buffer.memory for buffer in prepared.results),
            None if prepared.scratch is None else prepared.scratch.memory,
            collectives,
            0 if collectives is None else collectives.replica,
            run_id,
            0 if collectives is None else collectives.partition,
        )
        failure = None
        try:
            self.loaded.launch(self.device.stream, context)
        except (Exception, SystemExit) as e:  # noqa: BLE001 (it belongs to the results)
            failure = self._failure(e, "LoadedExecutable.launch")
        try:
            event = expect(self.device.stream.record(), Event, self.device.name, "Stream.record")
        except Exception as e:  # noqa: BLE001 (it belongs to the results)
            self.device.stream.synchronize()
            return failure or self._failure(e, "Stream.record"), None
        return failure, event

    def _failure(self, raised: BaseException, function: str) -> Failure:
        """Why the results are not there; also tells the device, which may be lost."""
        error = as_error(raised, self.device.name, function)
        if not isinstance(raised, (XladevError, MemoryError)):
            error = ExecutionError(
                f"execution of {self.signature.name} failed",
                where=error.where,
                why=f"{error.what}: {error.why}",
                hint=error.hint,
            )
            error.__cause__ = raised
        failure = Failure(error, self.device.name)
        self.device.note(failure)
        return failure

    # Results

    def _failed(
        self, failure: Failure, run_id: int, collectives: Collectives | None
    ) -> tuple[DeviceArray, ...]:
        if collectives is not None:
            collectives.pool.abort(run_id, failure.error)
        event = DefinitionEvent(self.device.name, failure=failure)
        return tuple(DeviceArray(self.device, shape, None, event) for shape in self._results)

    def _as_results(
        self, buffers: tuple[Buffer, ...], event: DefinitionEvent
    ) -> tuple[DeviceArray, ...]:
        sizes = iter(buffers[len(self._results) :])
        return tuple(
            DeviceArray(
                self.device,
                shape,
                buffer,
                event,
                tuple(itertools.islice(sizes, sum(shape.dynamic))),
            )
            for shape, buffer in zip(self._results, buffers, strict=False)
        )


def _unfinished_events(arrays: tuple[DeviceArray, ...]) -> tuple[DefinitionEvent, ...]:
    """The events of the arrays, each once, without those that are ready and did not fail."""
    events = {id(a.event): a.event for a in arrays if a.event is not DEFINED}
    return tuple(event for event in events.values() if not event.is_done)
