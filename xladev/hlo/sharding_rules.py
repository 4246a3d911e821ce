"""What a sharding must be like to fit the value that it describes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xladev.hlo.attributes import IotaTile, Sharding
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, flattened_shapes

Fault = tuple[str, str]
"""What is wrong, and the constraint that says so."""


def sharding_faults(instruction: HloInstruction) -> Iterator[Fault]:
    """Yields what is wrong with an instruction's sharding.

    Constraints: ``sharding_c1`` a tuple's sharding has one part per array, ``_c2`` a tiled one has
    one tile dimension per dimension of the array, ``_c3`` each device has one tile, ``_c4`` a named
    one has axes for each dimension, ``_c5`` no axis is used twice.
    """
    sharding = instruction.note.sharding
    if sharding is None:
        return
    if sharding.kind != "tuple":
        if not instruction.shape.is_tuple:
            yield from _array_faults(sharding, instruction.shape)
        return
    shapes = flattened_shapes(instruction.shape)
    if _is_effect(instruction) and len(shapes) != len(sharding.parts):
        return
    if len(shapes) != len(sharding.parts) and not (not shapes and len(sharding.parts) == 1):
        yield (
            f"a tuple sharding of {len(sharding.parts)} parts for {len(shapes)} arrays",
            "constraint sharding_c1: one part per array",
        )
        return
    for part, shape in zip(sharding.parts, shapes, strict=False):
        yield from _array_faults(part, shape)


def _is_effect(instruction: HloInstruction) -> bool:
    """Transfers are sharded as what they send, which their result does not show."""
    return instruction.op.side_effect


def _array_faults(sharding: Sharding, shape: Shape) -> Iterator[Fault]:
    if not shape.is_array:
        return
    if sharding.kind == "tiled":
        yield from _tile_faults(sharding, shape)
    elif sharding.kind == "named":
        yield from _axis_faults(sharding, shape)


def _tile_faults(sharding: Sharding, shape: Shape) -> Iterator[Fault]:
    data = len(sharding.tile_dims) - len(sharding.last_tile_dims)
    if data != shape.rank:
        yield (
            f"{data} tile dimensions for an array of rank {shape.rank}",
            "constraint sharding_c2: one tile dimension per dimension",
        )
    devices = sharding.devices
    count = prod(devices.dims) if isinstance(devices, IotaTile) else len(devices)
    distinct = count if isinstance(devices, IotaTile) else len(set(devices))
    if not count == distinct == prod(sharding.tile_dims):
        yield (
            f"{distinct} devices for {prod(sharding.tile_dims)} tiles",
            "constraint sharding_c3: each tile is on one device, and each device has one",
        )


def _axis_faults(sharding: Sharding, shape: Shape) -> Iterator[Fault]:
    if len(sharding.dim_axes) != shape.rank:
        yield (
            f"axes for {len(sharding.dim_axes)} dimensions of an array of rank {shape.rank}",
            "constraint sharding_c4: axes, maybe none, for each dimension",
        )
    used = [axis for axes, _ in sharding.dim_axes for axis in axes]
    used += [*sharding.replicated_axes, *sharding.unreduced_axes, *sharding.manual_axes]
    if len(set(used)) != len(used):
        yield "an axis is used twice", "constraint sharding_c5: each axis is used once"
