"""ChosenShardings: for each array of a program how it is to be cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Grid


@dataclass(frozen=True, slots=True)
class ChosenShardings:
    """What annotations ask for, and what propagation made of it.

    Attributes:
        grid: of the devices.
        meshes: of the module.
        cuts: by instruction, for each array of its value; None where it does not matter.
    """

    grid: Grid
    meshes: Mapping[str, MeshAxes]
    cuts: Mapping[HloInstruction, tuple[AxisSharding | None, ...]]

    def of(self, i: HloInstruction) -> tuple[AxisSharding | None, ...]:
        """For each array of an instruction's value."""
        found = self.cuts.get(i)
        return (None,) * len(flattened_shapes(i.shape)) if found is None else found
