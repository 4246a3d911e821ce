"""Collects what the procedures of one program share, and makes the program of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from xladev.compiler.clustering.levels import Clustering
from xladev.compiler.compile_record import CompileRecord, RegionRecord, recorded_region
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import (
    CONTROL_OPCODES,
    EVALUATOR,
    SDK,
    Assignment,
    CompileTarget,
)
from xladev.compiler.partition.exchange_check import check_exchanges
from xladev.compiler.partition.memory_spaces import entry_spaces, in_spaces
from xladev.compiler.partition.overlap_costs import overlap_costs
from xladev.compiler.partition.partition import Region, Step, callees, cut, instructions_of
from xladev.compiler.partition.region_compile import compile_region
from xladev.compiler.partition.region_values import RegionValue, sources
from xladev.compiler.program.collective_thunk import CollectivePlan, simple_reduction
from xladev.compiler.program.donors import donors
from xladev.compiler.program.procedure_builder import ProcedureBuilder
from xladev.compiler.program.program import ConstantData, Procedure, Program, Slot
from xladev.compiler.program.thunks import RunExecutable
from xladev.compiler.signature import Signature
from xladev.hlo.device_groups import device_groups
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import Shape
from xladev.hlo.work import floating_point_work
from xladev.instrument import Decision
from xladev.passes.pipeline import PassRecord

CompileRegion = Callable[[CompileTarget | None, HloModule, CompileOptions], Executable]
"""Makes the executable of a region; None is the evaluator."""


class ProgramBuilder:
    """Builds one program.

    Args:
        module: prepared.
        targets: the devices that run it, the platform wanted first.
        options: how.
        assignment: where its instructions run.
        is_recorded: whether `record` will be asked for.
        compiled: makes executables; others than backends may stand for them.
    """

    def __init__(
        self,
        module: HloModule,
        targets: Sequence[CompileTarget],
        options: CompileOptions,
        assignment: Assignment,
        is_recorded: bool = False,
        compiled: CompileRegion = compile_region,
    ) -> None:
        self._compiled = compiled
        self._is_recorded = is_recorded
        self._regions: list[RegionRecord] = []
        self._module = module
        self._target = targets[0]
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
        """The program.

        Raises:
            XladevError: as `compile_module`.
        """
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

    def turns(self, loops: Mapping[str, int]) -> dict[int, int]:
        """How often loops run, by the numbers of the procedures of their conditions.

        Args:
            loops: by names of the loops.
        """
        conditions = {
            i["condition"]: loops[i.name]
            for steps in self._steps.values()
            for i in steps
            if isinstance(i, HloInstruction) and i.opcode == "while" and i.name in loops
        }
        numbers = self._procedure_numbers.items()
        return {number: conditions[c] for (c, _), number in numbers if c in conditions}

    # Partition

    def _cut(self) -> list[HloComputation]:
        """Partitions what the SDK runs; returns it, callees first."""
        clustering = Clustering.of(self._options)
        overlap = overlap_costs(self._target, self._options)
        self._steps.update(
            cut(self._module, self._assignment, clustering=clustering, overlap=overlap)
        )
        ordered = [c for c in self._module.computations if c in self._steps]
        for computation in ordered:
            self._devices_within[computation] = self._find_devices(computation)
        return ordered

    def _find_devices(self, computation: HloComputation) -> frozenset[str]:
        found: set[str] = set()
        for step in self._steps[computation]:
            if isinstance(step, Region):
                found.add(step.device)
            elif isinstance(step, HloInstruction) and step.opcode in CONTROL_OPCODES:
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
                made = self._compiled(target, module, self._options)
            decisions = tuple(region.decisions)
            self._regions.append(RegionRecord(module.name, device, region.plan, decisions))
        else:
            made = self._compiled(target, module, self._options)
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
                yield from instructions_of(step)
