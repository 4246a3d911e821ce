"""The LoadedExecutable contract: one Executable on one device, ready to launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from xladev.runtime.memory import DeviceMemory

if TYPE_CHECKING:
    from xladev.runtime.collectives.launch_collectives import Collectives
    from xladev.runtime.fast_call import FastCall, FastCallSpec
    from xladev.runtime.stream import Stream


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What one launch works on; nothing in it is shared with another launch in flight.

    Attributes:
        arguments: one buffer per `Signature.argument_shapes`. Not to be written, except where an
            alias makes it a result too (the SDK has copied what was not donated).
        results: one buffer per `Signature.result_shapes`, to be filled.
        scratch: `Signature.scratch_nbytes` bytes; None if that is 0.
        communicator: the groups of devices this launch can exchange data with; None if alone.
        replica: number of this replica.
        run_id: same for all replicas and partitions of one execution, different for another.
        partition: number of this partition.
    """

    arguments: tuple[DeviceMemory, ...]
    results: tuple[DeviceMemory, ...]
    scratch: DeviceMemory | None = None
    communicator: Collectives | None = None
    replica: int = 0
    run_id: int = 0
    partition: int = 0


@dataclass(frozen=True, slots=True)
class NativeEntry:
    """A C function that launches without Python.

    Attributes:
        address: of ``int entry(ctx*, void** arguments, void** results, void* scratch)``, where
            ctx carries thread pool, error slot and a nullable trace buffer, and 0 is success. 4
            says that an interruption ended a loop (`xladev/instrument/interruption.py`).
        owner: kept alive while the address is in use.
    """

    address: int
    owner: object


@dataclass(frozen=True, slots=True)
class JointEntry:
    """C functions that launch a program on several devices without Python, one for each device.

    Whoever launches calls each once, in threads that run at the same time where ``failure`` is not
    0, and none again before all have returned.

    Attributes:
        addresses: of a function for each device, as in `NativeEntry`.
        contexts: for each device, the address of what its function takes first; 0 for null.
        failure: address of a 32-bit integer; 0: the devices do not wait for each other. Whoever
            launches makes it 1, where it is 0, as soon as a function has returned other than 0:
            the others return soon then.
        explain: raises why functions returned other than 0, given the numbers of the threads that
            they ran in (`threading.get_ident`). Called once all have returned; they may be called
            again afterwards.
        has_loops: whether they may run for as long as data say. They are then not called in the
            thread that handles signals: what a handler raises would end one device's loop alone.
    """

    addresses: Sequence[int]
    contexts: Sequence[int]
    failure: int
    explain: Callable[[Sequence[int]], NoReturn]
    has_loops: bool = False


class LoadedExecutable(ABC):
    """An Executable loaded on one executor. Launches may come from several threads."""

    @abstractmethod
    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Enqueues one execution on ``stream``, or runs it if the stream is synchronous.

        Raises:
            ExecutionError: (or anything else) the launch failed; its results become poisoned,
                stream and device stay usable.
            DeviceLostError: the device needs a reset.
        """

    @property
    def native_entry(self) -> NativeEntry | None:
        """The C entry point of this executable; None if it has none."""
        return None

    def joint_entry(self, participants: Sequence[LoadedExecutable]) -> JointEntry | None:
        """The C entry points of a program on several devices; None: each is launched by itself.

        Asked of the first participant, once.

        Args:
            participants: the same program on all its devices, by replica, then partition.
        """
        return None

    @property
    def traces_itself(self) -> bool:
        """True if launches tell a timeline of their kernels; else they are one slice each."""
        return False

    @property
    def kernel_names(self) -> Sequence[str]:
        """Names of the kernels that a launch runs, for errors; none (the default) if not known.

        Asked when a launch failed on the device.
        """
        return ()

    def make_fast_call(self, spec: FastCallSpec) -> FastCall | None:
        """A function that does ordinary launches in native code; None if there is none.

        Asked for when a program is called again and again, of one device whose stream is
        synchronous. `runtime.fast_call` says what an ordinary launch is.
        """
        return self.open_door(spec)

    def open_door(self, spec: FastCallSpec) -> FastCall | None:
        """The former name of `make_fast_call`; a backend that overrides it is still asked."""
        return None
