"""Which devices a collective joins: replica groups, in each of their modes.

The modes are those of StableHLO (`cross_replica` and so on) and of XLA's
`GetCollectiveOpGroupMode`: without a channel, groups list replicas; with a channel and
``use_global_device_ids``, flattened ids; with a channel alone, replicas of all partitions for
opcodes that have that attribute, and partitions for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from xladev.errors import EvaluationError
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.devices import Device, DeviceLink, Topology, link_of
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall

Groups = tuple[tuple[Device, ...], ...]


class GroupMode(Enum):
    """What the ids of replica groups number."""

    CROSS_REPLICA = "replicas, each partition apart"
    CROSS_PARTITION = "partitions, each replica apart"
    CROSS_BOTH = "replicas, with all their partitions"
    FLATTENED = "flattened device ids"


_HAS_GLOBAL_IDS = frozenset(
    {
        "all-gather", "all-gather-start", "all-reduce", "all-reduce-start",
        "reduce-scatter", "collective-reduce",
    }
)  # fmt: skip


def group_mode(opcode: str, source: OpCall | InstructionView) -> GroupMode:
    """The mode that channel and ``use_global_device_ids`` give."""
    channel = source["channel_id"]
    if not channel or channel < 0:
        return GroupMode.CROSS_REPLICA
    if opcode not in _HAS_GLOBAL_IDS:
        return GroupMode.CROSS_PARTITION
    return GroupMode.FLATTENED if source["use_global_device_ids"] else GroupMode.CROSS_BOTH


def check_groups(call: OpCall, *, equal: bool) -> int | None:
    """Checks replica groups; gives the number of devices per group where the call tells it.

    Raises:
        ShapeError: ``<op>_groups1`` an id twice, ``_groups2`` a negative id, ``_groups3`` groups
            of unequal size, ``_groups4`` global ids without a channel, ``_groups5`` a group
            without members.
    """
    name = call.op.name.replace("-", "_")
    groups: ReplicaGroups = call["replica_groups"]
    rows = groups.expand()
    call.require(all(rows), f"{name}_groups5", "a group has no member")
    ids = [i for row in rows for i in row]
    call.require(len(set(ids)) == len(ids), f"{name}_groups1", "a device is in two groups")
    call.require(all(i >= 0 for i in ids), f"{name}_groups2", "device ids must not be negative")
    sizes = {len(row) for row in rows}
    same = len(sizes) <= 1 or not equal
    call.require(same, f"{name}_groups3", "all groups must have the same size")
    mode = group_mode(name, call)
    if "use_global_device_ids" in call.op.by_name and call["use_global_device_ids"]:
        channel = bool(call["channel_id"])
        call.require(channel, f"{name}_groups4", "use_global_device_ids needs a channel_id")
    if not rows or not equal or mode is GroupMode.CROSS_BOTH:
        return None
    return sizes.pop()


def group_of(evaluation: Evaluation, instruction: InstructionView) -> tuple[Device, ...]:
    """The devices that this device joins, in group order; only itself if it is in no group.

    Raises:
        EvaluationError: a group names devices that the evaluation does not have.
    """
    link = link_of(evaluation)
    groups: ReplicaGroups = instruction["replica_groups"]
    mode = group_mode(instruction.opcode, instruction)
    for group in _resolved(groups.expand(), mode, link.topology, link.device):
        if link.device in group:
            check_present(group, link)
            return group
    return ()


def check_present(group: Sequence[Device], link: DeviceLink) -> None:
    """Raises an EvaluationError if the evaluation lacks a device: waiting for it would not end."""
    missing = [device for device in group if device not in link.topology.devices]
    if missing:
        raise EvaluationError(
            f"a collective names {len(group)} devices, {len(missing)} of which are not there",
            why=f"the evaluation has {link.topology.replica_count} replicas of "
            f"{link.topology.num_partitions} partitions",
            hint="evaluate_replicated() of xladev.hlo.multi_device evaluates on several devices",
        )


def _resolved(
    rows: Sequence[Sequence[int]], mode: GroupMode, topology: Topology, device: Device
) -> Groups:
    if mode is GroupMode.FLATTENED:
        whole = rows or [range(len(topology.devices))]
        return tuple(tuple(topology.device(i) for i in row) for row in whole)
    if mode is GroupMode.CROSS_PARTITION:
        whole = rows or [range(topology.num_partitions)]
        return tuple(tuple(Device(device.replica, p) for p in row) for row in whole)
    whole = rows or [range(topology.replica_count)]
    if mode is GroupMode.CROSS_REPLICA:
        return tuple(tuple(Device(r, device.partition) for r in row) for row in whole)
    partitions = range(topology.num_partitions)
    return tuple(tuple(Device(r, p) for r in row for p in partitions) for row in whole)


def pair_device(instruction: InstructionView, link: DeviceLink, number: int) -> Device:
    """The device that an id of source-target pairs means to this device."""
    if group_mode(instruction.opcode, instruction) is GroupMode.CROSS_PARTITION:
        return Device(link.device.replica, number)
    return Device(number, link.device.partition)
