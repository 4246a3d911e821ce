"""Runs a kernel plan step by step: the SDK's LoadedExecutable for per-kernel backends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from xladev.compiler.executable import Executable
from xladev.compiler.isolation import expect, is_contained
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Fork,
    Loop,
    Parallel,
    RunKernel,
    Slice,
    Space,
    Step,
    all_buffers,
    inner_steps,
)
from xladev.compiler.plan.operations import TracedOperation, unpack_operations
from xladev.compiler.plan.plan_file import is_plan, read_plan
from xladev.compiler.streams.stream_waits import MAIN
from xladev.errors import FormatError, XladevError
from xladev.instrument import is_tracing
from xladev.instrument.interruption import LoopWatch
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.allocator import Allocator
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.launch.launch_error import in_kernel, launch_error, waits_for_each
from xladev.runtime.launch.launch_trace import COPY, LaunchTrace
from xladev.runtime.launch.turn import turn_let_go
from xladev.runtime.launch_graphs import LaunchGraphs
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream, finish
from xladev.runtime.stream_order import StreamOrder

_UNTRACED: AbstractContextManager[None] = nullcontext()


Spaces = Mapping[Space, tuple[DeviceMemory, ...]]
"""The allocations that slices refer to."""


def load_plan_or_program(
    executor: Executor, executable: Executable, allocator: Allocator, *, alignment: int
) -> LoadedExecutable:
    """Loads an executable: a kernel plan by the SDK, anything else by the platform.

    Args:
        executor: where it will run.
        executable: what `Compiler.compile` made.
        allocator: of memory of that executor, for constants.
        alignment: of its first memory space, in bytes (`MemorySpace.alignment`).

    Raises:
        FormatError: it is damaged, or made for another device or another alignment.
        OutOfMemoryError: no room for its constants.
    """
    if is_plan(executable):
        return PlanExecutable(executor, executable, allocator, alignment)
    return executor.load(executable)


class PlanExecutable(LoadedExecutable):
    """A plan with its kernels loaded and its constants on the device."""

    def __init__(
        self, executor: Executor, executable: Executable, allocator: Allocator, alignment: int
    ) -> None:
        plan = read_plan(executable, alignment)
        self._executor = executor
        self._steps = plan.steps
        self._name = executable.signature.name
        self._device = allocator.device
        self._operations = cache(partial(unpack_operations, plan.operations))
        self._codes = plan.kernels
        self._kernels = tuple(
            tuple(_loaded(executor, part, self._device) for part in code.launches)
            for code in plan.kernels
        )
        upload = partial(_on_device, executor, allocator, executable.signature.name, alignment)
        self._constants = tuple(upload(c) for c in plan.constants)
        self._waits_for_each = waits_for_each()
        replayed = _is_straight(plan.steps) and not self._waits_for_each
        self._graphs = _launch_graphs(executor, self._device) if replayed else None
        self._empty = upload(b"") if _wants_empty_scratch(executable, plan.steps) else None

    @property
    def traces_itself(self) -> bool:
        """Yes: kernel by kernel."""
        return True

    @property
    def kernel_names(self) -> Sequence[str]:
        """Those of the instructions that its steps stand for, in their order."""
        operations = self._operations()
        return [operations[n].name for n in dict.fromkeys(_operations_in(self._steps))]

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
        launch = _Launch(loaded, stream, spaces, trace, waits_for_each=self._waits_for_each)
        try:
            launch.run(self._steps)
        except Exception as e:
            if launch.failed_in is None or not is_contained(e):
                raise
            error = self._named(e, launch.failed_in)
            raise error from error.__cause__

    def _named(self, raised: Exception, operation: int) -> XladevError:
        """The error of a kernel, with its name and where in the user's program it comes from."""
        error = launch_error(raised, self._device, "Executor.launch_kernel", self._name)
        with contextlib.suppress(FormatError, IndexError):
            return in_kernel(error, _origin(self._operations()[operation]), self._name)
        return error

    def _launch_traced(self, stream: Stream, spaces: Spaces) -> None:
        trace = LaunchTrace(stream, self._device, self._name, self._operations)
        try:
            self._enqueue(spaces, stream, trace)
        finally:
            trace.finish()


def _loaded(executor: Executor, code: KernelCode, device: str) -> Kernel:
    """A kernel on an executor.

    Raises:
        PluginError: the plugin gave something else.
    """
    kernel = executor.load_kernel(code)
    return expect(kernel, Kernel, device, "Executor.load_kernel", f"kernel {code.entry}")


