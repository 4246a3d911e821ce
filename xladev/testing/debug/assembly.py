"""A program that was split among platforms, put together again with what became of each region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from xladev.compiler.clustering.levels import Clustering
from xladev.compiler.compile import Hosts
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import Assignment, CompileTarget, assign
from xladev.compiler.partition.partition import Region, Step, cut, region_outputs
from xladev.compiler.partition.region_module import region_module
from xladev.compiler.partition.region_values import RegionValue, source
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import with_called, with_operands

Change = Callable[[str, HloModule], HloModule]
"""Gives what a device makes of the module of a region: of the same parameters and results."""


@dataclass(frozen=True, slots=True)
class Split:
    """A program as the compiler splits it.

    Attributes:
        module: prepared.
        assignment: where its instructions run, and why.
        steps: what runs of each computation, as cut into regions.
    """

    module: HloModule
    assignment: Assignment
    steps: Mapping[HloComputation, tuple[Step, ...]]

    def is_whole(self, device: str) -> bool:
        """True if one device runs all of it in one go: then the module is given to it as it is."""
        steps = self.steps[self.module.entry]
        return len(steps) == 1 and isinstance(steps[0], Region) and steps[0].device == device


def split(ready: HloModule, target: CompileTarget, options: CompileOptions, hosts: Hosts) -> Split:
    """How a prepared module is split.

    Raises:
        XladevError: nobody runs an instruction.
    """
    assignment = assign(ready, target, hosts, op_by_op=options.level == 0)
    steps = cut(ready, assignment, clustering=Clustering.of(options))
    return Split(ready, assignment, steps)


def assembled(found: Split, change: Change) -> HloModule:
    """The program with what ``change`` makes of its regions in their places."""
    made: dict[HloComputation, HloComputation] = {}
    for computation in found.module.computations:
        if computation in found.steps:
            builder = _Assembly(computation, made)
            made[computation] = builder.run(found.steps[computation], change)
    return with_unique_names(replace(found.module, entry=made[found.module.entry]))


class _Assembly:
    """Puts one computation together.

    Args:
        computation: as it was.
        callees: what became of others.
    """

    def __init__(
        self, computation: HloComputation, callees: Mapping[HloComputation, HloComputation]
    ) -> None:
        self._computation = computation
        self._callees = callees
        self._builder = HloBuilder(computation.name)
        self._whole = {p: self._builder.append(p) for p in computation.parameters}
        self._leaves: dict[RegionValue, HloInstruction] = {}

    def run(self, steps: tuple[Step, ...], change: Change) -> HloComputation:
        """The computation of these steps."""
        outputs = region_outputs(steps, self._computation.root)
        for step in steps:
            if isinstance(step, Region):
                self._region(step, outputs[step], change)
            elif isinstance(step, HloInstruction):
                operands = tuple(self._value(o) for o in step.operands)
                note = replace(step.note, control_predecessors=())
                called = with_called(replace(step, note=note), self._callees)
                self._whole[step] = self._builder.append(with_operands(called, operands))
        return self._builder.build(self._value(self._computation.root))

    def _region(self, region: Region, outputs: list[RegionValue], change: Change) -> None:
        taken = region_module(self._computation.name, region.instructions, outputs)
        entry = change(region.device, taken.module).entry
        arguments = [self._leaf(leaf) for leaf in taken.inputs]
        made = dict(zip(entry.parameters, arguments, strict=True))
        for i in entry.instructions:
            if i in made or (i is entry.root and i.opcode == "tuple"):
                continue
            before = tuple(made[p] for p in i.note.control_predecessors)
            copy = replace(i, note=replace(i.note, control_predecessors=before))
            made[i] = self._builder.append(with_operands(copy, tuple(made[o] for o in i.operands)))
        for number, leaf in enumerate(outputs):
            root = entry.root
            self._leaves[leaf] = (
                made[root.operands[number]]
                if root.opcode == "tuple"
                else self._builder.op("get-tuple-element", made[root], index=number)
            )

    def _value(self, instruction: HloInstruction, index: tuple[int, ...] = ()) -> HloInstruction:
        """What gives part ``index`` of a value now."""
        found = source(instruction, index)
        if found in self._leaves or not found.shape.is_tuple:
            return self._leaf(found)
        if found.producer in self._whole:
            return self._part(found)
        count = len(found.shape.tuple_shapes)
        parts = [self._value(found.producer, (*found.part, n)) for n in range(count)]
        self._leaves[found] = self._builder.op("tuple", *parts)
        return self._leaves[found]

    def _leaf(self, leaf: RegionValue) -> HloInstruction:
        if leaf in self._leaves:
            return self._leaves[leaf]
        if leaf.producer.opcode == "constant" and leaf.producer not in self._whole:
            self._whole[leaf.producer] = self._builder.append(leaf.producer)
        return self._part(leaf)

    def _part(self, leaf: RegionValue) -> HloInstruction:
        """get-tuple-elements down to a part of what is there as a whole."""
        if not leaf.part:
            return self._whole[leaf.producer]
        if leaf not in self._leaves:
            outer = self._part(RegionValue(leaf.producer, leaf.part[:-1]))
            index = leaf.part[-1]
            self._leaves[leaf] = self._builder.op("get-tuple-element", outer, index=index)
        return self._leaves[leaf]
