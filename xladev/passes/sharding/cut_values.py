"""Whether a program needs the partitioner: outside of manual regions, is some value cut?"""

from __future__ import annotations

from collections.abc import Iterator

from xladev.hlo.custom_calls.manual import ENTER, LEAVE, manual_device_count, module_meshes
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.placement import CONSTRAINT, SDY_SHARDING, is_cut
from xladev.hlo.rebuild import users_of


def partition_count(module: HloModule, partitions: int) -> int:
    """How many partitions an execution has: as said, or as its manual regions are for."""
    return max(partitions, manual_device_count(module))


def is_sharded(module: HloModule, partitions: int) -> bool:
    """True if some value is to be cut outside of manual regions.

    Nothing is in a program of one partition, which holds everything, whatever its shardings say.

    Args:
        module: verified.
        partitions: how many an execution has.
    """
    if partitions == 1:
        return False
    return any(True for c in module.computations for _ in _cut_values(module, c))


def _cut_values(module: HloModule, computation: HloComputation) -> Iterator[HloInstruction]:
    meshes = module_meshes(module)
    for instruction in computation.instructions:
        if instruction.note.sharding is None and not instruction.note.frontend_attributes:
            continue
        is_judged = _has_sharding(instruction) and not _is_border(computation, instruction)
        if is_judged and is_cut(meshes, instruction):
            yield instruction


def _has_sharding(instruction: HloInstruction) -> bool:
    note = instruction.note
    return note.sharding is not None or SDY_SHARDING in dict(note.frontend_attributes)


def _is_border(computation: HloComputation, instruction: HloInstruction) -> bool:
    """True for what says how a manual region's border cuts: what enters, and what leaves."""
    if instruction.opcode != "custom-call":
        return False
    target = instruction["custom_call_target"]
    if target in (*ENTER, *LEAVE):
        return True
    users = users_of(computation)[instruction] if target == CONSTRAINT else ()
    return bool(users) and all(
        user.opcode == "custom-call" and user["custom_call_target"] in ENTER for user in users
    )
