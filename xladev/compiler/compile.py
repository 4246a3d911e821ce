"""The driver: a module to a Program, through verification, passes, partition and regions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xladev.compiler.clustering.levels import CLUSTER_STEP, Clustering
from xladev.compiler.compile_record import CompileRecord, RegionRecord, recorded_region
from xladev.compiler.compile_report import dumped_report
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import (
    CONTROL_OPCODES,
    EVALUATOR,
    SDK,
    Assignment,
    CompileTarget,
    refuse_fallbacks,
)
from xladev.compiler.partition.exchange_check import check_exchanges
from xladev.compiler.partition.memory_spaces import entry_spaces, in_spaces
from xladev.compiler.partition.partition import Region, Step, callees, cut
from xladev.compiler.partition.region_compile import compile_region
from xladev.compiler.partition.region_values import RegionValue, sources
from xladev.compiler.placement.devices import FindDevice
from xladev.compiler.placement.placed_graph import placed_text
from xladev.compiler.placement.placement_log import log_placement
from xladev.compiler.placement.placer import Placer
from xladev.compiler.prepare import instrumented_by, prepare
from xladev.compiler.program.collective_thunk import CollectivePlan, simple_reduction
from xladev.compiler.program.donors import donors
from xladev.compiler.program.dynamic_interface import with_dynamic_interface
from xladev.compiler.program.procedure_builder import RESULT_STEP, TRANSFER_STEP, ProcedureBuilder
from xladev.compiler.program.program import ConstantData, Procedure, Program, Slot
from xladev.compiler.program.program_check import check_program
from xladev.compiler.program.thunks import RunExecutable
from xladev.compiler.signature import Signature
from xladev.errors import OutOfMemoryError
from xladev.hlo.device_groups import device_groups
from xladev.hlo.device_scope import device
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.jit_scope import unscoped
from xladev.hlo.shape import Shape
from xladev.hlo.work import floating_point_work
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
            builder = _ProgramBuilder(ready, targets, options, assignment, self.is_recorded)
            program = with_dynamic_interface(builder.build(), self.module)
        check_program(program)
        return _Built(program, builder, tuple(around.records[earlier:]))


class _Built(NamedTuple):
    program: Program
    builder: _ProgramBuilder
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


class _ProgramBuilder:
    """Collects what the procedures of one program share."""

    def __init__(
        self,
        module: HloModule,
        targets: Sequence[CompileTarget],
        options: CompileOptions,
        assignment: Assignment,
        is_recorded: bool,
    ) -> None:
        self._is_recorded = is_recorded
        self._regions: list[RegionRecord] = []
        self._module = module
        self._targets = {target.name: target for target in targets}
        self._options = options
        self._assignment = assignment
        self._platforms = [targets[0].name]
        self._executables: list[Executable] = []
        self._constants: list[ConstantData] = []
        self._boundary_shapes: dict[tuple[Shape, int], Shape] = {}
        self._constant_numbers: dict[tuple[HloInstruction, tuple[int, ...]], int] = {}
        self._procedures: list[Procedure] = []
        self._procedure_numbers: dict[tuple[HloComputation, int], int] = {}
        self._steps: dict[HloComputation, tuple[Step, ...]] = {}
        self._devices_within: dict[HloComputation, frozenset[str]] = {}
        self._spaces = entry_spaces(module, targets[0].description, targets[0].name)
        header = module.header
        self._replicas = max(options.num_replicas, header.replica_count)
        self._partitions = max(options.num_partitions, header.num_partitions)
        self._options = replace(
            options, num_replicas=self._replicas, num_partitions=self._partitions
        )

    def build(self) -> Program:
        check_exchanges(self._module, self._assignment, self._replicas, self._partitions)
        computations = self._cut()
        whole = self._whole_region()
        if whole is not None:
            return self._one_region_program(whole)
        for computation, home in self._procedures_needed(computations):
            entry = computation is self._module.entry
            builder = ProcedureBuilder(self, computation, self._steps[computation], home)
            self._procedures.append(builder.build(self._spaces if entry else None))
            self._procedure_numbers[computation, home] = len(self._procedures) - 1
        return self._program(self._outside())

    def record(
        self,
        program: Program,
        transfers: tuple[Decision, ...],
        passes: tuple[PassRecord, ...],
    ) -> CompileRecord:
        """What was done to make ``program`` of the module."""
        return CompileRecord(
            program,
            self._module,
            self._assignment,
            self._steps,
            tuple(self._regions),
            transfers,
            passes,
        )

    # Partition

    def _cut(self) -> list[HloComputation]:
        """Partitions what the SDK runs; returns it, callees first."""
        clustering = Clustering.of(self._options)
        self._steps.update(cut(self._module, self._assignment, clustering=clustering))
        ordered = [c for c in self._module.computations if c in self._steps]
        for computation in ordered:
            self._devices_within[computation] = self._find_devices(computation)
        return ordered

    def _find_devices(self, computation: HloComputation) -> frozenset[str]:
        found: set[str] = set()
        for step in self._steps[computation]:
            if isinstance(step, Region):
                found.add(step.device)
            elif step.opcode in CONTROL_OPCODES:
                found.update(*(self._devices_within[c] for c in step.called))
            else:
                found.add(SDK)
        return frozenset(found)

    def _procedures_needed(
        self, computations: Sequence[HloComputation]
    ) -> list[tuple[HloComputation, int]]:
        """Computations with the platform on which they take values, callees first."""
        needed: dict[HloComputation, dict[int, None]] = {self._module.entry: {0: None}}
        for computation in reversed(computations):
            for step in self._steps[computation]:
                for callee in callees(step):
                    assert isinstance(step, HloInstruction)
                    needed.setdefault(callee, {})[self.home(step)] = None
        return [(c, home) for c in computations for home in needed[c]]

    # What procedures ask

    def platform_index(self, device: str) -> int:
        """See `ProgramContext.platform_index`."""
        if device not in self._platforms:
            self._platforms.append(device)
        return self._platforms.index(device)

    def platform_name(self, index: int) -> str:
        """See `ProgramContext.platform_name`."""
        return self._platforms[index]

    def boundary_shape(self, shape: Shape, platform: int) -> Shape:
        """See `ProgramContext.boundary_shape`."""
        if not shape.is_array:
            return shape
        key = shape, platform
        if key not in self._boundary_shapes:
            target = self._targets[self._platforms[platform]]
            layout = target.device_layout(shape.without_layout())
            self._boundary_shapes[key] = shape.with_layout(layout)
        return self._boundary_shapes[key]

    def executable(self, device: str, module: HloModule) -> tuple[int, Signature]:
        """See `ProgramContext.executable`."""
        target = self._targets.get(device)
        if self._is_recorded:
            with recorded_region() as region:
                made = compile_region(target, module, self._options)
            decisions = tuple(region.decisions)
            self._regions.append(RegionRecord(module.name, device, region.plan, decisions))
        else:
            made = compile_region(target, module, self._options)
        if made.signature.platform != device:  # one of several devices of a platform
            made = replace(made, signature=replace(made.signature, platform=device))
        self._executables.append(made)
        return len(self._executables) - 1, made.signature

    def constant(self, leaf: RegionValue) -> int:
        """See `ProgramContext.constant`."""
        key = leaf.producer, leaf.part
        if key not in self._constant_numbers:
            literal = leaf.producer["literal"]
            for i in leaf.part:
                literal = literal.parts[i]
            shape = leaf.shape.without_layout().with_default_layout()
            self._constants.append(ConstantData(shape, bytes(literal.bits())))
            self._constant_numbers[key] = len(self._constants) - 1
        return self._constant_numbers[key]

    def procedure(self, computation: HloComputation, home: int) -> int:
        """See `ProgramContext.procedure`."""
        return self._procedure_numbers[computation, home]

    def home(self, instruction: HloInstruction) -> int:
        """See `ProgramContext.home`: the one platform that runs all of it, or the target."""
        found = frozenset().union(*(self._devices_within[c] for c in instruction.called))
        if len(found) != 1 or found & {SDK, EVALUATOR}:
            return 0
        return self.platform_index(next(iter(found)))

    def random_seed(self) -> int:
        """See `ProgramContext.random_seed`."""
        return self._options.rng_seed

    def collective_plan(self, instruction: HloInstruction) -> CollectivePlan:
        """See `ProgramContext.collective_plan`."""
        groups = device_groups(instruction, self._replicas, self._partitions)
        if not instruction.called:
            return CollectivePlan(groups)
        (reducer,) = instruction.called
        simple = simple_reduction(reducer)
        if simple:
            return CollectivePlan(groups, simple)
        number, _ = self.executable(EVALUATOR, HloModule(reducer.name, reducer))
        return CollectivePlan(groups, "", number)

    # The program

    def _whole_region(self) -> Region | None:
        """The only step of the entry, if the target runs all of the module in one go.

        Not where values are wanted in another memory than the device's first, in which it runs. A
        dynamic parameter among the results was never shown to the target, which need not know
        that it has sizes to pass on.
        """
        entry = self._module.entry
        passed_on = [leaf for leaf in sources(entry.root) if leaf.producer.opcode == "parameter"]
        if self._spaces or any(leaf.shape.is_dynamic for leaf in passed_on):
            return None
        steps = self._steps[entry]
        if len(steps) == 1 and isinstance(steps[0], Region):
            return steps[0] if steps[0].device == self._platforms[0] else None
        return None

    def _one_region_program(self, region: Region) -> Program:
        """The whole module is given to the backend as it is."""
        _, signature = self.executable(region.device, self._module)
        arguments = tuple(range(len(signature.argument_shapes)))
        results = tuple(range(len(arguments), len(arguments) + len(signature.result_shapes)))
        slots = tuple(Slot(s) for s in (*signature.argument_shapes, *signature.result_shapes))
        thunks = (RunExecutable(0, arguments, results),)
        self._procedures = [Procedure(self._module.entry.name, slots, arguments, results, thunks)]
        return self._program(
            replace(signature, num_replicas=self._replicas, num_partitions=self._partitions)
        )

    def _outside(self) -> Signature:
        entry, spaces = self._module.entry, iter(self._spaces.parameters)
        shapes = tuple(self._with_boundary_layouts(p.shape) for p in entry.parameters)
        result = self._with_boundary_layouts(entry.root.shape)
        return Signature(
            name=self._module.name,
            platform=self._platforms[0],
            target=self._targets[self._platforms[0]].description.target,
            parameters=tuple(in_spaces(shape, spaces) for shape in shapes),
            result=in_spaces(result, iter(self._spaces.results)),
            num_replicas=self._replicas,
            num_partitions=self._partitions,
        )

    def _with_boundary_layouts(self, shape: Shape) -> Shape:
        if not shape.is_tuple:
            return self.boundary_shape(shape, 0)
        parts = tuple(self._with_boundary_layouts(part) for part in shape.tuple_shapes)
        return replace(shape, tuple_shapes=parts)

    def _program(self, signature: Signature) -> Program:
        counts, work = Counter[str](), Counter[str]()
        for instruction in self._assigned():
            device = self._assignment.devices[instruction]
            counts[device] += 1
            # What the SDK runs is counted where the instructions of its computations run.
            work[device] += floating_point_work((instruction,)) if device != SDK else 0
        return Program(
            signature,
            tuple(self._platforms),
            tuple(self._executables),
            tuple(self._constants),
            tuple(self._procedures),
            donors=donors(self._module),
            instruction_counts=tuple(sorted(counts.items())),
            fallbacks=self._assignment.fallbacks,
            work_counts=tuple(sorted((name, n) for name, n in work.items() if n)),
        )

    def _assigned(self) -> Iterator[HloInstruction]:
        """The instructions of everything that was partitioned."""
        for steps in self._steps.values():
            for step in steps:
                yield from step.instructions if isinstance(step, Region) else (step,)
