"""Runs a kernel plan step by step: the SDK's LoadedExecutable for per-kernel backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_plan import Branch, Copy, Loop, Parallel, RunKernel, Slice, Space, Step
from xladev.compiler.operations import unpack_operations
from xladev.compiler.plan_file import is_plan, read_plan
from xladev.compiler.stream_waits import MAIN
from xladev.instrument import is_tracing
from xladev.runtime.allocator import Allocator
from xladev.runtime.buffer import Buffer
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.launch_trace import COPY, LaunchTrace
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream
from xladev.runtime.stream_order import StreamOrder

_UNTRACED: AbstractContextManager[None] = nullcontext()


Spaces = Mapping[Space, tuple[DeviceMemory, ...]]
"""The allocations that slices refer to."""


def load_plan_or_program(
    executor: Executor, executable: Executable, allocator: Allocator
) -> LoadedExecutable:
    """Loads an executable: a kernel plan by the SDK, anything else by the platform.

    Args:
        executor: where it will run.
        executable: what `Compiler.compile` made.
        allocator: of memory of that executor, for constants.

    Raises:
        FormatError: it is damaged, or made for another device.
        OutOfMemoryError: no room for its constants.
    """
    if is_plan(executable):
        return PlanExecutable(executor, executable, allocator)
    return executor.load(executable)


class PlanExecutable(LoadedExecutable):
    """A plan with its kernels loaded and its constants on the device."""

    def __init__(self, executor: Executor, executable: Executable, allocator: Allocator) -> None:
        plan = read_plan(executable)
        self._executor = executor
        self._steps = plan.steps
        self._name = executable.signature.name
        self._device = allocator.device
        self._operations = cache(partial(unpack_operations, plan.operations))
        self._codes = plan.kernels
        self._kernels = tuple(
            tuple(executor.load_kernel(part) for part in code.launches) for code in plan.kernels
        )
        upload = partial(_on_device, executor, allocator, executable.signature.name)
        self._constants = tuple(upload(c) for c in plan.constants)
        self._graphs = executor.create_launch_graphs() if _is_straight(plan.steps) else None
        self._empty = upload(b"") if _wants_empty_scratch(executable, plan.steps) else None

    @property
    def traces_itself(self) -> bool:
        """Yes: kernel by kernel."""
        return True

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Enqueues the steps; waits for the stream only where a loop or branch must be decided."""
        scratch = context.scratch
        if scratch is None and self._empty is not None:
            scratch = self._empty.memory
        spaces = {
            Space.ARGUMENT: context.arguments,
            Space.RESULT: context.results,
            Space.SCRATCH: () if scratch is None else (scratch,),
            Space.CONSTANT: tuple(c.memory for c in self._constants),
        }
        if is_tracing():
            self._launch_traced(stream, spaces)
        elif self._graphs is None:
            self._enqueue(spaces, stream)
        else:
            varying = [*context.arguments, *context.results, *spaces[Space.SCRATCH]]
            self._graphs.launch(stream, varying, partial(self._enqueue, spaces))

    def _enqueue(self, spaces: Spaces, stream: Stream, trace: LaunchTrace | None = None) -> None:
        loaded = _Loaded(self._executor, self._kernels, self._codes)
        _Launch(loaded, stream, spaces, trace).run(self._steps)

    def _launch_traced(self, stream: Stream, spaces: Spaces) -> None:
        trace = LaunchTrace(stream, self._device, self._name, self._operations)
        try:
            self._enqueue(spaces, stream, trace)
        finally:
            trace.finish()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The kernels of a plan on an executor."""

    executor: Executor
    kernels: Sequence[tuple[Kernel, ...]]
    codes: Sequence[KernelCode]

    def launch(self, stream: Stream, number: int, buffers: Sequence[DeviceMemory]) -> None:
        for kernel, part in zip(self.kernels[number], self.codes[number].launches, strict=True):
            self.executor.launch_kernel(stream, kernel, buffers, part.dimensions)


class _Launch:
    """One launch: the allocations that slices refer to."""

    def __init__(
        self, loaded: _Loaded, stream: Stream, spaces: Spaces, trace: LaunchTrace | None = None
    ) -> None:
        self.loaded = loaded
        self.stream = stream
        self.spaces = spaces
        self.trace = trace

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case RunKernel() | Copy():
                    self._run_on(self.stream, MAIN, step)
                case Parallel():
                    self._run_parallel(step)
                case Loop():
                    self.run(step.condition)
                    while self._read(step.predicate)[0]:
                        self.run(step.body)
                        self.run(step.condition)
                case Branch():
                    self.run(step.branches[self._chosen(step)])

    def _run_on(self, stream: Stream, row: int, step: RunKernel | Copy) -> None:
        operation = COPY if isinstance(step, Copy) else step.operation
        with self._traced(operation, stream, row):
            if isinstance(step, Copy):
                stream.copy(self._memory(step.destination), self._memory(step.source))
            else:
                self.loaded.launch(stream, step.kernel, [self._memory(b) for b in step.buffers])

    def _run_parallel(self, step: Parallel) -> None:
        """On streams of the device's own, if it has as many; else one after the other."""
        branches = self.stream.branches(max(step.streams))
        if len(branches) < max(step.streams):
            self.run(step.steps)
            return
        order = StreamOrder((self.stream, *branches), step)
        try:
            for number, (inner, row) in enumerate(zip(step.steps, step.streams, strict=True)):
                self._run_on(order.before(number), row, inner)
                order.after(number)
        except BaseException:
            order.join_all()
            raise
        order.join()

    def _traced(self, operation: int, stream: Stream, row: int) -> AbstractContextManager[None]:
        return _UNTRACED if self.trace is None else self.trace.around(operation, stream, row)

    def _memory(self, s: Slice) -> DeviceMemory:
        return self.spaces[s.space][s.index].slice(s.offset, s.nbytes)

    def _read(self, s: Slice) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        data = np.empty(s.nbytes, np.uint8)
        self.stream.copy(data, self._memory(s))
        event = self.stream.record()
        event.wait()
        error = event.error()
        if error is not None:
            raise error
        return data

    def _chosen(self, step: Branch) -> int:
        data = self._read(step.selector)
        if step.is_predicate:
            return 0 if data[0] else 1
        index = int(data.view(np.int32)[0])
        last = len(step.branches) - 1
        return index if 0 <= index <= last else last


