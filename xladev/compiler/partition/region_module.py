"""Makes a module of its own from the instructions of a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xladev.compiler.partition.region_values import RegionValue, source
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.rebuild import with_operands
from xladev.hlo.shape import Shape


@dataclass(frozen=True, slots=True)
class RegionModule:
    """A region as a module.

    Attributes:
        module: takes one array per input, gives a tuple of the outputs.
        inputs: what its parameters stand for, in order.
    """

    module: HloModule
    inputs: tuple[RegionValue, ...]


def region_module(
    name: str, instructions: Sequence[HloInstruction], outputs: Sequence[RegionValue]
) -> RegionModule:
    """The module that computes ``outputs``.

    Args:
        name: name of the module.
        instructions: operands first; constants they use are copied into the module.
        outputs: values that these instructions give.
    """
    return _RegionBuilder(name, instructions).build(outputs)


class _RegionBuilder:
    def __init__(self, name: str, instructions: Sequence[HloInstruction]) -> None:
        self._instructions = instructions
        self._builder = HloBuilder(name)
        self._made: dict[HloInstruction, HloInstruction] = {}
        self._parts: dict[RegionValue, HloInstruction] = {}
        self._inputs: list[RegionValue] = []

    def build(self, outputs: Sequence[RegionValue]) -> RegionModule:
        for instruction in self._instructions:
            self._made[instruction] = self._copy(instruction)
        root = self._builder.op("tuple", *(self._array(value) for value in outputs))
        return RegionModule(self._builder.module(root), tuple(self._inputs))

    def _copy(self, instruction: HloInstruction) -> HloInstruction:
        operands = tuple(self._value(o, ()) for o in instruction.operands)
        copy = with_operands(instruction, operands)
        before = instruction.note.control_predecessors
        if before:
            kept = tuple(self._made[p] for p in before if p in self._made)
            copy = replace(copy, note=replace(copy.note, control_predecessors=kept))
        return self._builder.append(copy)

    def _value(self, instruction: HloInstruction, index: tuple[int, ...]) -> HloInstruction:
        """The instruction of this module that gives part ``index`` of a value."""
        found = source(instruction, index)
        shape = found.shape
        if not shape.is_tuple:
            return self._array(found)
        if not found.part and found.producer in self._made:
            return self._made[found.producer]
        if found.producer in self._made:
            return self._part(found)
        return self._tuple(found, shape)

    def _tuple(self, found: RegionValue, shape: Shape) -> HloInstruction:
        """A tuple put together from its values."""
        if found not in self._parts:
            parts = [
                self._value(found.producer, (*found.part, i))
                for i in range(len(shape.tuple_shapes))
            ]
            self._parts[found] = self._builder.op("tuple", *parts)
        return self._parts[found]

    def _array(self, value: RegionValue) -> HloInstruction:
        producer = value.producer
        if producer in self._made:
            return self._part(value) if value.part else self._made[producer]
        if value in self._parts:
            return self._parts[value]
        if producer.opcode == "constant" and not value.part:
            self._made[producer] = self._builder.append(producer)
            return self._made[producer]
        self._parts[value] = self._builder.parameter(value.shape)
        self._inputs.append(value)
        return self._parts[value]

    def _part(self, value: RegionValue) -> HloInstruction:
        """get-tuple-elements down to a part of an instruction of this module."""
        if value not in self._parts:
            outer = RegionValue(value.producer, value.part[:-1])
            whole = self._part(outer) if outer.part else self._made[value.producer]
            self._parts[value] = self._builder.op("get-tuple-element", whole, index=value.part[-1])
        return self._parts[value]
