"""Borders of manual regions: how whole arrays are cut on their outer side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xladev.hlo.custom_calls.manual import ENTER
from xladev.hlo.ir import HloInstruction
from xladev.hlo.placement import border_placements
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Atoms
from xladev.hlo.sharding.sdy import read_shardings
from xladev.hlo.sharding.tiles import expressed
from xladev.passes.sharding.asked import Annotations, Asked, closed

_IN, _OUT = "xla.sdy.in_shardings", "xla.sdy.out_shardings"


@dataclass(frozen=True, slots=True)
class Side:
    """One array at a border.

    Attributes:
        asked: the sharding of the whole array: manual atoms, then others.
        manual: for each dimension the manual atoms that cut it; and those along which it is a sum.
    """

    asked: Asked
    manual: AxisSharding

    def outer(self, inner: AxisSharding) -> AxisSharding:
        """How the whole array is cut if within the region it is cut as ``inner``."""
        pairs = zip(self.manual.dims, inner.dims, strict=True)
        return replace(self.manual, dims=tuple(m + f for m, f in pairs))

    def free(self, dims: tuple[Atoms, ...]) -> tuple[Atoms, ...]:
        """The cuts of the whole array without those of manual atoms."""
        return tuple(d[len(m) :] for d, m in zip(dims, self.manual.dims, strict=True))


def sides(annotations: Annotations, i: HloInstruction) -> list[Side]:
    """The arrays at a border, operands or results of the custom call that it is.

    What the text says about axes that are not manual is a wish; where it cannot be had, it is left
    out.
    """
    grid = annotations.grid
    placements = border_placements(annotations.meshes, i, grid.size)
    borders = [expressed([grid], placement) for placement in placements]
    attributes: Mapping[str, str] = dict(i.note.frontend_attributes)
    name = _IN if i["custom_call_target"] in ENTER else _OUT
    if name not in attributes:
        return [Side(closed(border), border) for border in borders]
    pairs = zip(read_shardings(attributes[name]), borders, strict=True)
    return [_side(annotations.by_axes(named), border) for named, border in pairs]


def _side(asked: Asked, border: AxisSharding) -> Side:
    sharding = asked.sharding
    if asked.fault or sharding.grid != border.grid:
        return Side(closed(border), border)
    pairs = zip(sharding.dims, border.dims, strict=True)
    if any(dims[: len(manual)] != manual for dims, manual in pairs):
        return Side(closed(border), border)
    return Side(asked, replace(border, unreduced=sharding.unreduced))
