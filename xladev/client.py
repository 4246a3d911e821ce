"""The client: loads modules, compiles them for a platform, runs them on arrays.

The only place that joins compiler and runtime.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xladev.compiler.cache.program_cache import compile_through
from xladev.compiler.cache.store import Store, store_of_environment
from xladev.compiler.cache.whole_file import write_whole
from xladev.compiler.compile import compile_module
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.devices import wanted_devices
from xladev.compiler.program.program import Program
from xladev.compiler.program.program_file import program_from_bytes, program_to_bytes
from xladev.errors import (
    AbsentDeviceError,
    ArgumentError,
    DeviceError,
    FileError,
    FormatError,
    OptionError,
    XladevError,
    counted,
)
from xladev.hlo.ir import HloModule
from xladev.hlo.load import load as _load_module
from xladev.hlo.nested_values import nested
from xladev.hlo.shape import Shape
from xladev.hlo.text import print_module
from xladev.hlo.text.printer import PrintOptions
from xladev.instrument import pass_interruption
from xladev.runtime.array import DeviceArray
from xladev.runtime.collectives.replicas import ReplicatedLaunchable
from xladev.runtime.device import Device
from xladev.runtime.device_name import parse_device_name
from xladev.runtime.distributed.job import Job, Place, Spread, current_job
from xladev.runtime.fast_call import FastCall
from xladev.runtime.host.interruption import interruptible
from xladev.runtime.host_link import with_host_link
from xladev.runtime.launch.loaded_program import load_program
from xladev.runtime.loaded_executable import JointEntry, NativeEntry
from xladev.runtime.plugins.platform_options import check_platform_options
from xladev.runtime.plugins.registered_platform import RegisteredPlatform
from xladev.runtime.registry import Registry, current_registry

CALLS_BEFORE_FAST_CALL = 2
"""A program that is called more often than this gets a way to its native code without Python."""

LARGE_NBYTES = 1 << 20
"""A program with so many bytes of results and scratch gets that way at its first call: memory of
calls without it is kept apart, and later calls would not use it again."""

LONG_WORK = 10**10
"""Floating-point operations, some seconds of one thread, from which on kernels can be left."""

_COMPARED = PrintOptions(metadata=False)
"""How processes write a program that they compare: not where on a machine its source was."""

Result = Any
"""A DeviceArray, None for a token, or a tuple of results: nested as the HLO result is."""


def load(source: str | Path | bytes | bytearray | memoryview) -> HloModule:
    """A module from a file, or from its contents.

    Args:
        source: a path; or the bytes of a serialized HloModuleProto or of HLO text.

    Raises:
        XladevError: neither a proto nor text of HLO, or the file cannot be read.
    """
    return _load_module(source)


def devices(platform: str | None = None) -> tuple[Device, ...]:
    """The devices of one platform or kind; without a name, those of all that work.

    A name with a number, such as ``npu:1``, means that device alone.

    Raises:
        DeviceError: no such platform, or no such device.
    """
    return current_registry().devices(platform)


def compile(
    module: HloModule | str | Path | bytes,
    platform: str | None = None,
    options: CompileOptions | None = None,
) -> CompiledModule:
    """Compiles a module and loads it on its devices.

    Args:
        module: a module, or anything that `load` takes.
        platform: platform, kind or device name, such as ``cpu``, ``gpu`` or ``npu:1``; None means
            the platform of highest priority that has a device.
        options: how; None means `CompileOptions.from_environment`.

    Raises:
        VerifyError: the module breaks a rule of HLO.
        UnsupportedError: nobody runs an instruction, or strict and something falls back.
        CompileError: the backend could not compile it.
        DeviceError: no such platform, or it has too few devices.
        OptionError: an option of a platform that it has not got.
    """
    if not isinstance(module, HloModule):
        module = load(module)
    if options is None:
        options = CompileOptions.from_environment()
    if not isinstance(options, CompileOptions):
        raise OptionError(
            f"options are {type(options).__name__}",
            why="they are one CompileOptions",
            hint="CompileOptions(fusion=False), or CompileOptions().with_option('fusion=false')",
        )
    try:
        return _compiled(module, platform, options)
    except XladevError as error:
        raise error.at(f"module {module.name}") from error.__cause__


def _compiled(module: HloModule, platform: str | None, options: CompileOptions) -> CompiledModule:
    registry = current_registry()
    check_platform_options(options, registry.platforms())
    chosen = registry.platform(platform)
    target = chosen.compile_target(options.target)
    store = store_of_environment()
    hosts = partial(host_targets, registry, chosen)
    first = None if platform is None else parse_device_name(platform).ordinal
    target = replace(target, ordinal=first or 0)
    is_measured = bool(options.devices) and options.target is None
    if is_measured:
        target = with_host_link(target, lambda name: registry.devices(name)[0], store)
    find = partial(_device_found, registry, chosen, target, store, is_measured=is_measured)
    targets: tuple[CompileTarget, ...] = (target,)
    if store:  # what a program depends on is a part of the key of its entry
        named = (find(name) for name in sorted(wanted_devices(module, options)))
        targets = (target, *hosts(), *filter(None, named))
    return compile_through(
        store,
        module,
        targets,
        options,
        lambda: compile_module(module, target, options, hosts, find),
        lambda program: _on_devices(chosen, program, options, first, module),
    )


def load_compiled(
    program: Program, platform: str, assignment: Sequence[Sequence[int]]
) -> CompiledModule:
    """A program that was compiled before, on devices of a platform.

    Args:
        program: made for the platform.
        platform: its name.
        assignment: ordinals of devices, one row per replica, one column per partition.

    Raises:
        FormatError: the program is damaged, or was made for another platform or target.
        DeviceError: there are too few devices.
    """
    rows = tuple(tuple(row) for row in assignment)
    options = CompileOptions(
        num_replicas=len(rows), num_partitions=len(rows[0]), device_assignment=rows
    )
    chosen = current_registry().platform(platform)
    return _on_devices(chosen, program, options, None)


def load_executable(path: str | Path, platform: str | None = None) -> CompiledModule:
    """A program that `CompiledModule.save` wrote, ready to run; nothing is compiled.

    Args:
        path: the file.
        platform: platform or device to run on; None means the platform it was compiled for.

    Raises:
        FileError: the file cannot be read.
        FormatError: it is no such file, damaged, of another version, or for another platform or
            target than this machine has.
        DeviceError: no such platform, or it has too few devices.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        pass_interruption(error)
        raise FileError.of("cannot read", path, error) from error
    try:
        program = program_from_bytes(data)
    except FormatError as error:
        error.where = str(path)
        raise
    chosen = current_registry().platform(platform or program.signature.platform)
    first = None if platform is None else parse_device_name(platform).ordinal
    return _on_devices(chosen, program, CompileOptions(), first)


