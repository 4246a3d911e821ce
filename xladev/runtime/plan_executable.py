"""Runs a kernel plan step by step: the SDK's LoadedExecutable for per-kernel backends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_plan import Branch, Copy, Loop, RunKernel, Slice, Space, Step
from xladev.compiler.plan_file import is_plan, read_plan
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream


def load_plan_or_program(executor: Executor, executable: Executable) -> LoadedExecutable:
    """Loads an executable: a kernel plan by the SDK, anything else by the platform.

    Raises:
        FormatError: it is damaged, or made for another device.
    """
    if is_plan(executable):
        return PlanExecutable(executor, executable)
    return executor.load(executable)


class PlanExecutable(LoadedExecutable):
    """A plan with its kernels loaded and its constants on the device."""

    def __init__(self, executor: Executor, executable: Executable) -> None:
        plan = read_plan(executable)
        self._executor = executor
        self._steps = plan.steps
        self._codes = plan.kernels
        self._kernels: tuple[Kernel, ...] = tuple(executor.load_kernel(c) for c in plan.kernels)
        self._constants = tuple(_on_device(executor, c) for c in plan.constants)

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Enqueues the steps; waits for the stream only where a loop or branch must be decided."""
        _Launch(self._executor, stream, context, self._constants).run(
            self._steps, self._kernels, self._codes
        )


class _Launch:
    """One launch: the allocations that slices refer to."""

    def __init__(
        self,
        executor: Executor,
        stream: Stream,
        context: LaunchContext,
        constants: tuple[DeviceMemory, ...],
    ) -> None:
        self.executor = executor
        self.stream = stream
        scratch = () if context.scratch is None else (context.scratch,)
        self.spaces: dict[Space, tuple[DeviceMemory, ...]] = {
            Space.ARGUMENT: context.arguments,
            Space.RESULT: context.results,
            Space.SCRATCH: scratch,
            Space.CONSTANT: constants,
        }

    def run(
        self, steps: Sequence[Step], kernels: Sequence[Kernel], codes: Sequence[KernelCode]
    ) -> None:
        for step in steps:
            match step:
                case RunKernel():
                    buffers = [self._memory(b) for b in step.buffers]
                    self.executor.launch_kernel(
                        self.stream, kernels[step.kernel], buffers, codes[step.kernel].dimensions
                    )
                case Copy():
                    self.stream.copy(self._memory(step.destination), self._memory(step.source))
                case Loop():
                    self.run(step.condition, kernels, codes)
                    while self._read(step.predicate)[0]:
                        self.run(step.body, kernels, codes)
                        self.run(step.condition, kernels, codes)
                case Branch():
                    self.run(step.branches[self._chosen(step)], kernels, codes)

    def _memory(self, s: Slice) -> DeviceMemory:
        whole = self.spaces[s.space][s.index] if self.spaces[s.space] else None
        if whole is None:
            return DeviceMemory(self.executor, None, 0, 0)
        return whole.slice(s.offset, s.nbytes)

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


def _on_device(executor: Executor, data: bytes) -> DeviceMemory:
    memory = executor.allocate(max(len(data), 1), alignment=64, memory_space=0)
    if data:
        executor.copy_to_device(memory.slice(0, len(data)), np.frombuffer(data, np.uint8))
    return memory
