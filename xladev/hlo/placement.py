"""How an array is laid out over the partitions of a program: which part of it each of them holds.

A sharding is said in two ways: as a tile assignment (``OpSharding``), and by the axes of a mesh, as
text in the frontend attribute ``xla.sdy.sharding``. Where both are there the second is exact:
it also says which dimensions are open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xladev.hlo.attributes import Sharding
from xladev.hlo.custom_calls.manual import (
    ManualParts,
    border_parts,
    named_parts,
    named_shardings,
)
from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import HloInstruction

SDY_SHARDING = "xla.sdy.sharding"
"""The frontend attribute of a parameter, a constraint or a result."""

RESULT = "xla.sdy.FuncResultSharding"
"""The custom call that says how a result of the entry is laid out."""

CONSTRAINT = "Sharding"
"""The custom call that says how its operand is laid out."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Which part of an array each partition holds.

    Attributes:
        counts: number of parts per dimension.
        parts: for each partition, which part it holds, per dimension.
    """

    counts: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]


def placement_of(parts: ManualParts, count: int) -> Placement:
    """How parts are laid out over ``count`` partitions."""
    return Placement(parts.counts, tuple(parts.part_of(p) for p in range(count)))


def border_placements(
    meshes: Mapping[str, MeshAxes], call: HloInstruction, count: int
) -> list[Placement]:
    """How the whole arrays on the outer side of a manual region's border are cut."""
    return [placement_of(parts, count) for parts in border_parts(meshes, call)]


def is_cut(meshes: Mapping[str, MeshAxes], instruction: HloInstruction) -> bool:
    """True if its sharding lets some partition hold less than all of an instruction's value."""
    text = dict(instruction.note.frontend_attributes).get(SDY_SHARDING)
    if text is not None:
        return _is_cut_by_axes(meshes, text)
    sharding = instruction.note.sharding
    return sharding is not None and _is_cut_by_tiles(sharding)


def _is_cut_by_axes(meshes: Mapping[str, MeshAxes], text: str) -> bool:
    """A mesh without axes that has devices is one device that holds everything."""
    named = named_shardings(text)
    if not named or "unreduced=" in text:
        return True
    for value in named:
        mesh = meshes.get(value.mesh)
        if mesh is None or (not mesh.axes and mesh.device_ids):
            return True
        if any(n > 1 for n in named_parts(meshes, value, len(value.dimensions)).counts):
            return True
    return False


def _is_cut_by_tiles(sharding: Sharding) -> bool:
    if sharding.kind == "tuple":
        return any(map(_is_cut_by_tiles, sharding.parts))
    if sharding.kind == "tiled":
        data = len(sharding.tile_dims) - len(sharding.last_tile_dims)
        return prod(sharding.tile_dims[:data]) > 1 or "unreduced" in sharding.last_tile_dims
    if sharding.kind == "named":
        sizes = dict(sharding.mesh.axes) if sharding.mesh else {}
        used = [axis for axes, _ in sharding.dim_axes for axis in axes]
        return any(sizes.get(a.name, 1) > 1 for a in (*used, *sharding.unreduced_axes))
    return sharding.kind in ("maximal", "unreduced")
