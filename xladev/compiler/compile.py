"""The driver: a module to a Program, through verification, passes, partition and regions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from xladev.compiler.assignment import (
    CONTROL_OPCODES,
    EVALUATOR,
    SDK,
    Assignment,
    CompileTarget,
    assign,
    refuse_fallbacks,
)
from xladev.compiler.collective_thunk import CollectivePlan, simple_reduction
from xladev.compiler.compile_report import dumped_report
from xladev.compiler.dynamic_interface import with_dynamic_interface
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition import Region, Step, partition
from xladev.compiler.prepare import prepare
from xladev.compiler.procedure_builder import ProcedureBuilder
from xladev.compiler.program import ConstantData, Procedure, Program, Slot
from xladev.compiler.program_check import check_program
from xladev.compiler.region_compile import compile_region
from xladev.compiler.signature import Signature
from xladev.compiler.thunks import RunExecutable
from xladev.compiler.value_leaves import ValueLeaf, sources
from xladev.errors import OutOfMemoryError
from xladev.hlo.device_groups import device_groups
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import Shape
from xladev.hlo.work import floating_point_work
from xladev.instrument import dump, dump_group, dumping_to, logger, trace_scope
from xladev.passes.effects import computations_with_effects

_log = logger("compile")
Hosts = Callable[[], Sequence[CompileTarget]]


def compile_module(
    module: HloModule,
    target: CompileTarget,
    options: CompileOptions,
    hosts: Hosts = tuple,
) -> Program:
    """Compiles a module.

    Args:
        module: verified or not.
        target: the platform wanted.
        options: how.
        hosts: gives host platforms for what it refuses, best first; asked only if there is any.

    Raises:
        VerifyError: the module breaks a rule of HLO.
        UnsupportedError: nobody runs an instruction, or strict and something falls back.
        CompileError: a backend could not compile a region.
        OutOfMemoryError: the compiler itself ran out of memory.
    """
    start = time.perf_counter()
    with (
        dumping_to(options.dump_to, options.dump_filter),
        dump_group(module.name, target.name),
        dumped_report(module.name),
    ):
        with trace_scope(module.name, "compile", platform=target.name):
            program = _compile_within_memory(module, target, options, hosts)
        dump(module.name, "program.txt", lambda: str(program))
    _log_line(program, time.perf_counter() - start)
    return program


def _compile_within_memory(
    module: HloModule, target: CompileTarget, options: CompileOptions, hosts: Hosts
) -> Program:
    try:
        return _compile(module, target, options, hosts)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"compiling {module.name} takes more memory than there is",
            where=f"module {module.name}, of {module.instruction_count} instructions",
            why=str(error) or "an allocation failed",
            hint="compile on a machine with more memory, or split the program",
        ) from error


def _compile(
    module: HloModule, target: CompileTarget, options: CompileOptions, hosts: Hosts
) -> Program:
    found = _Once(hosts)
    ready = prepare(module, target, options)
    assignment = assign(ready, target, found, op_by_op=options.op_by_op)
    if options.strict:
        refuse_fallbacks(module.name, assignment.fallbacks)
    targets = (target, *found.asked)
    program = _ProgramBuilder(ready, targets, options, assignment).build()
    program = with_dynamic_interface(program, module)
    check_program(program)
    return program


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
    ) -> None:
        self._module = module
        self._targets = {target.name: target for target in targets}
        self._options = options
        self._assignment = assignment
        self._platforms = [targets[0].name]
        self._executables: list[Executable] = []
        self._constants: list[ConstantData] = []
        self._constant_numbers: dict[tuple[HloInstruction, tuple[int, ...]], int] = {}
        self._procedures: list[Procedure] = []
        self._procedure_numbers: dict[tuple[HloComputation, int], int] = {}
        self._steps: dict[HloComputation, tuple[Step, ...]] = {}
        self._devices_within: dict[HloComputation, frozenset[str]] = {}
        header = module.header
        self._replicas = max(options.num_replicas, header.replica_count)
        self._partitions = max(options.num_partitions, header.num_partitions)

    def build(self) -> Program:
        computations = self._cut()
        whole = self._whole_region()
        if whole is not None:
            return self._one_region_program(whole)
        for computation, home in self._procedures_needed(computations):
            entry = computation is self._module.entry
            builder = ProcedureBuilder(self, computation, self._steps[computation], home)
            self._procedures.append(builder.build(own_results=entry))
            self._procedure_numbers[computation, home] = len(self._procedures) - 1
        return self._program(self._outside())

    # Partition

    def _cut(self) -> list[HloComputation]:
        """Partitions what the SDK runs; returns it, callees first."""
        devices = self._assignment.devices
        effects = computations_with_effects(self._module)
        inside = {self._module.entry}
        for computation in reversed(self._module.computations):
            if computation in inside:
                one_by_one = self._options.op_by_op
                steps = partition(computation, devices, effects, op_by_op=one_by_one)
                self._steps[computation] = steps
                inside.update(c for step in steps for c in _callees(step))
        ordered = [c for c in self._module.computations if c in inside]
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
                for callee in _callees(step):
                    assert isinstance(step, HloInstruction)
                    needed.setdefault(callee, {})[self.home(step)] = None
        return [(c, home) for c in computations for home in needed[c]]

    # What procedures ask

    def platform_index(self, device: str) -> int:
        """See `Surroundings.platform_index`."""
        if device not in self._platforms:
            self._platforms.append(device)
        return self._platforms.index(device)

    def platform_name(self, index: int) -> str:
        """See `Surroundings.platform_name`."""
        return self._platforms[index]

    def boundary_shape(self, shape: Shape, platform: int) -> Shape:
        """See `Surroundings.boundary_shape`."""
        if not shape.is_array:
            return shape
        target = self._targets[self._platforms[platform]]
        plain = shape.without_layout()
        return shape.with_layout(target.device_layout(plain))

    def executable(self, device: str, module: HloModule) -> tuple[int, Signature]:
        """See `Surroundings.executable`."""
        made = compile_region(self._targets.get(device), module, self._options)
        self._executables.append(made)
        return len(self._executables) - 1, made.signature

    def constant(self, leaf: ValueLeaf) -> int:
        """See `Surroundings.constant`."""
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
        """See `Surroundings.procedure`."""
        return self._procedure_numbers[computation, home]

    def home(self, instruction: HloInstruction) -> int:
        """See `Surroundings.home`: the one platform that runs all of it, or the target."""
        found = frozenset().union(*(self._devices_within[c] for c in instruction.called))
        if len(found) != 1 or found & {SDK, EVALUATOR}:
            return 0
        return self.platform_index(next(iter(found)))

    def random_seed(self) -> int:
        """See `Surroundings.random_seed`."""
        return self._options.rng_seed

    def collective_plan(self, instruction: HloInstruction) -> CollectivePlan:
        """See `Surroundings.collective_plan`."""
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

        A dynamic parameter among the results was never shown to the target, which need not know
        that it has sizes to pass on.
        """
        entry = self._module.entry
        passed_on = [leaf for leaf in sources(entry.root) if leaf.producer.opcode == "parameter"]
        if any(leaf.shape.is_dynamic for leaf in passed_on):
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
        entry = self._module.entry
        return Signature(
            name=self._module.name,
            platform=self._platforms[0],
            target=self._targets[self._platforms[0]].description.target,
            parameters=tuple(self._with_boundary_layouts(p.shape) for p in entry.parameters),
            result=self._with_boundary_layouts(entry.root.shape),
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
            donors=_donors(self._module),
            instruction_counts=tuple(sorted(counts.items())),
            fallbacks=self._assignment.fallbacks,
            work_counts=tuple(sorted((name, n) for name, n in work.items() if n)),
        )

    def _assigned(self) -> Iterator[HloInstruction]:
        """The instructions of everything that was partitioned."""
        for steps in self._steps.values():
            for step in steps:
                yield from step.instructions if isinstance(step, Region) else (step,)


def _callees(step: Step) -> tuple[HloComputation, ...]:
    if isinstance(step, Region) or step.opcode not in CONTROL_OPCODES:
        return ()
    return step.called


def _donors(module: HloModule) -> tuple[int, ...]:
    """Argument numbers that the module says may be reused for results."""
    header = module.header
    parts = {(a.parameter, a.parameter_index) for a in header.aliases}
    parts |= set(header.buffer_donors)
    leaves = [
        (number, index)
        for number, parameter in enumerate(module.entry.parameters)
        for index, _ in parameter.shape.leaves()
    ]
    return tuple(at for at, leaf in enumerate(leaves) if leaf in parts)
