"""Which devices a collective joins: replica groups, in each of their modes.

The modes are those of StableHLO (`cross_replica` and so on) and of XLA's
`GetCollectiveOpGroupMode`: without a channel, groups list replicas; with a channel and
``use_global_device_ids``, flattened ids; with a channel alone, replicas of all partitions for
opcodes that have that attribute, and partitions for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from xladev.errors import EvaluationError, ShapeError, counted
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.devices import DeviceLink, LogicalDevice, Topology, link_of
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.dimension_rules import parts_of

Groups = tuple[tuple[LogicalDevice, ...], ...]


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


def check_group_size(instruction: InstructionView, size: int) -> None:
    """Checks that the result of a collective is what a group of ``size`` devices makes.

    What a module says alone is checked by the shape rules; the size of a group that it does not
    list is known only with the devices.

    Raises:
        ShapeError: ``all_gather_c6``, ``reduce_scatter_c8``, ``all_to_all_c2`` and ``_c3``,
            ``ragged_all_to_all_c3``.
    """
    check = _FITS.get(instruction.opcode)
    why = "" if check is None else check(instruction, size)
    if why:
        raise ShapeError(
            f"{instruction.opcode} gives {instruction.shape.to_string(layout=False)}, which does "
            f"not fit a group of {counted(size, 'device')}",
            why=why,
            hint="set num_replicas and num_partitions in CompileOptions, or list replica_groups",
        )


def _gathered(instruction: InstructionView, size: int) -> str:
    return _scaled(instruction, size, "all_gather_c6: the result has, in dimension {axis}, the "
                   "elements of all members: {size} times {small}, not {large}")  # fmt: skip


def _scattered(instruction: InstructionView, size: int) -> str:
    return _scaled(instruction, size, "reduce_scatter_c8: the operand has, in dimension {axis}, a "
                   "part for each member: {size} times {small}, not {large}")  # fmt: skip


def _scaled(instruction: InstructionView, size: int, rule: str) -> str:
    """The rule, if in one dimension the larger shape is not ``size`` times the smaller one."""
    (axis,) = instruction["dimensions"]
    results = parts_of(instruction.shape)
    for operand, result in zip(instruction.operands, results, strict=True):
        pair = operand.shape.dims[axis], result.dims[axis]
        small, large = pair if instruction.opcode == "all-gather" else pair[::-1]
        if large != small * size:
            return rule.format(axis=axis, size=size, small=small, large=large)
    return ""


def _exchanged(instruction: InstructionView, size: int) -> str:
    count = len(instruction.operands)
    if not instruction["dimensions"]:
        fits = count == size
        return "" if fits else f"all_to_all_c3: {count} operands are not one for each member"
    (axis,) = instruction["dimensions"]
    extent = instruction.operands[0].shape.dims[axis]
    return f"all_to_all_c2: {extent} elements do not make {size} parts" if extent % size else ""


def _exchanged_slices(instruction: InstructionView, size: int) -> str:
    (count,) = instruction.operands[2].shape.dims
    fits = count >= size and count % size == 0
    what = f"ragged_all_to_all_c3: {count} offsets are not equally many for each member"
    return "" if fits else what


_FITS: Mapping[str, Callable[[InstructionView, int], str]] = MappingProxyType(
    {
        "all-gather": _gathered,
        "reduce-scatter": _scattered,
        "all-to-all": _exchanged,
        "ragged-all-to-all": _exchanged_slices,
    }
)
"""By opcode: the rule that a result breaks in a group of some size; empty if it keeps all."""


def group_of(evaluation: Evaluation, instruction: InstructionView) -> tuple[LogicalDevice, ...]:
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


def check_present(group: Sequence[LogicalDevice], link: DeviceLink) -> None:
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
    rows: Sequence[Sequence[int]], mode: GroupMode, topology: Topology, device: LogicalDevice
) -> Groups:
    if mode is GroupMode.FLATTENED:
        whole = rows or [range(len(topology.devices))]
        return tuple(tuple(topology.device(i) for i in row) for row in whole)
    if mode is GroupMode.CROSS_PARTITION:
        whole = rows or [range(topology.num_partitions)]
        return tuple(tuple(LogicalDevice(device.replica, p) for p in row) for row in whole)
    whole = rows or [range(topology.replica_count)]
    if mode is GroupMode.CROSS_REPLICA:
        return tuple(tuple(LogicalDevice(r, device.partition) for r in row) for row in whole)
    partitions = range(topology.num_partitions)
    return tuple(tuple(LogicalDevice(r, p) for r in row for p in partitions) for row in whole)


def pair_device(instruction: InstructionView, link: DeviceLink, number: int) -> LogicalDevice:
    """The device that an id of source-target pairs means to this device."""
    if group_mode(instruction.opcode, instruction) is GroupMode.CROSS_PARTITION:
        return LogicalDevice(link.device.replica, number)
    return LogicalDevice(number, link.device.partition)