def host_targets(registry: Registry, target: RegisteredPlatform) -> tuple[CompileTarget, ...]:
    """The platform for what the target refuses; none if `XLADEV_FALLBACK` is ``interpreter``."""
    wanted = os.environ.get("XLADEV_FALLBACK", "")
    if wanted == "interpreter":
        return ()
    if wanted:
        raise OptionError(
            f"XLADEV_FALLBACK is {wanted!r}", why="unset or 'interpreter' are what it may be"
        )
    host = registry.host_platform(exclude=target.name)
    return () if host is None else (host.compile_target(),)


def _on_devices(
    platform: RegisteredPlatform,
    program: Program,
    options: CompileOptions,
    first: int | None,
    module: HloModule | None = None,
) -> CompiledModule:
    """The program on devices of this process, or on those of several where it is in a job."""
    places = _places(platform, program, options)
    if places is None:
        return CompiledModule(program, _program_devices(platform, program, options, first))
    job, own = places
    text = str(program) if module is None else print_module(module, _COMPARED)
    spread = Spread(job, own, program.name, hashlib.sha256(text.encode()).digest())
    ordinals = [spread.places[i][1] for i in spread.own]
    is_here = spread.processes == (job.index,)
    found = _present(platform, program, ordinals)
    return CompiledModule(program, found, None if is_here else spread)


