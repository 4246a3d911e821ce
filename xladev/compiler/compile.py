"""The driver: a module to a Program, through verification, passes, partition and regions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xladev.compiler.clustering.levels import CLUSTER_STEP
from xladev.compiler.compile_record import CompileRecord
from xladev.compiler.compile_report import dumped_report
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import (
    SDK,
    CompileTarget,
    refuse_fallbacks,
)
from xladev.compiler.placement.devices import FindDevice
from xladev.compiler.placement.placed_graph import placed_text
from xladev.compiler.placement.placement_log import log_placement
from xladev.compiler.placement.placer import Placer
from xladev.compiler.prepare import instrumented_by, prepare
from xladev.compiler.program.dynamic_interface import with_dynamic_interface
from xladev.compiler.program.procedure_builder import RESULT_STEP, TRANSFER_STEP
from xladev.compiler.program.program import Program
from xladev.compiler.program.program_builder import ProgramBuilder
from xladev.compiler.program.program_check import check_program
from xladev.errors import OutOfMemoryError
from xladev.hlo.device_scope import device
from xladev.hlo.ir import HloModule
from xladev.hlo.jit_scope import unscoped
from xladev.instrument import (
    Decision,
    collect_decisions,
    dump,
    dump_group,
    dumping_to,
    logger,
    trace_scope,
)
from xladev.passes.pipeline import PassRecord

_log = logger("compile")
Hosts = Callable[[], Sequence[CompileTarget]]


def compile_module(
    module: HloModule,
    target: CompileTarget,
    options: CompileOptions,
    hosts: Hosts = tuple,
    find: FindDevice | None = None,
) -> Program:
    """Compiles a module.

    Args:
        module: verified or not.
        target: the platform wanted.
        options: how.
        hosts: gives host platforms for what it refuses, best first; asked only if there is any.
        find: looks up the devices that instructions and options name.

    Raises:
        VerifyError: the module breaks a rule of HLO.
        UnsupportedError: nobody runs an instruction, strict and something falls back, or a
            parameter or result is wanted in a memory space that the device has not.
        EvaluationError: a collective names devices that an execution does not have.
        ShapeError: the result of a collective does not fit its group.
        CompileError: a backend could not compile a region.
        OutOfMemoryError: the compiler itself ran out of memory.
    """
    return _Compilation(module, target, options, hosts, find).built().program


def compile_recorded(
    module: HloModule,
    target: CompileTarget,
    options: CompileOptions,
    hosts: Hosts = tuple,
    find: FindDevice | None = None,
) -> CompileRecord:
    """As `compile_module`, and gives with the program what was done on the way to it."""
    with collect_decisions() as decisions:
        built = _Compilation(module, target, options, hosts, find, is_recorded=True).built()
    steps = (TRANSFER_STEP, RESULT_STEP, CLUSTER_STEP)
    return built.record(tuple(d for d in decisions if d.step in steps))


@dataclass(frozen=True, slots=True)
class _Compilation:
    """What is asked of the compiler; see `compile_module`."""

    module: HloModule
    target: CompileTarget
    options: CompileOptions
    hosts: Hosts
    find: FindDevice | None = None
    is_recorded: bool = False

    def built(self) -> _Built:
        """The program, dumped and told of."""
        start = time.perf_counter()
        name = self.module.name
        with (
            dumping_to(self.options.dump_to, self.options.dump_filter),
            dump_group(name, self.target.name),
            dumped_report(name),
        ):
            with trace_scope(name, "compile", platform=self.target.name):
                built = self._built_within_memory()
            dump(name, "program.txt", lambda: str(built.program))
        _log_line(built.program, time.perf_counter() - start)
        return built

    def _built_within_memory(self) -> _Built:
        try:
            return self._build()
        except MemoryError as error:
            module = self.module
            raise OutOfMemoryError(
                f"compiling {module.name} takes more memory than there is",
                where=f"module {module.name}, of {module.instruction_count} instructions",
                why=str(error) or "an allocation failed",
                hint="compile on a machine with more memory, or split the program",
            ) from error

    def _build(self) -> _Built:
        found, options = _Once(self.hosts), self.options
        with instrumented_by(options) as around, device(None), unscoped():
            earlier = len(around.records)
            placer = Placer(self.target, found, self.find, options)
            ready = prepare(placer.constrained(self.module), placer.asked(), options)
            assignment = placer.assign(ready)
            if options.strict:
                refuse_fallbacks(self.module.name, assignment.fallbacks)
            targets = (placer.target, *found.asked, *placer.devices)
            log_placement(assignment, {each.name: each for each in targets})
            if len(targets) > 1:
                names = {each.name: each.device_name for each in targets}
                dump(ready.name, "placed.txt", lambda: placed_text(ready, assignment, names))
            builder = ProgramBuilder(ready, targets, options, assignment, self.is_recorded)
            program = with_dynamic_interface(builder.build(), self.module)
        check_program(program)
        return _Built(program, builder, tuple(around.records[earlier:]))


class _Built(NamedTuple):
    program: Program
    builder: ProgramBuilder
    passes: tuple[PassRecord, ...]

    def record(self, transfers: tuple[Decision, ...]) -> CompileRecord:
        """What was done, if it was recorded."""
        return self.builder.record(self.program, transfers, self.passes)


class _Once:
    """Remembers the host platforms, if they were asked for."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self.asked: tuple[CompileTarget, ...] = ()

    def __call__(self) -> tuple[CompileTarget, ...]:
        self.asked = tuple(self._hosts())
        return self.asked


def _log_line(program: Program, seconds: float) -> None:
    target = program.signature.platform
    counts = dict(program.instruction_counts)
    on_device = counts.pop(target, 0)
    by_sdk = counts.pop(SDK, 0)
    _log.info(
        "compiled %s for %s: %d instructions on device, %d on host, %d run by the SDK, "
        "%d executables, %.0f ms",
        program.name,
        target,
        on_device,
        sum(counts.values()),
        by_sdk,
        len(program.executables),
        seconds * 1e3,
    )
