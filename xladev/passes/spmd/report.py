"""What a partition did: where each value lies, which values were moved, how, and for whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Atoms
from xladev.passes.spmd.held import Cuts, Held
from xladev.passes.spmd.reshard import plan


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """Where a value lies.

    Attributes:
        name, opcode: of the instruction that gives it.
        shapes: of its arrays, whole.
        shardings: of its arrays, as Shardy spells dimensions.
    """

    name: str
    opcode: str
    shapes: tuple[str, ...]
    shardings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A value that is sent between devices, or cut.

    Attributes:
        name: of the part before it moved.
        shape: of the whole array.
        source, target: how it is cut before and after.
        steps: what is done, in order.
        nbytes: that each device receives.
        why: who needs it so.
    """

    name: str
    shape: str
    source: str
    target: str
    steps: tuple[str, ...]
    nbytes: int
    why: str


@dataclass(slots=True)
class PartitionReport:
    """Filled while a program is partitioned.

    Attributes:
        values: in program order.
        moves: in program order.
    """

    values: list[PlacedValue] = field(default_factory=list[PlacedValue])
    moves: list[Move] = field(default_factory=list[Move])

    def placed(self, i: HloInstruction, cuts: Cuts) -> None:
        """Notes how the arrays of an instruction's value are cut."""
        pairs = zip(flattened_shapes(i.shape), cuts, strict=False)
        told = [(s.to_string(layout=False), c.text) for s, c in pairs if c is not None]
        shapes, texts = zip(*told, strict=True) if told else ((), ())
        self.values.append(PlacedValue(i.name, i.opcode, shapes, texts))

    def moved(self, held: Held, target: AxisSharding, user: HloInstruction | None) -> None:
        """Notes a reshard."""
        why = "it is a result" if user is None else f"{user.opcode} {user.name} needs it so"
        self._add(held, held.sharding, target, why)

    def summed(self, held: Held, partial: Atoms, target: AxisSharding, i: HloInstruction) -> None:
        """Notes the sum of what devices computed in parts."""
        if held.sharding is not None:
            source = replace(held.sharding, unreduced=partial)
            self._add(held, source, target, f"each device has a part of the sum of {i.opcode}")

    def _add(self, held: Held, source: AxisSharding | None, target: AxisSharding, why: str) -> None:
        if source is None:
            return
        steps = plan(held.shape.dims, source, target)
        self.moves.append(
            Move(
                held.value.name,
                held.shape.to_string(layout=False),
                source.text,
                target.text,
                tuple(step.kind for step in steps),
                sum(step.moved(held.shape) for step in steps),
                why,
            )
        )
