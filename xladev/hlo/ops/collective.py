"""Opcodes that join several devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.devices import link_of
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import (
    VARIADIC,
    Attr,
    AttrKind,
    Cost,
    Evaluation,
    InstructionView,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops import moved
from xladev.hlo.ops.collective_rules import (
    infer_all_gather,
    infer_all_reduce,
    infer_all_to_all,
    infer_broadcast,
    infer_id,
    infer_permute,
    infer_ragged_all_to_all,
    infer_reduce_scatter,
    infer_shuffle,
)
from xladev.hlo.ops.groups import check_group_size, check_present, group_of, pair_device
from xladev.hlo.ops.reducers import reduce_axes
from xladev.hlo.shape import Shape

CHANNEL = Attr("channel_id", AttrKind.INT)
GROUPS = Attr("replica_groups", AttrKind.GROUPS, default=ReplicaGroups(), shown=True)
GLOBAL_IDS = Attr("use_global_device_ids", AttrKind.BOOL, default=False)
CONSTRAIN = Attr("constrain_layout", AttrKind.BOOL, default=False)
COLLECTIVE = (CHANNEL, GROUPS, CONSTRAIN)
DIMENSIONS = Attr("dimensions", AttrKind.INTS, required=True)
TO_APPLY = Attr("to_apply", AttrKind.COMPUTATION, required=True)
DYNAMIC_ROOT = Attr("has_dynamic_root", AttrKind.BOOL, default=False)
GATHER = (*COLLECTIVE, GLOBAL_IDS, DIMENSIONS)
REDUCE = (*COLLECTIVE, GLOBAL_IDS, TO_APPLY)
PERMUTE = (
    CHANNEL,
    Attr("source_target_pairs", AttrKind.PAIRS, required=True),
    Attr("slice_sizes", AttrKind.INT_LISTS, default=(), proto="dynamic_slice_sizes"),
)

Operands = tuple[Value, ...]


def exchange(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> tuple[int, tuple[Operands, ...]]:
    """This device's place in its group, and the operands of all members.

    A device that is in no group is alone in one.

    Raises:
        ShapeError: the result does not fit the group (`check_group_size`).
    """
    link = link_of(evaluation)
    group = group_of(evaluation, instruction) or (link.device,)
    check_group_size(instruction, len(group))
    return group.index(link.device), link.exchange(instruction, group, operands)


def _one_or_all(instruction: InstructionView, results: Sequence[Value]) -> Value:
    return tuple(results) if instruction.shape.is_tuple else results[0]


def evaluate_all_gather(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """The operands of all members, concatenated in group order."""
    _, members = exchange(evaluation, instruction, operands)
    (axis,) = instruction["dimensions"]
    return _one_or_all(
        instruction, [np.concatenate(parts, axis) for parts in zip(*members, strict=True)]
    )


def _reduced(
    evaluation: Evaluation, reducer: HloComputation, members: Sequence[Operands]
) -> list[Array]:
    """Each operand combined over the members, in group order."""
    results: list[Array] = []
    for first, *rest in zip(*members, strict=True):
        others = np.stack(rest) if rest else first[None][:0]
        results.append(reduce_axes(evaluation, reducer, [others], [first], (0,))[0])
    return results


def evaluate_all_reduce(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """The operands of all members, combined by the reducer."""
    _, members = exchange(evaluation, instruction, operands)
    return _one_or_all(instruction, _reduced(evaluation, instruction["to_apply"], members))


def evaluate_reduce_scatter(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """This member's part of what an all-reduce gives."""
    index, members = exchange(evaluation, instruction, operands)
    (axis,) = instruction["dimensions"]
    whole = _reduced(evaluation, instruction["to_apply"], members)
    return _one_or_all(instruction, [np.split(w, len(members), axis)[index].copy() for w in whole])


