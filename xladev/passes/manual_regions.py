"""Manual regions: their borders become slices by partition number, and all-gathers.

Outside of a manual region every device holds the same whole arrays, inside its own parts. What the
custom calls at the borders mean is defined in `hlo/custom_calls/manual.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xladev.errors import PassError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups, SliceDim
from xladev.hlo.builder import make_instruction
from xladev.hlo.custom_calls.manual import (
    ENTER,
    LEAVE,
    ManualParts,
    border_groups,
    border_parts,
    has_manual_region,
    manual_device_count,
    module_meshes,
)
from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import literal_of
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.hlo.shape import Shape, array
from xladev.passes.pass_ import HloModulePass

_FIRST_CHANNEL = 1 << 20


@dataclass(frozen=True, slots=True)
class ManualRegionExpander(HloModulePass):
    """Expands the custom calls that enter and leave manual regions.

    The module then says how many partitions it is for: those of its mesh.
    """

    name = "manual-region-expander"
    only_for = frozenset({"custom-call"})

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            PassError: the module is for another number of partitions than its mesh has.
        """
        if not has_manual_region(module):
            return module
        count = manual_device_count(module)
        if module.header.num_partitions not in (1, count):
            raise PassError(
                f"module {module.name} is for {module.header.num_partitions} partitions",
                why=f"its manual regions are for {count}",
            )
        border = _Border(module_meshes(module), count)
        changed = with_unique_names(map_computations(module, border.expand_all))
        return replace(changed, header=replace(changed.header, num_partitions=count))


@dataclass(frozen=True, slots=True)
class _Border:
    meshes: Mapping[str, MeshAxes]
    count: int

    def expand_all(self, computation: HloComputation) -> HloComputation:
        """The computation without borders."""
        replacements = {
            i: self._expanded(i)
            for i in computation.instructions
            if i.opcode == "custom-call" and i["custom_call_target"] in (*ENTER, *LEAVE)
        }
        return rebuild(computation, replacements)

    def _expanded(self, call: HloInstruction) -> HloInstruction:
        enters = call["custom_call_target"] in ENTER
        shapes = call.shape.tuple_shapes if call.shape.is_tuple else (call.shape,)
        made = [
            self._enter(call, operand, shape, parts)
            if enters
            else self._leave(call, operand, shape, parts)
            for operand, shape, parts in zip(
                call.operands, shapes, border_parts(self.meshes, call), strict=True
            )
        ]
        return _op(call, "tuple", *made) if call.shape.is_tuple else made[0]

    def _enter(
        self, call: HloInstruction, whole: HloInstruction, shape: Shape, parts: ManualParts
    ) -> HloInstruction:
        """The slice that starts where a table says for this partition."""
        if all(count == 1 for count in parts.counts):
            return whole
        starts = [
            [at * size for at, size in zip(parts.part_of(p), shape.dims, strict=True)]
            for p in range(self.count)
        ]
        partition = _op(call, "convert", _op(call, "partition-id"), shape=array(dt.S32))
        first = []
        for column in zip(*starts, strict=True):
            table = _op(call, "constant", literal=literal_of(np.asarray(column, np.int32)))
            entry = _op(
                call, "dynamic-slice", table, partition,
                dynamic_slice_sizes=(1,), shape=array(dt.S32, (1,)),
            )  # fmt: skip
            first.append(_op(call, "reshape", entry, shape=array(dt.S32)))
        return _op(call, "dynamic-slice", whole, *first,
                   dynamic_slice_sizes=shape.dims, shape=shape)  # fmt: skip

    def _leave(
        self, call: HloInstruction, part: HloInstruction, shape: Shape, parts: ManualParts
    ) -> HloInstruction:
        """The parts of all devices of a group, gathered and put in their places."""
        dims = part.shape.dims
        groups = border_groups(self.meshes, call, self.count)
        size = len(groups[0])
        if size == 1:
            return part
        holders = _holders(parts, groups[0])
        stacked = _op(call, "reshape", part, shape=_array(shape, (1, *dims)))
        gathered = _op(
            call, "all-gather", stacked,
            channel_id=_FIRST_CHANNEL, use_global_device_ids=True, dimensions=(0,),
            replica_groups=ReplicaGroups(groups),
            shape=_array(shape, (size, *dims)),
        )  # fmt: skip
        tiles = _chosen(call, gathered, holders)
        counted = _op(call, "reshape", tiles, shape=_array(shape, (*parts.counts, *dims)))
        rank = len(dims)
        order = tuple(axis for d in range(rank) for axis in (d, rank + d))
        turned = tuple((*parts.counts, *dims)[axis] for axis in order)
        woven = _op(call, "transpose", counted, dimensions=order, shape=_array(shape, turned))
        return _op(call, "reshape", woven, shape=_array(shape, shape.dims))


def _holders(parts: ManualParts, group: Sequence[int]) -> list[int]:
    """For each part, in row-major order, the place in the group of the first that holds it."""
    held: dict[tuple[int, ...], int] = {}
    for place in reversed(range(len(group))):
        held[parts.part_of(group[place])] = place
    return [held[at] for at in np.ndindex(*parts.counts)]


def _chosen(call: HloInstruction, gathered: HloInstruction, rows: Sequence[int]) -> HloInstruction:
    """These rows of the outermost dimension, in this order."""
    dims = gathered.shape.dims
    if list(rows) == list(range(dims[0])):
        return gathered
    rest = tuple(SliceDim(0, size) for size in dims[1:])
    one = _array(gathered.shape, (1, *dims[1:]))
    pieces = [
        _op(call, "slice", gathered, slice=(SliceDim(row, row + 1), *rest), shape=one)
        for row in rows
    ]
    if len(pieces) == 1:
        return pieces[0]
    whole = _array(gathered.shape, (len(rows), *dims[1:]))
    return _op(call, "concatenate", *pieces, dimensions=(0,), shape=whole)


def _array(like: Shape, dims: tuple[int, ...]) -> Shape:
    return array(like.element_type, dims)


def _op(
    call: HloInstruction,
    opcode: str,
    *operands: HloInstruction,
    shape: Shape | None = None,
    **attrs: object,
) -> HloInstruction:
    note = replace(call.note, sharding=None, frontend_attributes=(), control_predecessors=())
    return make_instruction(
        opcode, operands, attrs, shape=shape, name=f"{call.name}.{opcode}.1", note=note
    )