def _launch_graphs(executor: Executor, device: str) -> LaunchGraphs | None:
    """What records launches on an executor, if anything does.

    Raises:
        PluginError: the plugin gave something else.
    """
    graphs = executor.create_launch_graphs()
    function = "Executor.create_launch_graphs"
    return None if graphs is None else expect(graphs, LaunchGraphs, device, function)


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
        self,
        loaded: _Loaded,
        stream: Stream,
        spaces: Spaces,
        trace: LaunchTrace | None = None,
        *,
        waits_for_each: bool = False,
    ) -> None:
        self.loaded = loaded
        self.stream = stream
        self.spaces = spaces
        self.trace = trace
        self.waits_for_each = waits_for_each
        self.failed_in: int | None = None

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case RunKernel() | Copy():
                    self._run_on(self.stream, MAIN, step)
                case Parallel():
                    self._run_parallel(step)
                case Loop():
                    self._run_loop(step)
                case Branch():
                    self.run(step.branches[self._chosen(step)])
                case Fork():
                    self.run(inner_steps(step))

    def _run_loop(self, step: Loop) -> None:
        watch = LoopWatch()
        self.run(step.condition)
        while self._read(step.predicate)[0]:
            self.run(step.body)
            watch.look()
            self.run(step.condition)

    def _run_on(self, stream: Stream, row: int, step: RunKernel | Copy) -> None:
        operation = COPY if isinstance(step, Copy) else step.operation
        with self._traced(operation, stream, row):
            if isinstance(step, Copy):
                stream.copy(self._memory(step.destination), self._memory(step.source))
            else:
                self._run_kernel(stream, step)

    def _run_kernel(self, stream: Stream, step: RunKernel) -> None:
        """Enqueues a kernel; if it fails here, `failed_in` says which it was."""
        buffers = [self._memory(b) for b in step.buffers]
        try:
            self.loaded.launch(stream, step.kernel, buffers)
            if self.waits_for_each:
                _wait(stream)
        except Exception:
            self.failed_in = step.operation
            raise

    def _run_parallel(self, step: Parallel) -> None:
        """On as many streams as the device has; one after the other where it has one."""
        branches = () if self.waits_for_each else self.stream.branches(max(step.streams))
        if not branches:
            self.run(step.steps)
            return
        order = StreamOrder((self.stream, *branches), step)
        try:
            for number, (inner, row) in enumerate(zip(step.steps, step.streams, strict=True)):
                self._run_on(order.before(number), row, inner)
                order.after(number)
            order.join()
        except BaseException:
            order.join_all()
            raise

    def _traced(self, operation: int, stream: Stream, row: int) -> AbstractContextManager[None]:
        return _UNTRACED if self.trace is None else self.trace.around(operation, stream, row)

    def _memory(self, s: Slice) -> DeviceMemory:
        return self.spaces[s.space][s.index].slice(s.offset, s.nbytes)

    def _read(self, s: Slice) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        data = np.empty(s.nbytes, np.uint8)
        try:
            self.stream.copy(data, self._memory(s))
            _wait(self.stream)
        except BaseException:
            finish(self.stream)
            raise
        return data

    def _chosen(self, step: Branch) -> int:
        data = self._read(step.selector)
        if step.is_predicate:
            return 0 if data[0] else 1
        index = int(data.view(np.int32)[0])
        last = len(step.branches) - 1
        return index if 0 <= index <= last else last


def _wait(stream: Stream) -> None:
    """Blocks until a stream's work is done; raises why it failed, if it did."""
    event = stream.record()
    with turn_let_go():
        event.wait()
    error = event.error()
    if error is not None:
        raise error


def _origin(operation: TracedOperation) -> str:
    """A kernel by its instruction, with what the user's program calls it."""
    about = ", ".join(filter(None, (operation.op_name, operation.source)))
    return f"{operation.name} ({about})" if about else operation.name


def _operations_in(steps: Sequence[Step]) -> Iterator[int]:
    """The numbers of the operations that steps run, in their order."""
    for step in steps:
        if isinstance(step, RunKernel):
            yield step.operation
        yield from _operations_in(inner_steps(step))


def _is_straight(steps: Sequence[Step]) -> bool:
    """True for several steps, none of which is decided on the host."""
    parts = sum(len(s.steps) if isinstance(s, Parallel) else 1 for s in steps)
    return parts > 1 and all(isinstance(step, RunKernel | Copy | Parallel) for step in steps)


def _wants_empty_scratch(executable: Executable, steps: Sequence[Step]) -> bool:
    """True if arrays of no bytes are in a scratch that a launch does not have."""
    if executable.signature.scratch_nbytes:
        return False
    return any(s.space is Space.SCRATCH for s in all_buffers(steps))


def _on_device(
    executor: Executor, allocator: Allocator, name: str, alignment: int, data: bytes
) -> Buffer:
    label = f"constant of {name}"
    buffer = allocator.allocate(len(data), label, alignment=alignment, memory_space=0)
    if data:
        memory = buffer.memory.slice(0, len(data))
        executor.copy_to_device(memory, np.frombuffer(data, np.uint8))
    return buffer
