"""A backend that supports any subset of HLO, with memory and layouts of its own.

Its memory is not host-addressable and its arrays are column-major, so that nothing works by
accident; with `asynchronous` its work runs in a thread, and memory that is freed too early is
overwritten.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.executable import Executable
from xladev.compiler.signature import Signature
from xladev.compiler.support import YES, no
from xladev.errors import ExecutionError, XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.shape import Layout
from xladev.platforms.interpreter.plugin import xladev_platforms as interpreter_platform
from xladev.runtime.evaluation import evaluate_bytes
from xladev.runtime.event import Event
from xladev.runtime.executor import Executor
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.loaded_executable import LoadedExecutable
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.platform import Platform
from xladev.runtime.registry import Registry, using_registry
from xladev.runtime.stream import Stream

COLUMN_MAJOR = "subset-column-major"


@dataclass
class Subset:
    """What the backend supports, and what happened.

    Attributes:
        supported: asked for each instruction.
        asynchronous: work runs in a thread of the stream.
        device_count: number of devices.
        fail_on: a launch of a region whose module has this opcode fails.
    """

    supported: Callable[[HloInstruction], bool]
    asynchronous: bool = False
    device_count: int = 1
    fail_on: str = ""
    compiled: list[str] = field(default_factory=list)
    launches: int = 0


class SubsetCompiler(Compiler):
    def __init__(self, subset: Subset) -> None:
        self.subset = subset

    def describe(self, target: str | None = None) -> DeviceDescription:
        return DeviceDescription(name="subset", target=COLUMN_MAJOR)

    def supports(self, instruction, description):
        return YES if self.subset.supported(instruction) else no("not in the subset")

    def device_layout(self, shape):
        return Layout(tuple(range(shape.rank)))

    def compile(self, module, options):
        self.subset.compiled.extend(i.opcode for i in module.entry.instructions)
        signature = Signature(
            module.name,
            "subset",
            tuple(self._laid(p.shape) for p in module.entry.parameters),
            self._laid(module.entry.root.shape),
            target=COLUMN_MAJOR,
        )
        return Executable(signature, write_module(module))

    def _laid(self, shape):
        if shape.is_tuple:
            parts = tuple(map(self._laid, shape.tuple_shapes))
            return type(shape)(shape.element_type, tuple_shapes=parts)
        return shape.with_layout(self.device_layout(shape)) if shape.is_array else shape


class SubsetPlatform(Platform):
    def __init__(self, subset: Subset) -> None:
        self.subset = subset

    def visible_device_count(self):
        return self.subset.device_count

    def create_executor(self, ordinal):
        return SubsetExecutor(self.subset)


class SubsetExecutor(Executor):
    def __init__(self, subset: Subset) -> None:
        self.subset = subset
        self.stream: WorkerStream | None = None

    def allocate(self, nbytes, *, alignment, memory_space):
        return DeviceMemory(self, [np.full(nbytes, 0xAA, np.uint8)], 0, nbytes)

    def deallocate(self, memory):
        memory.handle[0].fill(0xDD)
        memory.handle.clear()

    def copy_to_device(self, destination, source):
        np.copyto(data_of(destination), source)

    def copy_to_host(self, destination, source):
        np.copyto(destination, data_of(source))

    def create_stream(self):
        return WorkerStream() if self.subset.asynchronous else super().create_stream()

    def load(self, executable):
        return SubsetLoaded(self.subset, executable)


def data_of(memory: DeviceMemory) -> np.ndarray:
    """The bytes; an IndexError after they were freed."""
    return memory.handle[0][memory.offset : memory.offset + memory.nbytes]


class SubsetLoaded(LoadedExecutable):
    def __init__(self, subset: Subset, executable: Executable) -> None:
        self.subset = subset
        self.signature = executable.signature
        self.module = read_module(executable.payload)

    def launch(self, stream, context):
        if isinstance(stream, WorkerStream):
            stream.submit(lambda: self.run(context))
        else:
            self.run(context)

    def run(self, context):
        self.subset.launches += 1
        if self.subset.fail_on in {i.opcode for i in self.module.entry.instructions}:
            raise ExecutionError(f"the subset backend cannot {self.subset.fail_on} today")
        evaluate_bytes(
            HloEvaluator(context.replica, context.partition),
            self.module,
            self.signature,
            list(map(data_of, context.arguments)),
            list(map(data_of, context.results)),
        )


class WorkerEvent(Event):
    def __init__(self) -> None:
        self.done = threading.Event()
        self.failure: XladevError | None = None

    def is_ready(self):
        return self.done.is_set()

    def wait(self, timeout_s=None):
        return self.done.wait(timeout_s)

    def error(self):
        return self.failure


class WorkerStream(Stream):
    """Runs everything in order in a daemon thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._failure: XladevError | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while True:
            job = self._queue.get()
            try:
                job()
            except XladevError as e:
                self._failure = self._failure or e
            except Exception as e:  # noqa: BLE001
                self._failure = self._failure or ExecutionError(repr(e))

    def submit(self, job):
        self._queue.put(job)

    def copy(self, destination, source):
        def end(x):
            return data_of(x) if isinstance(x, DeviceMemory) else x

        self.submit(lambda: np.copyto(end(destination), end(source)))

    def record(self):
        event = WorkerEvent()

        def job():
            event.failure, self._failure = self._failure, None
            event.done.set()

        self.submit(job)
        return event

    def wait(self, event):
        self.submit(event.wait)

    def synchronize(self):
        done = threading.Event()
        self.submit(done.set)
        done.wait()


@contextmanager
def subset_registry(subset: Subset, *, host: bool = True) -> Iterator[Registry]:
    """A registry with the subset backend and, with `host`, the interpreter."""
    registry = Registry(find=lambda: (), environment={})
    registry.register(
        PlatformSpec(
            "subset",
            factory=lambda: SubsetPlatform(subset),
            compiler=lambda: SubsetCompiler(subset),
        )
    )
    if host:
        registry.register(interpreter_platform())
    with using_registry(registry):
        yield registry
