"""Builds the program of one device: where it is on the grid, collectives, masks of padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import literal_of
from xladev.hlo.shape import array
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.expansions.emit import Emitter, Operand

CHANNEL = 1 << 21
"""Channel of the partitioner's collectives: they join partitions, each replica apart."""


class LocalBuilder(Emitter):
    """Builds one computation of the program of one device.

    Args:
        name: of the computation.
        replicas: how often the program runs beside itself.
        poison: True to fill padding with NaN and extremes, by which tests see who takes it for
            elements; else with zeros.
    """

    def __init__(self, name: str, replicas: int = 1, *, poison: bool = False) -> None:
        super().__init__(name)
        self.replicas = replicas
        self.poison = poison
        self._partition: HloInstruction | None = None
        self._places: dict[tuple[int, ...], HloInstruction] = {}

    # Where this device is

    def chosen(self, table: Sequence[int]) -> HloInstruction:
        """The entry of a table that belongs to this device, as s32; one entry per partition."""
        key = tuple(table)
        if key not in self._places:
            self._places[key] = self._chosen(key)
        return self._places[key]

    def _chosen(self, table: tuple[int, ...]) -> HloInstruction:
        if len(set(table)) == 1:
            return self.scalar(table[0], dt.S32)
        if self._partition is None:
            self._partition = self.convert(self.op("partition-id"), dt.S32)
        step = table[1] - table[0] if len(table) > 1 else 0
        if table == tuple(range(0, step * len(table), step)) if step else False:
            return self._partition if step == 1 else self.multiply(self._partition, step)
        entries = self.constant(literal_of(np.asarray(table, np.int32)))
        return self.reshape(self.dynamic_slice(entries, [self._partition], (1,)), ())

    def start(self, sharding: AxisSharding, dims: Sequence[int], dimension: int) -> HloInstruction:
        """Where this device's part of an array of ``dims`` begins along a dimension, as s32."""
        size = sharding.local_dims(dims)[dimension]
        places = sharding.grid.index(sharding.dims[dimension])
        return self.chosen([place * size for place in places])

    # Collectives

    def _groups(self, grid: Grid, atoms: Atoms, *, flattened: bool) -> ReplicaGroups:
        """Groups of devices that differ along atoms, by flattened ids or by partitions."""
        rows = grid.groups(atoms)
        if not flattened:
            return ReplicaGroups(rows)
        return ReplicaGroups(
            tuple(
                tuple(replica * grid.size + device for device in row)
                for replica in range(self.replicas)
                for row in rows
            )
        )

    def all_gather(
        self, x: HloInstruction, grid: Grid, atoms: Atoms, dimension: int
    ) -> HloInstruction:
        """The parts of the devices along atoms, one behind the other."""
        dims = list(x.shape.dims)
        dims[dimension] *= grid.count(atoms)
        return self.op(
            "all-gather", x, shape=array(x.shape.element_type, dims), dimensions=(dimension,),
            **self._joined(grid, atoms),
        )  # fmt: skip

    def all_reduce(
        self, x: HloInstruction, grid: Grid, atoms: Atoms, reducer: HloComputation
    ) -> HloInstruction:
        """The values of the devices along atoms, combined."""
        return self.op("all-reduce", x, to_apply=reducer, **self._joined(grid, atoms))

    def reduce_scatter(
        self, x: HloInstruction, grid: Grid, atoms: Atoms, dimension: int, reducer: HloComputation
    ) -> HloInstruction:
        """This device's part of what an all-reduce gives."""
        dims = list(x.shape.dims)
        dims[dimension] //= grid.count(atoms)
        return self.op(
            "reduce-scatter", x, shape=array(x.shape.element_type, dims), dimensions=(dimension,),
            to_apply=reducer, **self._joined(grid, atoms),
        )  # fmt: skip

    def _joined(self, grid: Grid, atoms: Atoms) -> dict[str, Any]:
        groups = self._groups(grid, atoms, flattened=True)
        return {
            "channel_id": CHANNEL, "use_global_device_ids": True, "replica_groups": groups,
        }  # fmt: skip

    def all_to_all(
        self, x: HloInstruction, grid: Grid, atoms: Atoms, source: int, target: int
    ) -> HloInstruction:
        """Moves a cut along atoms from dimension ``source`` to ``target``.

        If ``source`` is the outermost dimension, blocks are transposed before they are sent: each
        is then one piece of memory, and what arrives is in its place. Otherwise after.
        """
        count, dims = grid.count(atoms), list(x.shape.dims)
        dims[target] //= count
        dims.insert(target, count)
        blocks, at = self.reshape(x, dims), target
        if source == 0:
            blocks, at = self.transpose(blocks, _moved_to(0, target, len(dims))), 0
        moved = self.op(
            "all-to-all", blocks, dimensions=(at,), channel_id=CHANNEL,
            replica_groups=self._groups(grid, atoms, flattened=False),
        )  # fmt: skip
        # the blocks of the members are the outer part of dimension ``source`` now
        if at != source:
            moved = self.transpose(moved, _moved_to(source, at, len(dims)))
        result = list(x.shape.dims)
        result[target] //= count
        result[source] *= count
        return self.reshape(moved, result)

    def permute(self, x: HloInstruction, pairs: Sequence[tuple[int, int]]) -> HloInstruction:
        """What the source of each pair has, on its target; zeros on devices that are none's."""
        return self.op(
            "collective-permute", x, channel_id=CHANNEL, source_target_pairs=tuple(pairs)
        )

    # Padding

    def padded(self, x: HloInstruction, dimension: int, count: int) -> HloInstruction:
        """``x`` with ``count`` elements of padding behind one of its dimensions."""
        edges = [(0, 0, 0)] * x.shape.rank
        edges[dimension] = (0, count, 0)
        return self.pad(x, edges, _poison(x.shape.element_type) if self.poison else 0)

    def unspecified(self, element_type: dt.PrimitiveType, dims: Sequence[int]) -> HloInstruction:
        """An array all of which is padding, or is replaced where it is not."""
        return self.full(_poison(element_type) if self.poison else 0, element_type, dims)

    def is_inside(
        self, dims: Sequence[int], sharding: AxisSharding, dimension: int
    ) -> HloInstruction:
        """For each element of a part: is it no padding along a dimension.

        Args:
            dims: of the whole array.
            sharding: how it is cut.
            dimension: along which to ask.
        """
        local = sharding.local_dims(dims)
        places = self.iota(dt.S32, local, dimension)
        at = self.add(places, self.start(sharding, dims, dimension))
        return self.compare("LT", at, dims[dimension])

    def masked(
        self,
        x: HloInstruction,
        dims: Sequence[int],
        sharding: AxisSharding,
        dimensions: Sequence[int],
        value: Operand,
    ) -> HloInstruction:
        """A part with ``value`` for its padding along some dimensions.

        Args:
            x: the part.
            dims: of the whole array.
            sharding: how it is cut.
            dimensions: along which padding is replaced; those without any are skipped.
            value: of the element type of ``x``; a number or a scalar.
        """
        for d in dimensions:
            if dims[d] % sharding.counts[d]:
                x = self.select(self.is_inside(dims, sharding, d), x, value)
        return x


