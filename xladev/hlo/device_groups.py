"""Which devices a collective joins, as numbers replica * partitions + partition.

The mode follows from `channel_id` and `use_global_device_ids`, as in StableHLO's sections on
all_reduce (cross_replica, cross_replica_and_partition, flattened_ids) and on collective_permute,
all_to_all and collective_broadcast (cross_replica, cross_partition).
"""

from __future__ import annotations

from xladev.errors import EvaluationError
from xladev.hlo.ir import HloInstruction

Groups = tuple[tuple[int, ...], ...]

_WITH_GLOBAL_IDS = frozenset({"all-gather", "all-reduce", "collective-reduce", "reduce-scatter"})


def device_groups(instruction: HloInstruction, replicas: int, partitions: int) -> Groups:
    """The groups of devices that exchange values; ranks are positions within a group.

    Args:
        instruction: a collective, or the start of an asynchronous one.
        replicas: replicas of the execution.
        partitions: partitions of each replica.

    Raises:
        EvaluationError: a group names a device that the execution does not have.
    """
    opcode = instruction.opcode.removesuffix("-start")
    has_channel = (instruction["channel_id"] or 0) > 0
    listed = () if opcode == "collective-permute" else instruction["replica_groups"].expand()
    if opcode in _WITH_GLOBAL_IDS and instruction["use_global_device_ids"]:
        groups = listed or (tuple(range(replicas * partitions)),)
    elif opcode in _WITH_GLOBAL_IDS and has_channel:
        groups = _across_both(listed or (tuple(range(replicas)),), partitions)
    elif has_channel:
        groups = _across_partitions(listed or (tuple(range(partitions)),), replicas, partitions)
    else:
        groups = _across_replicas(listed or (tuple(range(replicas)),), partitions)
    _check(instruction, groups, replicas, partitions)
    return groups


def _across_both(rows: Groups, partitions: int) -> Groups:
    return tuple(tuple(r * partitions + p for r in row for p in range(partitions)) for row in rows)


def _across_partitions(rows: Groups, replicas: int, partitions: int) -> Groups:
    return tuple(tuple(r * partitions + p for p in row) for r in range(replicas) for row in rows)


def _across_replicas(rows: Groups, partitions: int) -> Groups:
    return tuple(tuple(r * partitions + p for r in row) for p in range(partitions) for row in rows)


def _check(instruction: HloInstruction, groups: Groups, replicas: int, partitions: int) -> None:
    members = [device for group in groups for device in group]
    count = replicas * partitions
    if len(set(members)) == len(members) and all(0 <= m < count for m in members):
        return
    raise EvaluationError(
        f"{instruction.opcode} names devices {sorted(members)}",
        where=repr(instruction),
        why=f"the execution has {replicas} replicas of {partitions} partitions",
        hint="set num_replicas and num_partitions in CompileOptions",
    )