def _is_straight(steps: Sequence[Step]) -> bool:
    """True for several steps, none of which is decided on the host."""
    parts = sum(len(s.steps) if isinstance(s, Parallel) else 1 for s in steps)
    return parts > 1 and all(isinstance(step, RunKernel | Copy | Parallel) for step in steps)


def _wants_empty_scratch(executable: Executable, steps: Sequence[Step]) -> bool:
    """True if arrays of no bytes lie in a scratch that a launch does not have."""
    return executable.signature.scratch_nbytes == 0 and any(map(_uses_scratch, steps))


def _uses_scratch(step: Step) -> bool:
    match step:
        case RunKernel():
            return any(s.space is Space.SCRATCH for s in step.buffers)
        case Copy():
            return Space.SCRATCH in (step.source.space, step.destination.space)
        case Loop():
            return any(map(_uses_scratch, (*step.condition, *step.body)))
        case Branch():
            return any(_uses_scratch(s) for branch in step.branches for s in branch)
        case Parallel():
            return any(map(_uses_scratch, step.steps))


def _on_device(executor: Executor, allocator: Allocator, name: str, data: bytes) -> Buffer:
    buffer = allocator.allocate(len(data), f"constant of {name}", alignment=64, memory_space=0)
    if data:
        memory = buffer.memory.slice(0, len(data))
        executor.copy_to_device(memory, np.frombuffer(data, np.uint8))
    return buffer
