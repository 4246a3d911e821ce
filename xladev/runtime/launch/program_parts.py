"""What a Program needs on devices: loaded regions, the evaluator's modules, constants."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xladev.compiler.executable import Executable
from xladev.compiler.isolation import expect
from xladev.compiler.partition.assignment import EVALUATOR
from xladev.compiler.program.program import ConstantData, Procedure, Program
from xladev.compiler.program.thunks import (
    CollectiveStart,
    Constant,
    DeviceNumber,
    Evaluate,
    RunExecutable,
    Thunk,
    Transfer,
    reads,
    writes,
)
from xladev.errors import ArgumentError, FormatError, XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.physical import unpack
from xladev.hlo.proto import read_module
from xladev.hlo.shape import Shape
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.transfer import upload
from xladev.runtime.device import Device
from xladev.runtime.launch.launch_error import in_program, waits_for_each
from xladev.runtime.launch.plan_executable import load_plan_or_program
from xladev.runtime.launch.random_counter import RandomCounter
from xladev.runtime.launch.thunk_order import OrderedThunk
from xladev.runtime.loaded_executable import LoadedExecutable


def load_executable(device: Device, executable: Executable) -> LoadedExecutable:
    """An executable on the device it was made for.

    Raises:
        FormatError: it was made for another platform or target.
        XladevError: the platform could not load it.
    """
    executable.check_target(device.platform, device.description.target)
    function = "Executor.load"
    with device.call(function):
        loaded = load_plan_or_program(
            device.executor,
            executable,
            device.allocator,
            alignment=device.description.memory_space(0).alignment,
        )
    return expect(loaded, LoadedExecutable, device.name, function)


@dataclass(frozen=True)
class LoadedProcedure:
    """A procedure with what its runs need to know about it."""

    procedure: Procedure

    @cached_property
    def dying(self) -> tuple[tuple[int, ...], ...]:
        """For each thunk, the slots that nothing reads after it."""
        last: dict[int, int] = {}
        for at, thunk in enumerate(self.procedure.thunks):
            for slot in (*reads(thunk), *writes(thunk)):
                last[slot] = at
        kept = set(self.procedure.results)
        rows: list[list[int]] = [[] for _ in self.procedure.thunks]
        for slot, at in last.items():
            if slot not in kept:
                rows[at].append(slot)
        return tuple(map(tuple, rows))

    @cached_property
    def uses(self) -> Mapping[int, int]:
        """How many thunks touch a slot, for those that are no results."""
        thunks = self.procedure.thunks
        found = Counter(slot for t in thunks for slot in {*reads(t), *writes(t)})
        return {s: n for s, n in found.items() if s not in self.procedure.results}

    @cached_property
    def reads_on_host(self) -> bool:
        """Whether the host passes values on, or evaluates something itself."""
        return any(isinstance(t, Transfer | Evaluate) for t in self.procedure.thunks)


def _no_device(program: Program, number: int) -> FormatError:
    platform = program.executables[number].signature.platform
    return FormatError(
        f"executable {number} is made for {reprlib.repr(platform)}, no platform of the program",
        where=f"program {program.name!r}",
        why=f"it runs on {reprlib.repr(program.platforms)}",
    )


class ProgramParts:
    """The parts of one program, loaded on devices; not changed afterwards.

    Attributes:
        program: what was loaded.
        devices: one for each of `Program.platforms`.
        procedures: the program's, callees before callers.
        counter: its random state.
        evaluations: how often the evaluator ran a region, so that it draws anew in each. These two
            are all that runs leave behind.
        waits_for_each: True if the host waits after each region.
        overlaps_collectives: True if some collective begins apart from its end.
    """

    def __init__(self, program: Program, devices: Sequence[Device]) -> None:
        self.program = program
        self.devices = tuple(devices)
        self.waits_for_each = waits_for_each()
        self.overlaps_collectives = any(
            isinstance(t, CollectiveStart) for p in program.procedures for t in p.thunks
        )
        self.counter, self.evaluations = RandomCounter(), RandomCounter()
        self.procedures = tuple(map(LoadedProcedure, program.procedures))
        by_name = dict(zip(program.platforms, devices, strict=True))
        self._executables: list[LoadedExecutable | None] = []
        self._modules: dict[int, HloModule] = {}
        for number, executable in enumerate(program.executables):
            if executable.signature.platform == EVALUATOR:
                self._modules[number] = read_module(executable.payload)
                self._executables.append(None)
            else:
                device = by_name.get(executable.signature.platform)
                if device is None:
                    raise _no_device(program, number)
                self._executables.append(load_executable(device, executable))
        self._constants = dict(self._upload_constants())

    def executable(self, number: int) -> LoadedExecutable:
        """The loaded region of that number."""
        found = self._executables[number]
        if found is None:
            raise ArgumentError(f"executable {number} of {self.program.name!r} is the evaluator's")
        return found

    def kernel_names(self, platform: str, executable: int | None = None) -> tuple[str, ...]:
        """What runs on a platform, for errors: kernels, or regions whose kernels are not known.

        Args:
            platform: its name.
            executable: number of the only one wanted; None for all.
        """
        names: list[str] = []
        for number, each in enumerate(self.program.executables):
            loaded = self._executables[number]
            place = each.signature.platform.partition(":")[0]
            wanted = executable in (None, number) and place == platform
            if wanted and loaded is not None:
                names += loaded.kernel_names or [each.signature.name]
        return tuple(names)

    def ordered(self, number: int) -> tuple[OrderedThunk, ...]:
        """The thunks of the procedure of that number, with what they follow."""
        return self._ordered[number]

    @cached_property
    def _ordered(self) -> tuple[tuple[OrderedThunk, ...], ...]:
        return tuple(
            tuple(OrderedThunk(t, reads(t), self._is_in_order(t)) for t in p.procedure.thunks)
            for p in self.procedures
        )

    def _is_in_order(self, thunk: Thunk) -> bool:
        """Whether what a thunk does may be seen from outside: the host does it."""
        if isinstance(thunk, RunExecutable):
            platform = self.program.executables[thunk.executable].signature.platform
            device = self.devices[self.program.platforms.index(platform)]
            return device.turn is None
        return not isinstance(thunk, Transfer | Constant | DeviceNumber)

    def module(self, number: int) -> HloModule:
        """What the evaluator runs for the executable of that number."""
        return self._modules[number]

    def constant(self, number: int, shape: Shape, platform: int) -> Buffer:
        """A constant on a platform, in the layout of ``shape``."""
        return self._constants[number, shape, platform]

    def _upload_constants(self) -> list[tuple[tuple[int, Shape, int], Buffer]]:
        wanted = {
            (thunk.constant, procedure.slots[thunk.result].shape,
             procedure.slots[thunk.result].platform)
            for procedure in self.program.procedures
            for thunk in procedure.thunks
            if isinstance(thunk, Constant)
        }  # fmt: skip
        return [(key, self._upload_constant(*key)) for key in wanted]

    def _upload_constant(self, number: int, shape: Shape, platform: int) -> Buffer:
        data: ConstantData = self.program.constants[number]
        value = unpack(np.frombuffer(data.data, np.uint8), data.shape)
        label = f"constant {number} of {self.program.name}"
        return upload(self.devices[platform], value, shape, label)


def explained(
    parts: ProgramParts, device: Device, executable: int | None, error: XladevError
) -> XladevError:
    """What an event tells of a run, with the names of the program and its kernels.

    Args:
        parts: of the program.
        device: that the event is of; told of the error, which may say that it is lost.
        executable: number of the only one that can have failed; None if it is not known.
        error: what the event holds.
    """
    device.note_error(error)
    found = expect(error, XladevError, device.name, "Event.error").at(device.name)
    return in_program(found, parts.program.name, parts.kernel_names(device.platform, executable))
