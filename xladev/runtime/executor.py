"""The Executor contract: one device. Tier 1 writes four functions, the rest has defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xladev.errors import UnsupportedError
from xladev.hlo.shape import Shape
from xladev.runtime.memory import DeviceMemory, HostBytes, MemoryStats
from xladev.runtime.stream import Stream, SynchronousStream

if TYPE_CHECKING:
    from xladev.compiler.description import DeviceDescription
    from xladev.compiler.executable import Executable
    from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
    from xladev.runtime.launch_graphs import LaunchGraphs
    from xladev.runtime.loaded_executable import LoadedExecutable


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel loaded on one executor.

    It is dropped with its program, when no launch of it is pending. There is no call to unload it:
    what the handle holds is released with its last reference (`weakref.finalize`).

    Attributes:
        name: its entry symbol.
        handle: what the platform knows it by.
    """

    name: str
    handle: Any


class Executor(ABC):
    """One device, opened. Calls may come from several threads at once.

    Only `allocate` and `deallocate` are never called beside each other.
    """

    # Tier 1

    @abstractmethod
    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        """Allocates ``nbytes`` bytes (at least 1) in a memory space of the description.

        The address is a multiple of ``alignment``, which is that space's `MemorySpace.alignment`.

        Raises:
            OutOfMemoryError: (or MemoryError) they do not fit. The SDK waits for pending work,
                tries again, and then names the live buffers.
        """

    @abstractmethod
    def deallocate(self, memory: DeviceMemory) -> None:
        """Frees what `allocate` returned; called once, when no pending launch uses it.

        Called from the runtime's own calls (before `allocate`, after a launch, when it
        synchronizes, counts or closes), never by garbage collection and never beside another
        `allocate` or `deallocate`.
        """

    @abstractmethod
    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        """Copies ``source`` to the device; returns when all later work sees it there.

        No pending work uses ``destination``: it needs no order with streams. ``source`` may be
        changed afterwards.
        """

    @abstractmethod
    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        """Copies from the device into ``destination``; returns when it is filled.

        The work that writes ``source`` has finished, and nothing pending writes it: it needs no
        order with streams.
        """

    # Tier 2, one of two routes

    def load(self, executable: Executable) -> LoadedExecutable:
        """Loads what `Compiler.compile` made (the whole-graph route).

        Raises:
            UnsupportedError: the backend has not this route.
        """
        raise self._missing("load")

    def load_kernel(self, code: KernelCode) -> Kernel:
        """Loads one kernel (the per-kernel route), once for each program that has it.

        Raises:
            UnsupportedError: the backend has not this route.
        """
        raise self._missing("load_kernel")

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        """Enqueues one kernel on ``stream``, or runs it if the stream is synchronous.

        Args:
            stream: from `create_stream`.
            kernel: from `load_kernel` of this executor.
            buffers: operands, then results, then scratch, as the kernel's code expects.
            dimensions: how many instances run.
        """
        raise self._missing("launch_kernel")

    # Tier 4

    def create_stream(self) -> Stream:
        """A new stream; by default one that runs everything in the calling thread.

        The SDK makes one for each device, a second one for the copies of placed programs, and both
        again after `reset`; further queues are `Stream.branches`. Whoever makes several gets
        streams that work independently of each other, in turn on the queues that there are.
        """
        return SynchronousStream()

    # Tier 5

    def to_dlpack(self, memory: DeviceMemory, shape: Shape, owner: object) -> object | None:
        """A DLPack capsule of ``memory``; None (the default) if only host copies are offered.

        Args:
            memory: what to export; all work on it has finished.
            shape: its shape with device layout.
            owner: to be kept alive until the capsule's deleter runs.
        """
        return None

    def from_dlpack(self, producer: object) -> tuple[DeviceMemory, Shape] | None:
        """The memory and shape behind an object with ``__dlpack__`` that lives on this device.

        None (the default) if it must be copied through the host. Given back by `deallocate`.
        """
        return None

    def device_pointer(self, memory: DeviceMemory) -> int | None:
        """The address of ``memory`` where CUDA's libraries know it; None (the default): nowhere.

        It is what ``__cuda_array_interface__`` of an array shows.
        """
        return None

    def memory_stats(self) -> MemoryStats | None:
        """The platform's own statistics; None (the default): those that the SDK keeps."""
        return None

    # Optional, at any tier

    def describe(self) -> DeviceDescription | None:
        """This very device; None (the default): what the compiler describes."""
        return None

    def wrap_host(self, data: HostBytes) -> DeviceMemory | None:
        """Device memory that is ``data`` itself, kept alive by it; None if that is not possible.

        Only asked where the memory space is `host_addressable`; written to only if donated.
        """
        return None

    def host_view(self, memory: DeviceMemory) -> HostBytes | None:
        """The bytes of ``memory`` as host memory, without a copy; None if that is not possible."""
        return None

    def create_launch_graphs(self) -> LaunchGraphs | None:
        """Records launches of one program of kernels; None (the default): each is enqueued anew.

        Asked once for each loaded program without loops and branches.
        """
        return None

    def reset(self) -> None:
        """Makes a lost device usable again; all its memory is gone."""
        return

    def close(self) -> None:
        """Gives the device back; nothing is called afterwards, not even `deallocate`.

        Called by `Registry.close` and at the end of the process, when pending work is done (or
        did not end within ten seconds); memory that nobody uses was given back before.
        """
        return

    def _missing(self, function: str) -> UnsupportedError:
        return UnsupportedError(
            f"{type(self).__name__} does not implement {function}",
            why="the backend's tier has no compiled programs by this route",
            hint=f"override Executor.{function}",
        )
