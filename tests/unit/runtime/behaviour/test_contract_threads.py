"""What the contract says of threads: which calls of a plugin are made at once, and which never."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import xladev
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.description import DeviceDescription
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.support import YES, Support
from xladev.hlo.ir import HloInstruction
from xladev.runtime.executor import Kernel
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.host_executor import HostExecutor
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.platform import Platform
from xladev.runtime.registry import Registry, using_registry
from xladev.runtime.stream import Stream, SynchronousStream

THREADS = 3


class Meeting:
    """A place that all threads must be in at once, the first time that each comes."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(THREADS)
        self._been = threading.local()

    def enter(self) -> None:
        if not hasattr(self._been, "here"):
            self._been.here = True
            self._barrier.wait(timeout=60)


class Alone:
    """A place that is left before it is entered again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.was_shared = False

    @contextmanager
    def within(self) -> Iterator[None]:
        self.was_shared |= not self._lock.acquire(blocking=False)
        threading.Event().wait(0.001)  # others have time to come
        yield
        if self._lock.locked():
            self._lock.release()


LOWERING, LAUNCHING, MEMORY = Meeting(), Meeting(), Alone()
STREAMS: list[Stream] = []


class Compiler(KernelCompiler):
    @property
    def platform(self) -> str:
        return "threads"

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        return YES

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        LOWERING.enter()
        return KernelCode(spec.name, b"")


class Executor(HostExecutor):
    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        with MEMORY.within():
            return super().allocate(nbytes, alignment=alignment, memory_space=memory_space)

    def deallocate(self, memory: DeviceMemory) -> None:
        with MEMORY.within():
            super().deallocate(memory)

    def load_kernel(self, code: KernelCode) -> Kernel:
        return Kernel(code.entry, None)

    def launch_kernel(
        self, stream: Stream, kernel: Kernel, buffers: Sequence[DeviceMemory], _: LaunchDimensions
    ) -> None:
        LAUNCHING.enter()

    def create_stream(self) -> Stream:
        STREAMS.append(SynchronousStream())
        return STREAMS[-1]


class ThreadsPlatform(Platform):
    def visible_device_count(self) -> int:
        return 1

    def create_executor(self, ordinal: int) -> Executor:
        return Executor()


def program(size: int) -> Any:
    return xladev.parse(
        f"HloModule m{size}\nENTRY e {{ x = f32[{size}] parameter(0)\n"
        f"  ROOT y = f32[{size}] negate(x) }}"
    )


def in_threads(work: Callable[[int], None]) -> list[BaseException]:
    """What the threads raised."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 (shown by the caller)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_compilers_and_launches_meet_and_allocations_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", "off")
    registry = Registry(environment={})
    registry.register(PlatformSpec("threads", ThreadsPlatform, compiler=Compiler))

    def work(number: int) -> None:
        compiled = xladev.compile(program(number + 1), "threads")
        for _ in range(20):
            compiled(np.zeros(number + 1, np.float32))

    with using_registry(registry):
        assert in_threads(work) == []
    registry.close()
    assert not MEMORY.was_shared
    assert len(STREAMS) == 1