def evaluate_all_to_all(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """Part i of member j goes to part j of member i."""
    index, members = exchange(evaluation, instruction, operands)
    if not instruction["dimensions"]:
        return _one_or_all(instruction, [member[index] for member in members])
    (axis,) = instruction["dimensions"]
    parts = [np.split(member[0], len(members), axis)[index] for member in members]
    return np.concatenate(parts, axis)


def evaluate_ragged_all_to_all(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """Slices of run-time size, written over the second operand.

    Member i sends ``input[input_offsets[j] :][: send_sizes[j]]`` to member j, which writes it at
    ``output_offsets[j]`` (of member i). With k entries per member, entries j*k to j*k+k-1 are for
    member j.
    """
    index, members = exchange(evaluation, instruction, operands)
    result = np.array(operands[1])
    for data, _, starts, sizes, targets, _ in members:
        each = len(starts) // len(members)
        for at in range(index * each, (index + 1) * each):
            start, size, target = int(starts[at]), int(sizes[at]), int(targets[at])
            result[target : target + size] = data[start : start + size]
    return result


def evaluate_broadcast(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """The operand of the group's first member (or of the given root); zeros outside of groups."""
    link = link_of(evaluation)
    group = group_of(evaluation, instruction)
    data = operands[:-1] if instruction["has_dynamic_root"] else operands
    if not group:
        return _one_or_all(instruction, [np.zeros_like(value) for value in data])
    members = link.exchange(instruction, group, data)
    roots = _roots(instruction, operands, len(data))
    return _one_or_all(instruction, [members[root][at] for at, root in enumerate(roots)])


def _roots(instruction: InstructionView, operands: Operands, count: int) -> list[int]:
    """Place in the group of the root of each data operand."""
    if not instruction["has_dynamic_root"]:
        return [0] * count
    return [int(root) for root in np.broadcast_to(operands[-1].reshape(-1), (count,))]


def evaluate_collective_reduce(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """The combined operands at the root; the other members keep their own operand."""
    data = operands[:-1] if instruction["has_dynamic_root"] else operands
    index, members = exchange(evaluation, instruction, data)
    whole = _reduced(evaluation, instruction["to_apply"], members)
    roots = _roots(instruction, operands, len(data))
    return _one_or_all(
        instruction,
        [w if index == root else own for w, own, root in zip(whole, data, roots, strict=True)],
    )


def evaluate_permute(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Value:
    """The operand of the source whose target this device is; zeros if it is none's."""
    received = _received(evaluation, instruction, operands)
    if instruction["slice_sizes"]:
        return _placed(instruction, operands, received)
    if received is None:
        received = tuple(np.zeros_like(value) for value in operands)
    return _one_or_all(instruction, received)


def _received(
    evaluation: Evaluation, instruction: InstructionView, operands: Operands
) -> Operands | None:
    """Operands of the source of this device; None if it has no source."""
    link = link_of(evaluation)
    pairs = [
        (pair_device(instruction, link, source), pair_device(instruction, link, target))
        for source, target in instruction["source_target_pairs"]
    ]
    involved = sorted({device for pair in pairs for device in pair})
    if link.device not in involved:
        return None
    check_present(involved, link)
    members = link.exchange(instruction, involved, operands)
    sources = [source for source, target in pairs if target == link.device]
    return members[involved.index(sources[0])] if sources else None


def _placed(instruction: InstructionView, operands: Operands, received: Operands | None) -> Value:
    """The output with the source's slices written over it."""
    result = np.array(operands[1])
    if received is None:
        return result
    sizes: Sequence[Sequence[int]] = instruction["slice_sizes"]
    sources, targets = (_starts(v, len(sizes)) for v in (received[2], operands[3]))
    for size, source, target in zip(sizes, sources, targets, strict=True):
        result[_window(target, size)] = received[0][_window(source, size)]
    return result


def _starts(value: Value, count: int) -> list[list[int]]:
    """Start indices per slice: a tuple of scalars, or a tuple of such tuples."""
    nested = value if count > 1 or isinstance(value[0], tuple) else (value,)
    return [[int(index) for index in start] for start in nested]


def _window(start: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))


def evaluate_shuffle(_: Evaluation, instruction: InstructionView, operands: Operands) -> Value:
    """Rotates: element i along a dimension is the operand's element i + shift, modulo its size."""
    shifts = [-shift for shift in instruction["shifts"]]
    return np.roll(operands[0], shifts, tuple(instruction["dimensions"]))


def evaluate_replica_id(evaluation: Evaluation, _: InstructionView, __: Operands) -> Value:
    """Index of this replica."""
    return np.array(evaluation.replica, np.uint32)


def evaluate_partition_id(evaluation: Evaluation, _: InstructionView, __: Operands) -> Value:
    """Index of this partition."""
    return np.array(evaluation.partition, np.uint32)


def collective_cost(result: Shape, operands: tuple[Shape, ...], _: InstructionView) -> Cost:
    """Bytes only: what a link costs is the backend's to say."""
    return Cost(bytes_accessed=result.nbytes + sum(shape.nbytes for shape in operands))


OPS: tuple[OpDef, ...] = (
    OpDef(
        "all-gather",
        (1, VARIADIC),
        "Concatenates over the group.",
        attrs=GATHER,
        infer=infer_all_gather,
        evaluate=evaluate_all_gather,
        category="collective",
        cost=collective_cost,
    ),
    OpDef(
        "all-reduce",
        (0, VARIADIC),
        "Reduces over the group.",
        attrs=REDUCE,
        infer=infer_all_reduce,
        evaluate=evaluate_all_reduce,
        category="collective",
        tolerance=Tolerance.SUM,
        cost=collective_cost,
    ),
    OpDef(
        "reduce-scatter",
        (1, VARIADIC),
        "Reduces over the group and keeps one part.",
        attrs=(*COLLECTIVE, GLOBAL_IDS, DIMENSIONS, TO_APPLY),
        infer=infer_reduce_scatter,
        evaluate=evaluate_reduce_scatter,
        category="collective",
        tolerance=Tolerance.SUM,
        cost=collective_cost,
    ),
    OpDef(
        "all-to-all",
        (1, VARIADIC),
        "Exchanges parts within the group.",
        attrs=(*COLLECTIVE, Attr("dimensions", AttrKind.INTS, default=())),
        infer=infer_all_to_all,
        evaluate=evaluate_all_to_all,
        category="collective",
        cost=collective_cost,
    ),
    OpDef(
        "ragged-all-to-all",
        6,
        "Exchanges parts of run-time size within the group.",
        attrs=COLLECTIVE,
        infer=infer_ragged_all_to_all,
        evaluate=evaluate_ragged_all_to_all,
        category="collective",
        cost=collective_cost,
    ),
    OpDef(
        "collective-broadcast",
        (1, VARIADIC),
        "Copies from one member to the group.",
        attrs=(*COLLECTIVE, DYNAMIC_ROOT),
        infer=infer_broadcast,
        evaluate=evaluate_broadcast,
        category="collective",
        cost=collective_cost,
    ),
    OpDef(
        "collective-reduce",
        (1, VARIADIC),
        "Reduces over the group to its root.",
        attrs=(*REDUCE, DYNAMIC_ROOT),
        infer=infer_all_reduce,
        evaluate=evaluate_collective_reduce,
        category="collective",
        tolerance=Tolerance.SUM,
        differences=(
            "Members other than the root keep their operand; XLA leaves their result unspecified.",
        ),
        cost=collective_cost,
    ),
    OpDef(
        "collective-permute",
        (1, VARIADIC),
        "Moves values between pairs of devices.",
        attrs=PERMUTE,
        infer=infer_permute,
        evaluate=evaluate_permute,
        category="collective",
        cost=collective_cost,
    ),
    OpDef(
        "shuffle",
        1,
        "Rotates elements along dimensions.",
        attrs=(
            DIMENSIONS,
            Attr("mode", AttrKind.WORD, proto="shuffle_mode"),  # rotate; XLA's text demands it
            Attr("shifts", AttrKind.INTS, default=(), proto="shuffle_mode.rotate.shifts"),
        ),
        infer=infer_shuffle,
        evaluate=evaluate_shuffle,
        category="collective",
        cost=collective_cost,
    ),
    OpDef(
        "replica-id",
        0,
        "Index of this replica.",
        infer=infer_id,
        evaluate=evaluate_replica_id,
        category="collective",
        moved=moved.nothing,
    ),
    OpDef(
        "partition-id",
        0,
        "Index of this partition.",
        infer=infer_id,
        evaluate=evaluate_partition_id,
        category="collective",
        moved=moved.nothing,
    ),
)