def identity_of(opcode: str, element_type: dt.PrimitiveType) -> complex | None:
    """What changes nothing when a reducer of this opcode combines it; None if there is none."""
    if opcode in ("add", "or", "xor"):
        return 0 if has_zero(element_type) else None
    if opcode == "multiply":
        return 1
    if opcode == "and":
        return 1 if element_type is dt.PRED else _all_ones(element_type)
    if opcode not in ("maximum", "minimum") or element_type.is_complex:
        return None
    return _extreme(element_type, lowest=opcode == "maximum")


def _moved_to(place: int, axis: int, rank: int) -> list[int]:
    """The order of dimensions that has one of them at another place."""
    order = [each for each in range(rank) if each != axis]
    order.insert(place, axis)
    return order


def has_zero(element_type: dt.PrimitiveType) -> bool:
    """Whether zero is a value of a type; f8e8m0fnu has powers of two alone."""
    return element_type is not dt.F8E8M0FNU


def _poison(element_type: dt.PrimitiveType) -> complex:
    if element_type.is_float or element_type.is_complex:
        return float("nan")
    return _extreme(element_type, lowest=False) or 0


def _all_ones(element_type: dt.PrimitiveType) -> int | None:
    if element_type.is_float:
        return None
    return -1 if element_type.is_signed else 2**element_type.bits - 1


def _extreme(element_type: dt.PrimitiveType, *, lowest: bool) -> float | None:
    if element_type is dt.PRED:
        return 0 if lowest else 1
    if element_type.is_float:
        if element_type.bits < 16:
            return None
        return float("-inf") if lowest else float("inf")
    if element_type.is_signed:
        half = 2 ** (element_type.bits - 1)
        return -half if lowest else half - 1
    return 0 if lowest else 2**element_type.bits - 1
