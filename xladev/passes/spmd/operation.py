"""What the code for one divided instruction is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xladev.hlo.ir import Annotations, HloInstruction
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.factors import FactorKind, FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.expansions.emit import Operand
from xladev.passes.spmd.choice import Division
from xladev.passes.spmd.held import local_shape
from xladev.passes.spmd.local_builder import LocalBuilder


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction, its division, and its operands cut as the division says.

    Attributes:
        b: takes the code.
        instruction: on whole arrays.
        rule: its factors.
        division: how it is divided.
        operands: this device's parts.
    """

    b: LocalBuilder
    instruction: HloInstruction
    rule: FactorRule
    division: Division
    operands: tuple[HloInstruction, ...]

    @property
    def grid(self) -> Grid:
        """Of the devices."""
        return self.division.operands[0].grid if self.operands else self.division.results[0].grid

    def local(
        self, operands: Sequence[HloInstruction] | None = None, **attrs: Any
    ) -> HloInstruction:
        """The same opcode on parts, with some attributes changed."""
        i = self.instruction
        return self.b.append(
            HloInstruction(
                i.op,
                local_shape(i.shape, self.division.results),
                tuple(self.operands if operands is None else operands),
                {**i.attrs, **attrs},
                i.name,
                local_note(i),
            )
        )

    def masked(self, number: int, value: Operand) -> HloInstruction:
        """An operand with ``value`` for its padding along factors that are summed over."""
        tensor, cut = self.rule.operands[number], self.division.operands[number]
        dims = self.instruction.operands[number].shape.dims
        summed = [d for d in range(len(dims)) if self.is_summed(tensor[d])]
        return self.b.masked(self.operands[number], dims, cut, summed, value)

    def is_summed(self, factors: Sequence[int]) -> bool:
        """True if one of some factors is a reduction."""
        return any(self.rule.kinds[f] is FactorKind.REDUCE for f in factors)

    def sharding(self, number: int) -> AxisSharding:
        """How an operand is cut."""
        return self.division.operands[number]


Emit = Callable[[Operation], HloInstruction]
MayCut = Callable[[HloInstruction, FactorRule, int, Atoms, Grid], bool]


def local_note(i: HloInstruction) -> Annotations:
    """What the instruction of one device says besides its meaning: nothing of shardings."""
    note = i.note
    if note.sharding is None and not note.frontend_attributes and not note.control_predecessors:
        return note
    kept = tuple(a for a in note.frontend_attributes if not a[0].startswith("xla.sdy."))
    return replace(note, sharding=None, frontend_attributes=kept, control_predecessors=())


Kinds = Mapping[str, Emit]
