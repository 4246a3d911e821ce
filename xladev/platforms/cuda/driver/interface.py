"""The driver interface: all that the backend asks of CUDA, and nothing of how it is answered.

Two drivers answer it: `driver.cupy_driver`, on a GPU, and `driver.emulated`, without one. Addresses
and sizes are integers, in bytes; host memory is a one-dimensional uint8 array. Everything that
takes a stream is enqueued and may fail later: `DriverEvent.failure` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xladev.compiler.kernel_code import LaunchDimensions
from xladev.platforms.cuda.libraries.calls import LibraryCall
from xladev.platforms.cuda.libraries.collectives import LibraryCollective
from xladev.runtime.memory import HostBytes


class DriverError(Exception):
    """A call that the driver refused, or work that failed."""


class DriverMemoryError(DriverError):
    """Memory that does not fit."""


class LibraryError(DriverError):
    """A call that a library refused.

    Attributes:
        function: of the library.
        status: its name, such as ``CUBLAS_STATUS_INVALID_VALUE``.
    """

    def __init__(self, function: str, status: str, why: str = "") -> None:
        super().__init__(f"{function}: {status}{f' ({why})' if why else ''}")
        self.function = function
        self.status = status


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What a device is.

    Attributes:
        name: such as ``NVIDIA H100 80GB HBM3``.
        capability: compute capability, such as (9, 0).
        multiprocessors: their number.
        memory_nbytes: size of its memory.
        bandwidth: bytes per second of that memory; None if the driver does not say.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_nbytes: int
    bandwidth: float | None = None

    @property
    def target(self) -> str:
        """What code is generated for; from 9.0 on, with the features of exactly that chip."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """State of a device's pool, in bytes.

    Attributes:
        in_use: of live allocations.
        reserved: what the pool holds, in use or not.
        limit: what can be allocated in all; None if unknown.
    """

    in_use: int
    reserved: int
    limit: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Memory from a device's pool.

    Attributes:
        address: of its first byte; a multiple of 256.
        nbytes: its length.
        owner: what keeps it; only the driver looks inside.
    """

    address: int
    nbytes: int
    owner: object = None


class DriverFunction(Protocol):
    """A kernel of a loaded module; keeps the module loaded."""

    @property
    def name(self) -> str:
        """Its symbol."""
        ...


class DriverEvent(Protocol):
    """A recorded point in a stream."""

    def query(self) -> bool:
        """True once all work before it has finished or failed; never blocks."""
        ...

    def synchronize(self, timeout_s: float | None = None) -> bool:
        """Blocks until `query` is true, without the interpreter's lock; False if it timed out."""
        ...

    def failure(self) -> DriverError | None:
        """The first failure of the stream since the event before; asked only when ready."""
        ...

    def elapsed_ms(self, since: DriverEvent) -> float:
        """Milliseconds on the device between two events that are ready."""
        ...


class DriverGraph(Protocol):
    """Work that was recorded from a stream, and can be enqueued as one."""

    @property
    def nodes(self) -> int:
        """Kernels, copies and library calls; 0 if the driver does not say."""
        ...


class DriverStream(Protocol):
    """A queue of work on one device, in order; not ordered with other streams.

    While it is captured, work is recorded and not run. Whatever waits, allocates, frees, loads or
    copies from or to the host is then refused to the thread that captures, and spoils the capture.
    """

    def copy_to_device(self, address: int, source: HostBytes) -> None:
        """Enqueues a copy; ``source`` is kept until it is done."""
        ...

    def copy_to_host(self, destination: HostBytes, address: int) -> None:
        """Enqueues a copy; ``destination`` is kept until it is done."""
        ...

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        """Enqueues a copy within devices of this driver."""
        ...

    def launch(
        self, function: DriverFunction, dimensions: LaunchDimensions, arguments: Sequence[int]
    ) -> None:
        """Enqueues a kernel whose arguments are pointers."""
        ...

    def record(self) -> DriverEvent:
        """An event behind everything enqueued so far."""
        ...

    def wait(self, event: DriverEvent) -> None:
        """Makes what is enqueued later wait for an event, of any stream of this driver."""
        ...

    def stamp(self) -> DriverEvent:
        """As `record`, for its time alone: the next event has the failures all the same."""
        ...

    def branch(self) -> DriverStream:
        """A new stream, ordered with this one by marks alone; its failures are this one's."""
        ...

    def mark(self) -> DriverEvent:
        """As `record`, without a time, for streams to wait for; the next event has the failures.

        Of a captured stream, it is a point of the capture, which a branch that waits for it joins
        until the capture ends.
        """
        ...

    def begin_capture(self) -> None:
        """From now on records what this thread enqueues here."""
        ...

    def end_capture(self) -> DriverGraph:
        """What was recorded, by branches too.

        DriverError if something forbidden was tried, or a branch that joined is not waited for.
        """
        ...

    def launch_graph(self, graph: DriverGraph) -> None:
        """Enqueues what was recorded, on the addresses that it was recorded with."""
        ...


