"""A recording null device: a driver in memory with a worker thread, faults and a gate, and one
backend per tier over it. Each class writes exactly the functions that its tier adds."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.signature import Alias, Signature
from xladev.compiler.support import YES, no
from xladev.errors import ExecutionError, OutOfMemoryError, XladevError
from xladev.hlo.dtype import F32
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.physical import pack, unpack
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.shape import array, tuple_of
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.evaluation import evaluate_bytes
from xladev.runtime.event import Event
from xladev.runtime.executor import Executor, Kernel
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.loaded_executable import LoadedExecutable
from xladev.runtime.memory import DeviceMemory, MemoryStats
from xladev.runtime.platform import Platform
from xladev.runtime.registry import Registry
from xladev.runtime.stream import Stream


@dataclass
class Driver:
    """The fake hardware. `calls` records, `faults` makes named functions raise, the cleared
    `gate` stops the worker threads before their next operation."""

    device_count: int = 1
    capacity: int = 1 << 20
    calls: list[str] = field(default_factory=list)
    faults: dict[str, list[BaseException]] = field(default_factory=dict)
    memory: dict[int, bytearray] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    addresses: itertools.count = field(default_factory=lambda: itertools.count(0x1000, 0x1000))

    def __post_init__(self):
        self.gate.set()

    def enter(self, function: str) -> None:
        self.calls.append(function)
        if self.faults.get(function):
            raise self.faults[function].pop(0)

    def fail(self, function: str, *errors: BaseException) -> None:
        """The next calls of `function` raise these, one each."""
        self.faults.setdefault(function, []).extend(errors)

    def allocate(self, nbytes: int) -> int:
        if self.used + nbytes > self.capacity:
            raise OutOfMemoryError("the null device is full")
        address = next(self.addresses)
        self.memory[address] = bytearray(nbytes)
        return address

    @property
    def used(self) -> int:
        return sum(map(len, list(self.memory.values())))  # a copy, made at once: others allocate

    def view(self, memory: DeviceMemory) -> np.ndarray:
        """The bytes; a KeyError after they were freed."""
        data = np.frombuffer(self.memory[memory.handle], np.uint8)
        return data[memory.offset : memory.offset + memory.nbytes]


# Tier 1


class Platform1(Platform):
    executor_class: type[Executor]

    def __init__(self, driver: Driver):
        self.driver = driver

    def visible_device_count(self):
        self.driver.enter("visible_device_count")
        return self.driver.device_count

    def create_executor(self, ordinal):
        self.driver.enter("create_executor")
        return self.executor_class(self.driver)


class Executor1(Executor):
    def __init__(self, driver: Driver):
        self.driver = driver

    def allocate(self, nbytes, *, alignment, memory_space):
        self.driver.enter("allocate")
        return DeviceMemory(self, self.driver.allocate(nbytes), 0, nbytes, memory_space)

    def deallocate(self, memory):
        self.driver.enter("deallocate")
        del self.driver.memory[memory.handle]

    def copy_to_device(self, destination, source):
        self.driver.enter("copy_to_device")
        np.copyto(self.driver.view(destination), source)

    def copy_to_host(self, destination, source):
        self.driver.enter("copy_to_host")
        np.copyto(destination, self.driver.view(source))


Platform1.executor_class = Executor1

# Tier 2

PROGRAMS: dict[str, Callable[..., Sequence[np.ndarray]]] = {
    "nothing": lambda a: (),
    "add": lambda a, b: (a + b,),
    "double": lambda a: (a * 2,),
    "negate_and_double": lambda a: (-a, a * 2),
    "keep_first_half": lambda a, n: (a, np.asarray(n // 2, np.int32)),
}


class Compiler2(Compiler):
    """Elementwise opcodes only; the code is the module, to be evaluated."""

    def supports(self, instruction, description):
        opcode = instruction.opcode
        return YES if instruction.op.elementwise else no(f"the null device has no {opcode}")

    def compile(self, module, options):
        parameters = tuple(p.shape.row_major() for p in module.entry.parameters)
        result = module.entry.root.shape.row_major()
        return Executable(Signature(module.name, "null", parameters, result), write_module(module))


class Executor2(Executor1):
    def load(self, executable):
        self.driver.enter("load")
        return Loaded(self.driver, executable)


class Loaded(LoadedExecutable):
    """Runs one of PROGRAMS or evaluates a module, at once or on a NullStream."""

    def __init__(self, driver, executable):
        self.driver = driver
        self.signature = executable.signature
        self.payload = executable.payload
        self.contexts = []

    def launch(self, stream, context):
        self.driver.enter("launch")
        self.contexts.append(context)
        if isinstance(stream, NullStream):
            stream.submit(lambda: self.run(context))
        else:
            self.run(context)

    def run(self, context):
        self.driver.enter("run")
        program = PROGRAMS.get(self.payload.decode("latin-1"))
        if program is None:
            ends = [[self.driver.view(m) for m in e] for e in (context.arguments, context.results)]
            evaluate_bytes(HloEvaluator(), read_module(self.payload), self.signature, *ends)
            return
        shapes = self.signature.argument_shapes
        views = zip(context.arguments, shapes, strict=True)
        arguments = [unpack(self.driver.view(m), s) for m, s in views]
        values = program(*arguments)
        results = zip(context.results, self.signature.result_shapes, values, strict=True)
        for memory, shape, value in results:
            np.copyto(self.driver.view(memory), pack(value, shape))


class KernelExecutor2(Executor1):
    """The other route of tier 2."""

    def load_kernel(self, code: KernelCode):
        self.driver.enter("load_kernel")
        return Kernel(code.entry, PROGRAMS[code.code.decode()])

    def launch_kernel(self, stream, kernel, buffers, dimensions):
        self.driver.enter("launch_kernel")
        *operands, result = (self.driver.view(b).view(np.float32) for b in buffers)
        np.copyto(result, kernel.handle(*operands)[0])


# Tier 3


class Compiler3(Compiler2):
    def pipeline(self, options):
        return None

    def can_fuse(self, producer, consumer):
        return YES


# Tier 4


class Executor4(Executor2):
    def create_stream(self):
        self.driver.enter("create_stream")
        return NullStream(self.driver)


class NullStream(Stream):
    """A queue and its worker thread."""

    def __init__(self, driver: Driver):
        self.driver = driver
        self.error: XladevError | None = None
        self.queue: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def submit(self, operation: Callable[[], None]) -> None:
        self.queue.put(operation)

    def work(self):
        while True:
            operation = self.queue.get()
            self.driver.gate.wait()
            try:
                operation()
            except XladevError as e:
                self.error = self.error or e
            except Exception as e:  # noqa: BLE001 (a fault injected by a test)
                self.error = self.error or ExecutionError("the null device failed", why=repr(e))
            del operation

    def copy(self, destination, source):
        self.driver.enter("stream.copy")
        self.submit(lambda: np.copyto(self.bytes(destination), self.bytes(source)))

    def bytes(self, end):
        return self.driver.view(end) if isinstance(end, DeviceMemory) else end

    def record(self):
        self.driver.enter("record")
        event = NullEvent()

        def reach():
            event.failure, self.error = self.error, None
            event.reached.set()

        self.submit(reach)
        return event

    def wait(self, event):
        self.driver.enter("stream.wait")
        self.submit(event.reached.wait)

    def synchronize(self):
        self.driver.enter("synchronize")
        done = threading.Event()
        self.submit(done.set)
        done.wait()


class NullEvent(Event):
    def __init__(self):
        self.reached = threading.Event()
        self.failure: XladevError | None = None

    def is_ready(self):
        return self.reached.is_set()

    def wait(self, timeout_s=None):
        return self.reached.wait(timeout_s)

    def error(self):
        return self.failure


# Tier 5


class Executor5(Executor4):
    def to_dlpack(self, memory, shape, owner):
        self.driver.enter("to_dlpack")
        return ("capsule", memory, shape, owner)

    def from_dlpack(self, producer):
        self.driver.enter("from_dlpack")
        return producer.memory, producer.shape

    def memory_stats(self):
        self.driver.enter("memory_stats")
        return MemoryStats(nbytes_in_use=self.driver.used, nbytes_limit=self.driver.capacity)


# Tier 6


class Platform6(Platform1):
    def create_communicator(self, devices):
        self.driver.enter("create_communicator")
        return HostCommunicator(devices, timeout_s=20)


TIER_CLASSES: dict[int, tuple[type, ...]] = {
    1: (Platform1, Executor1),
    2: (Platform1, Executor2, Compiler2, Loaded),
    3: (Platform1, Executor2, Compiler3, Loaded),
    4: (Platform1, Executor4, Compiler3, Loaded, NullStream, NullEvent),
    5: (Platform1, Executor5, Compiler3, Loaded, NullStream, NullEvent),
    6: (Platform6, Executor5, Compiler3, Loaded, NullStream, NullEvent),
}
"""The classes that a backend of each tier consists of."""


def null_spec(driver: Driver, tier: int = 4, name: str = "null", **fields) -> PlatformSpec:
    """A null platform of the given tier over `driver`."""
    classes = TIER_CLASSES[tier]
    platform = type("NullPlatform", (classes[0],), {"executor_class": classes[1]})
    compiler = classes[2] if tier > 1 else None
    return PlatformSpec(name, lambda: platform(driver), compiler=compiler, **fields)


def null_device(driver: Driver, tier: int = 4, ordinal: int = 0, **fields):
    """An opened device of a null platform."""
    registry = Registry(find=lambda: ())
    return registry.register(null_spec(driver, tier, **fields)).device(ordinal)


HOST_DESCRIPTION = DeviceDescription(memory_spaces=(MemorySpace(host_addressable=True),))

# Executables

F32_4 = array(F32, (4,))


def add_executable(shape=F32_4, **fields) -> Executable:
    """a + b over `shape`."""
    return Executable(Signature("add", "null", (shape, shape), shape, **fields), b"add")


def double_executable(shape=F32_4, **fields) -> Executable:
    """2 a over `shape`."""
    return Executable(Signature("double", "null", (shape,), shape, **fields), b"double")


def in_place_executable() -> Executable:
    """2 a, computed in a's memory."""
    return double_executable(aliases=(Alias(0, 0),))


def two_result_executable() -> Executable:
    """(-a, 2 a)."""
    result = tuple_of(F32_4, F32_4)
    return Executable(Signature("both", "null", (F32_4,), result), b"negate_and_double")