def _places(
    platform: RegisteredPlatform, program: Program, options: CompileOptions
) -> tuple[Job, tuple[Place, ...]] | None:
    """The job, and where in it a program runs; None if the program is nobody else's business."""
    job, rows = current_job(), options.device_assignment
    if job is None or job.platform not in (None, platform.name):
        return None
    if rows is None and (job.device_counts is not None or program.device_count == 1):
        return None
    assignment = None if rows is None else [number for row in rows for number in row]
    return job, job.places(program.device_count, assignment)


def _device_found(
    registry: Registry,
    chosen: RegisteredPlatform,
    target: CompileTarget,
    store: Store | None,
    name: str,
    *,
    is_measured: bool,
) -> CompileTarget | None:
    """As `find_device`; with its link to the host, where estimates decide."""
    found = find_device(registry, chosen, target, name)
    if found is None or not is_measured:
        return found
    return with_host_link(found, lambda name: registry.devices(name)[0], store)


def find_device(
    registry: Registry, chosen: RegisteredPlatform, target: CompileTarget, name: str
) -> CompileTarget | None:
    """The device that a name in a program or an option means; None where there is none.

    Args:
        registry: knows the platforms.
        chosen: the platform that the program is compiled for.
        target: what it is compiled for: the name stays the platform's.
        name: such as ``npu:1``; without a number, the first device.
    """
    try:
        wanted = registry.platform(name)
        ordinal = parse_device_name(name).ordinal
    except DeviceError:
        return None
    if wanted is chosen and ordinal in (None, target.ordinal):
        return target
    number = ordinal or 0
    count = wanted.device_count()
    if number >= count and wanted.provide_devices(number + 1) <= number:
        return None
    is_other = wanted is not chosen
    shown = wanted.name if is_other and not number else f"{wanted.name}:{number}"
    found = wanted.compile_target() if is_other else target
    return replace(found, name=shown, ordinal=number)


def _program_devices(
    platform: RegisteredPlatform, program: Program, options: CompileOptions, first: int | None
) -> tuple[Device, ...]:
    """One device for each replica and partition, replica by replica."""
    if options.device_assignment is not None:
        ordinals = [ordinal for row in options.device_assignment for ordinal in row]
    else:
        start = first or 0
        ordinals = list(range(start, start + program.device_count))
    if len(ordinals) != program.device_count:
        raise OptionError(
            f"device_assignment names {len(ordinals)} devices",
            why=f"program {program.name!r} takes {program.device_count}",
        )
    if first is not None:
        platform.device(first)  # one that is named is there; those after it may be made for it
    return _present(platform, program, ordinals)


def _present(
    platform: RegisteredPlatform, program: Program, ordinals: Sequence[int]
) -> tuple[Device, ...]:
    """The devices of a platform with these numbers, made if it can make them."""
    needed = max(ordinals, default=-1) + 1
    available = platform.device_count()
    if available < needed:
        available = platform.provide_devices(needed)
    if available < needed:
        raise AbsentDeviceError(
            f"program {program.name!r} runs on {counted(len(ordinals), 'device')}",
            why=f"platform {platform.name!r} has {available}",
            hint=f"XLADEV_{platform.name.upper()}_DEVICES fixes the number on host platforms",
        )
    return tuple(platform.device(ordinal) for ordinal in ordinals)


