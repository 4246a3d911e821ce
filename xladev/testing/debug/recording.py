"""An evaluator that keeps the operands of each instruction, of its first and last iteration."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import DEFAULT_HEADER, HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Value
from xladev.hlo.opset import opdef
from xladev.testing.verdict import Case, flat_arrays


@dataclass(frozen=True, slots=True)
class Recorded:
    """One instruction that ran.

    Attributes:
        instruction: which.
        operands: the value of each of its operands.
        device: replica and partition that it ran on.
    """

    instruction: HloInstruction
    operands: tuple[Value, ...]
    device: tuple[int, int] = (0, 0)

    def is_fed_like(self, other: Recorded) -> bool:
        """True if the other ran on the same values, bit by bit."""
        mine, others = flat_arrays(self.operands), flat_arrays(other.operands)
        return len(mine) == len(others) and all(
            _packed(a) == _packed(b) for a, b in zip(mine, others, strict=True)
        )

    def case(self) -> Case:
        """The instruction as a program of its own, whose arguments are its operands' values.

        Constants among the operands stay constants.
        """
        made: dict[HloInstruction, HloInstruction] = {}
        arguments: list[Value] = []
        for operand, value in zip(self.instruction.operands, self.operands, strict=True):
            if operand in made:
                continue
            if operand.opcode == "constant":
                made[operand] = operand
                continue
            number = {"parameter_number": len(arguments)}
            name = f"{operand.name}.given"
            made[operand] = HloInstruction(opdef("parameter"), operand.shape, (), number, name)
            arguments.append(value)
        operands = tuple(made[o] for o in self.instruction.operands)
        note = replace(self.instruction.note, control_predecessors=())
        root = replace(self.instruction, operands=operands, note=note)
        entry = HloComputation("alone", (*made.values(), root), root)
        return HloModule(root.name, entry, DEFAULT_HEADER), tuple(arguments)


def _packed(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    plain = np.asarray(array)
    return str(plain.dtype), plain.shape, plain.tobytes()


Key = tuple[tuple[int, int], HloInstruction]
"""Device, and an instruction that ran there."""


@dataclass(frozen=True, slots=True)
class RecordingEvaluator(HloEvaluator):
    """Records instructions in the order in which they are done: those of a loop before the loop.

    Attributes:
        wanted: the instructions to record.
        first: what was recorded when an instruction ran first.
        last: what was recorded when it ran last.
    """

    wanted: AbstractSet[HloInstruction] = frozenset()
    first: dict[Key, Recorded] = field(default_factory=dict[Key, Recorded])
    last: dict[Key, Recorded] = field(default_factory=dict[Key, Recorded])

    def value(self, instruction: HloInstruction, operands: tuple[Value, ...]) -> Value:
        """The value, its operands kept."""
        # zero-argument super() does not work in slotted dataclasses
        value = HloEvaluator.value(self, instruction, operands)
        if instruction in self.wanted:
            device = self.replica, self.partition
            record = Recorded(instruction, operands, device)
            self.first.setdefault((device, instruction), record)
            self.last[device, instruction] = record
        return value
