"""Calls that act on the outside world: of all devices that hold the same, one makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.custom_calls.manual import ENTER, LEAVE, has_manual_region
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.hlo.shape import Shape
from xladev.passes.spmd.local_builder import CHANNEL, LocalBuilder
from xladev.passes.spmd.operation import local_note

_MANUAL = ("xladev.manual", "true")


def with_marks(module: HloModule) -> HloModule:
    """The module with a mark on calls that act within manual regions, before these are inlined."""
    if not has_manual_region(module):
        return module
    manual = {c.name for c in _manual_computations(module)}

    def change(computation: HloComputation) -> HloComputation:
        if computation.name not in manual:
            return computation
        acting = [i for i in computation.instructions if _acts(i)]
        return rebuild(computation, {i: _marked(i) for i in acting})

    return map_computations(module, change)


def _manual_computations(module: HloModule) -> set[HloComputation]:
    """What is called with values that entered a manual region, or gives one that leaves."""
    found: set[HloComputation] = set()
    for computation in module.computations:
        bodies = [
            i["to_apply"]
            for i in computation.instructions
            if i.opcode == "call" and any(map(_is_entered, i.operands))
        ]
        bodies += [
            o["to_apply"]
            for i in computation.instructions
            if _is_call(i, LEAVE)
            for o in map(_whole, i.operands)
            if o.opcode == "call"
        ]
        for body in bodies:
            found.update(_called(body))
    return found


def _called(computation: HloComputation) -> Iterator[HloComputation]:
    yield computation
    for i in computation.instructions:
        for each in i.called:
            yield from _called(each)


def _is_entered(i: HloInstruction) -> bool:
    return _is_call(_whole(i), ENTER)


def _whole(i: HloInstruction) -> HloInstruction:
    while i.opcode == "get-tuple-element":
        i = i.operands[0]
    return i


def _is_call(i: HloInstruction, targets: tuple[str, ...]) -> bool:
    return i.opcode == "custom-call" and i["custom_call_target"] in targets


def _acts(i: HloInstruction) -> bool:
    return i.opcode == "custom-call" and bool(i["custom_call_has_side_effect"])


def _marked(i: HloInstruction) -> HloInstruction:
    attributes = tuple(sorted({*i.note.frontend_attributes, _MANUAL}))
    return replace(i, note=replace(i.note, frontend_attributes=attributes))


def is_made_once(i: HloInstruction) -> bool:
    """True for a call that acts, outside of manual regions."""
    return _acts(i) and _MANUAL not in i.note.frontend_attributes


def made_once(
    b: LocalBuilder, i: HloInstruction, operands: list[HloInstruction], count: int
) -> HloInstruction:
    """The value of a call that the first partition makes; the others are given it.

    Args:
        b: takes the code.
        i: the call.
        operands: whole, and the same on all devices.
        count: number of partitions.
    """
    chosen = b.chosen([int(device == 0) for device in range(count)])
    is_first = b.op("convert", chosen, shape=chosen.shape.with_element_type(dt.PRED))
    argument = b.op("tuple", *operands)
    made = b.op(
        "conditional", is_first, argument, argument, shape=i.shape,
        true_computation=_calling(i, argument.shape),
        false_computation=_nothing(i, argument.shape),
    )  # fmt: skip
    return _given_to_all(b, made, count)


def _calling(i: HloInstruction, argument: Shape) -> HloComputation:
    b = LocalBuilder(f"{i.name}.made")
    parts = b.parts(b.parameter(argument))
    note = replace(local_note(i), control_predecessors=())
    return b.build(b.append(HloInstruction(i.op, i.shape, tuple(parts), i.attrs, i.name, note)))


def _nothing(i: HloInstruction, argument: Shape) -> HloComputation:
    b = LocalBuilder(f"{i.name}.left")
    b.parameter(argument)

    def empty(shape: Shape) -> HloInstruction:
        if shape.is_tuple:
            return b.op("tuple", *map(empty, shape.tuple_shapes))
        if shape.is_token:
            return b.op("after-all")
        return b.full(0, shape.element_type, shape.dims)

    return b.build(empty(i.shape))


def _given_to_all(b: LocalBuilder, made: HloInstruction, count: int) -> HloInstruction:
    if made.shape.is_tuple:
        return b.op("tuple", *[_given_to_all(b, part, count) for part in b.parts(made)])
    if made.shape.is_token or not made.shape.size:
        return made
    groups = ReplicaGroups((tuple(range(count)),))
    return b.op("collective-broadcast", made, channel_id=CHANNEL, replica_groups=groups)
