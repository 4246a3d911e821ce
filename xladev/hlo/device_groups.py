"""Which devices a collective joins, as numbers replica * partitions + partition; whether it fits.

The view of a compiler that knows how many devices there will be; `hlo/ops/groups.py` has the view
of one device of an evaluation, and says what the modes are.
"""

from __future__ import annotations

from collections import Counter

from xladev.errors import EvaluationError, ShapeError, counted
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.groups import GroupMode, check_group_size, group_mode

Groups = tuple[tuple[int, ...], ...]


def device_groups(instruction: HloInstruction, replicas: int, partitions: int) -> Groups:
    """The groups of devices that exchange values; ranks are positions within a group.

    Args:
        instruction: a collective.
        replicas: replicas of the execution.
        partitions: partitions of each replica.

    Raises:
        EvaluationError: a group, or a pair of source and target, names a device that the execution
            does not have, or one twice.
    """
    mode = group_mode(instruction.opcode, instruction)
    listed: Groups = ()
    if "replica_groups" in instruction.op.by_name:
        listed = instruction["replica_groups"].expand()
    groups = _resolved(listed, mode, replicas, partitions)
    _check(instruction, groups, replicas, partitions)
    return groups


def check_collective(instruction: HloInstruction, replicas: int, partitions: int) -> None:
    """Checks a collective against the devices of an execution, before it is run on them.

    Raises:
        EvaluationError: see `device_groups`.
        ShapeError: the result does not fit a group; a device in no group is alone in one.
    """
    groups = device_groups(instruction, replicas, partitions)
    alone = replicas * partitions - sum(map(len, groups))
    for size in dict.fromkeys((*map(len, groups), *([1] if alone else []))):
        try:
            check_group_size(instruction, size)
        except ShapeError as error:
            rest = f", {alone} of them in no group, each alone" if alone else ""
            raise error.at(f"{instruction!r} on {_spelled(replicas, partitions)}{rest}") from None


def _resolved(listed: Groups, mode: GroupMode, replicas: int, partitions: int) -> Groups:
    if mode is GroupMode.FLATTENED:
        return listed or (tuple(range(replicas * partitions)),)
    if mode is GroupMode.CROSS_PARTITION:
        rows = listed or (tuple(range(partitions)),)
        return tuple(
            tuple(r * partitions + p for p in row) for r in range(replicas) for row in rows
        )
    rows = listed or (tuple(range(replicas)),)
    if mode is GroupMode.CROSS_REPLICA:
        return tuple(
            tuple(r * partitions + p for r in row) for p in range(partitions) for row in rows
        )
    return tuple(tuple(r * partitions + p for r in row for p in range(partitions)) for row in rows)


def _check(instruction: HloInstruction, groups: Groups, replicas: int, partitions: int) -> None:
    uses = Counter(device for group in groups for device in group)
    present = range(replicas * partitions)
    wrong = [device for device, count in uses.items() if count > 1 or device not in present]
    wrong = sorted(wrong) or _absent_ends(instruction, groups)
    if not wrong:
        return
    some = ", ".join(map(str, wrong[:8])) + (", ..." if len(wrong) > 8 else "")
    raise EvaluationError(
        f"{instruction.opcode} names devices that are not there, or twice: {some}",
        where=repr(instruction),
        why=f"the execution has {_spelled(replicas, partitions)}",
        hint="set num_replicas and num_partitions in CompileOptions (`--option num_partitions=2`)",
    )


def _absent_ends(instruction: HloInstruction, groups: Groups) -> list[int]:
    """Sources and targets that are no place in a group."""
    if instruction.opcode != "collective-permute":
        return []
    ends = {int(end) for pair in instruction["source_target_pairs"] for end in pair}
    return sorted(end for end in ends if any(end >= len(group) for group in groups))


def _spelled(replicas: int, partitions: int) -> str:
    return f"{counted(replicas, 'replica')} of {counted(partitions, 'partition')}"
