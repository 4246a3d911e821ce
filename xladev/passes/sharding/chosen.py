"""ChosenShardings: for each array of a program how it is to be cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Grid
from xladev.passes.sharding.asked import Annotations


@dataclass(frozen=True, slots=True)
class ChosenShardings:
    """What annotations ask for, and what propagation made of it.

    Attributes:
        annotations: of the program.
        cuts: by instruction, for each array of its value; None where it does not matter.
    """

    annotations: Annotations
    cuts: Mapping[HloInstruction, tuple[AxisSharding | None, ...]]

    @property
    def grid(self) -> Grid:
        """Of the devices."""
        return self.annotations.grid

    def of(self, i: HloInstruction) -> tuple[AxisSharding | None, ...]:
        """For each array of an instruction's value."""
        found = self.cuts.get(i)
        return (None,) * len(flattened_shapes(i.shape)) if found is None else found