class Libraries(Protocol):
    """The libraries of one device."""

    def version(self) -> str:
        """One line: which libraries there are, or why one is missing."""
        ...

    def convolution_version(self) -> str:
        """Of what answers `refusal`, or why it is missing; empty if it needs none."""
        ...

    def refusal(self, call: LibraryCall) -> str:
        """Why a library would refuse a call, as far as it can be asked; empty if it takes it."""
        ...

    def prepare(self, call: LibraryCall, name: str) -> DriverFunction:
        """What `DriverStream.launch` takes; descriptors are made and an algorithm is chosen here.

        Its arguments are the call's buffers, then a workspace of the call's `workspace_nbytes` if
        that is not 0. Dimensions of the launch mean nothing.

        Raises:
            LibraryError: the library is missing, or refuses the call.
        """
        ...


class DriverDevice(Protocol):
    """One opened device."""

    @property
    def properties(self) -> DeviceProperties:
        """What it is."""
        ...

    @property
    def libraries(self) -> Libraries:
        """Its libraries."""
        ...

    def allocate(self, nbytes: int) -> Allocation:
        """Memory from the pool; contents are arbitrary. DriverMemoryError if it does not fit."""
        ...

    def free(self, allocation: Allocation) -> None:
        """Gives it back to the pool; no pending work uses it."""
        ...

    def memory_info(self) -> MemoryInfo:
        """State of the pool."""
        ...

    def copy_to_device(self, address: int, source: HostBytes) -> None:
        """Copies now, beside all streams."""
        ...

    def copy_to_host(self, destination: HostBytes, address: int) -> None:
        """Copies now, beside all streams."""
        ...

    def create_stream(self) -> DriverStream:
        """A stream of its own; destroyed with the last reference."""
        ...

    @property
    def dlpack_device(self) -> tuple[int, int] | None:
        """Its type and number in DLPack; None if other libraries do not know its memory."""
        ...

    def wait_for_others(self) -> None:
        """Blocks until what other libraries put on CUDA's default stream is done."""
        ...

    def load(self, image: bytes, symbol: str) -> DriverFunction:
        """A kernel from PTX, a cubin or what else the driver loads."""
        ...

    def close(self) -> None:
        """Gives back everything."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank brings to a collective.

    Attributes:
        stream: where its operand is computed and its result is used.
        operand, result: addresses.
    """

    stream: DriverStream
    operand: int
    result: int


class DriverGroup(Protocol):
    """Devices that can compute collectives, in rank order."""

    def enqueue(self, collective: LibraryCollective, shares: Sequence[Share]) -> None:
        """Enqueues a collective on the streams of all ranks.

        Raises:
            DriverError: it was refused.
        """
        ...


class Driver(Protocol):
    """A driver and its devices."""

    def version(self) -> str:
        """One line for `xladev doctor`: versions, or why there is no device."""
        ...

    def device_count(self) -> int:
        """Devices that can be opened."""
        ...

    def group(self, devices: Sequence[DriverDevice]) -> DriverGroup:
        """Devices that compute collectives together, in rank order.

        Raises:
            DriverError: there is no library for that, or it refuses them.
        """
        ...

    def open(self, ordinal: int) -> DriverDevice:
        """Opens a device."""
        ...