class CompiledModule:
    """A compiled module on its devices. Thread-safe.

    Attributes:
        program: what it was compiled to: signature, fallbacks with reasons, counts; printable,
            and saved by `save`.
        devices: where it runs in this process, replica by replica.
        is_spread: True if it runs in other processes too.
    """

    def __init__(
        self, program: Program, devices: Sequence[Device], spread: Spread | None = None
    ) -> None:
        self.program = program
        self.devices = tuple(devices)
        others = tuple(current_registry().device(name) for name in program.platforms[1:])
        self._launchables = tuple(
            load_program(program, (device, *others)) for device in self.devices
        )
        self._is_long = sum(count for _, count in program.work_counts) >= LONG_WORK
        self._calls = itertools.count(1)
        is_large = any(each.allocated_nbytes >= LARGE_NBYTES for each in self._launchables)
        self._slow_calls = 0 if is_large else CALLS_BEFORE_FAST_CALL
        self._has_tried_at_once = False
        self._fast_call: FastCall | None = None
        self._together: ReplicatedLaunchable | None = None
        self.is_spread = spread is not None
        if len(self.devices) > 1 or (spread is not None and self.devices):
            platform = current_registry().platform(self.devices[0].platform).platform
            self._together = ReplicatedLaunchable(
                platform, self._launchables, program.signature.num_partitions, spread
            )

    def __repr__(self) -> str:
        names = ", ".join(device.name for device in self.devices)
        return f"<compiled {self.program.name} on {names}>"

    def save(self, path: str | Path) -> None:
        """Writes the compiled program to a file, whole or not at all.

        `xladev.load_executable` reads it, in a process of the same version of xladev, on a machine
        whose devices are of the same target.

        Args:
            path: the file; by custom it ends in ``.xladev``.

        Raises:
            FileError: the file cannot be written.
        """
        write_whole(Path(path), program_to_bytes(self.program))

    def __call__(self, *arguments: Any, donate: bool | Iterable[int] = False) -> Result:
        """Runs the program; returns before it has finished where the platform allows that.

        Args:
            arguments: one for each parameter: a DeviceArray of the device, or anything NumPy takes
                for an array; a tuple of those where the parameter is a tuple, None for a token.
                A program of several devices gets the same arguments on each.
            donate: numbers of parameters that are not needed any more; their memory may be reused
                for results, and the arrays, NumPy's included, must not be read again. True means
                those that the module itself names (input_output_alias, buffer_donor).

        Returns:
            Arrays nested as the HLO result is. If the execution fails, reading them raises why.
            For a program of several devices, the results of the first.

        Raises:
            ArgumentError: wrong number, shape or dtype, naming the parameter.
            KeyboardInterrupt: Ctrl-C, in the main thread, while a program with a loop runs, which
                ends, or one of `LONG_WORK` or more, of which a kernel may go on behind; what was
                donated to it is gone. What another signal's handler raises ends it likewise.
        """
        if donate is False and self._fast_call is not None:
            made = self._fast_call(*arguments)
            if made is not None:
                return made
        return self._call(arguments, donate)

    def _call(self, arguments: Sequence[Any], donate: bool | Iterable[int]) -> Result:
        """Runs the program by way of Python, whatever the arguments are."""
        if donate is False and not self._slow_calls and not self._has_tried_at_once:
            self._has_tried_at_once = True
            self._fast_call = self._make_fast_call()
            return self(*arguments)
        leaves = self._flatten(arguments)
        donated = self._donated(donate)
        rows = self._execute([leaves] * len(self.devices), donated)
        if not donated and next(self._calls) == self._slow_calls:
            self._fast_call = self._make_fast_call()
        return self._nest(rows[0])

    def _make_fast_call(self) -> FastCall | None:
        """A shorter way for calls with plain arguments; None if the program has none."""
        signature = self.program.signature
        if self._together is not None or not self._launchables:
            return None
        result = signature.result
        if any(s.is_tuple for s in (*signature.parameters, *result.tuple_shapes)):
            return None
        made = self._launchables[0].make_fast_call(is_bare=not result.is_tuple)
        if made is None or not self._is_long:
            return made
        return lambda *arguments: interruptible(lambda: made(*arguments))

    def _execute(
        self, rows: Sequence[Sequence[Any]], donate: tuple[int, ...]
    ) -> Sequence[tuple[DeviceArray, ...]]:
        """Runs the program; so that Ctrl-C ends the wait, if it may take long."""
        if self._is_long:
            return interruptible(lambda: self._execute_now(rows, donate))
        return self._execute_now(rows, donate)

    def _execute_now(
        self, rows: Sequence[Sequence[Any]], donate: tuple[int, ...]
    ) -> Sequence[tuple[DeviceArray, ...]]:
        if not self.devices:
            raise DeviceError(
                f"program {self.program.name!r} has no device in this process",
                hint="only the processes whose devices it has can run it",
            )
        if self._together is None:
            return [self._launchables[0].execute(rows[0], donate=donate)]
        return self._together.execute(rows, donate=donate)

    def run_on_devices(
        self, arguments: Sequence[Sequence[Any]], donate: bool | Iterable[int] = False
    ) -> list[Result]:
        """Runs the program with arguments of its own on each device.

        Args:
            arguments: for each of `devices`, what `__call__` takes.
            donate: as in `__call__`, the same on every device.

        Returns:
            For each device, its results. A failure on one device poisons the results of all.

        Raises:
            ArgumentError: wrong number, shape or dtype of arguments on a device.
        """
        if len(arguments) != len(self.devices):
            raise ArgumentError(
                f"{self.program.name} runs on {counted(len(self.devices), 'device')}; "
                f"there are arguments for {len(arguments)}",
                where=self._place,
            )
        rows = [self._flatten(row) for row in arguments]
        return [self._nest(row) for row in self._execute(rows, self._donated(donate))]

    def execute_leaves(
        self, rows: Sequence[Sequence[Any]], donate: Iterable[int] = ()
    ) -> list[tuple[DeviceArray, ...]]:
        """Runs the program on arrays that are flattened already, for front ends.

        Args:
            rows: for each of `devices`, one array for each of `Signature.parameter_leaves`.
            donate: numbers of leaves that are not needed any more, the same on every device.

        Returns:
            For each device, one array for each of `Signature.result_leaves`.

        Raises:
            ArgumentError: wrong number, shape or dtype of arguments on a device.
        """
        return list(self._execute(rows, tuple(donate)))

    @property
    def native_entry(self) -> NativeEntry | None:
        """The C entry point of a program of one device that is one piece of native code."""
        if self._together is not None or not self._launchables:
            return None
        return self._launchables[0].loaded.native_entry

    @property
    def joint_entry(self) -> JointEntry | None:
        """The C entry points of a program of several devices of this process alone, if it has any.

        Each call makes new ones.
        """
        return None if self._together is None else self._together.joint_entry()

    # Arguments and results

    def _flatten(self, arguments: Sequence[Any]) -> list[Any]:
        parameters = self.program.signature.parameters
        if len(arguments) != len(parameters):
            raise ArgumentError(
                f"{self.program.name} takes {len(parameters)} arguments, not {len(arguments)}",
                where=self._place,
                why=f"it takes {', '.join(p.to_string(layout=False) for p in parameters)}",
            )
        leaves: list[Any] = []
        for number, (argument, shape) in enumerate(zip(arguments, parameters, strict=True)):
            _flatten_into(leaves, argument, shape, f"parameter {number} of {self.program.name}")
        return leaves

    @property
    def _place(self) -> str:
        return f"program {self.program.name}"

    def _donated(self, donate: bool | Iterable[int]) -> tuple[int, ...]:
        """Argument leaves that are donated."""
        if donate is True:
            return self.program.donors
        if donate is False:
            return ()
        wanted = set(donate)
        parameters = self.program.signature.parameters
        if not wanted <= set(range(len(parameters))):
            raise ArgumentError(
                f"{self.program.name} has no parameters {sorted(wanted)} to donate",
                where=self._place,
                why=f"it has {len(parameters)}",
            )
        owners = [n for n, shape in enumerate(parameters) for _ in shape.leaves()]
        return tuple(at for at, owner in enumerate(owners) if owner in wanted)

    def _nest(self, leaves: Sequence[DeviceArray]) -> Result:
        arrays = iter(leaves)

        def take(shape: Shape) -> DeviceArray | None:
            array = next(arrays)  # a token has one too
            return array if shape.is_array else None

        return nested(self.program.signature.result, take)


def _flatten_into(leaves: list[Any], argument: Any, shape: Shape, where: str) -> None:
    if not shape.is_tuple:
        leaves.append(argument)
        return
    if not isinstance(argument, (tuple, list)) or len(argument) != len(shape.tuple_shapes):
        raise ArgumentError(
            f"argument is no tuple of {len(shape.tuple_shapes)}",
            where=where,
            why=f"the program wants {shape.to_string(layout=False)}",
        )
    for i, (part, part_shape) in enumerate(zip(argument, shape.tuple_shapes, strict=True)):
        _flatten_into(leaves, part, part_shape, f"{where}, part {i}")
