"""All-reduce reassociate: what is added up over the devices and then added is added first.

all-reduce(a) + all-reduce(b)  ->  all-reduce(a + b)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.pass_ import HloModulePass

Key = tuple[Any, ...]
_MOVES = frozenset({"transpose", "reshape", "copy"})
"""What changes places of elements alone, and keeps their number."""
_SUMS = frozenset({"all-reduce", "reduce-scatter"})


@dataclass(frozen=True, slots=True)
class AllReduceReassociate(HloModulePass):
    """Makes one sum over the devices of several that are added up afterwards.

    They have the same groups and reducer, which is what they are combined by, and nobody else reads
    them: gradients of what is used several times, such as weights that two layers share, or of the
    input of queries, keys and values. The same for reduce-scatters of the same dimension. Values
    that are not summed over the devices may stand between.
    """

    name = "all-reduce-reassociate"
    only_for = _SUMS

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        effects = {c.name for c in computations_with_effects(module)}
        changed = map_computations(module, lambda c: _changed(c, effects))
        return module if changed is module else with_unique_names(changed)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum over the devices that one instruction reads, perhaps elsewhere in memory.

    Attributes:
        value: as that instruction reads it.
        moves: from the sum to there.
        collective: the sum.
    """

    value: HloInstruction
    moves: tuple[HloInstruction, ...]
    collective: HloInstruction

    @property
    def apart(self) -> HloInstruction:
        """The same before it is summed."""
        made = self.collective.operands[0]
        for move in self.moves:
            made = move.with_operands((made,))
        return made


def _changed(computation: HloComputation, effects: set[str]) -> HloComputation:
    """One round after the other: sums of sums that were made may be added, too."""
    live = without_dead(computation, effects)
    while replacements := dict(_joined(live)):
        computation = live = without_dead(rebuild(live, replacements), effects)
    return computation


def _joined(computation: HloComputation) -> Iterator[tuple[HloInstruction, HloInstruction]]:
    """Instructions with what takes their place; no two of them have a sum in common."""
    users = users_of(computation)
    taken: set[HloInstruction] = set()
    for i in computation.instructions:
        if len(i.operands) != 2 or not i.op.elementwise or i in taken:
            continue
        made = _one_of_two(i, users, computation.root) or _one_of_three(i, users, computation.root)
        if made is None:
            continue
        new, used = made
        if not taken.intersection(used):
            taken.update(used)
            yield i, new


_Made = tuple[HloInstruction, Sequence[HloInstruction]]


def _one_of_two(i: HloInstruction, users: Users, root: HloInstruction) -> _Made | None:
    """Of two sums that are added."""
    first, second = (_sum(o, i.opcode, users, root) for o in i.operands)
    if first is None or second is None or not _fit(first, second):
        return None
    return _together(i, first, second), (first.collective, second.collective)


def _one_of_three(i: HloInstruction, users: Users, root: HloInstruction) -> _Made | None:
    """Of a sum that is added to what another one was added to."""
    for inner, outer in (i.operands, reversed(i.operands)):
        if inner.opcode != i.opcode or inner is root or len(users[inner]) != 1:
            continue
        second = _sum(outer, i.opcode, users, root)
        for one, rest in (inner.operands, reversed(inner.operands)):
            first = _sum(one, i.opcode, users, root)
            if first is not None and second is not None and _fit(first, second):
                joined = _together(i, first, second)
                used = (first.collective, second.collective, inner)
                return replace(i, operands=(rest, joined)), used
    return None


def _together(i: HloInstruction, first: _Sum, second: _Sum) -> HloInstruction:
    """The sum over the devices of what two sums add up, in the shape of the instruction."""
    added = replace(i, operands=(first.apart, second.apart), name=f"{i.name}.apart")
    if first.collective.opcode == "reduce-scatter":
        shape = first.collective.operands[0].shape
        added = replace(added, shape=shape.with_layout(i.shape.layout))
    return replace(first.collective, operands=(added,), shape=i.shape)


def _sum(value: HloInstruction, opcode: str, users: Users, root: HloInstruction) -> _Sum | None:
    """A value as a sum by an opcode that one instruction alone reads; None if it is no such."""
    moves: list[HloInstruction] = []
    at = value
    while at.opcode in _MOVES and _is_free(at, users, root):
        moves.append(at)
        at = at.operands[0]
    if at.opcode not in _SUMS or len(at.operands) != 1 or not _is_free(at, users, root):
        return None
    if not at.shape.is_array or at.shape.is_dynamic or (moves and at.opcode != "all-reduce"):
        return None
    body = at["to_apply"]
    if monoid_of(body) is None or body.root.opcode != opcode:
        return None
    return _Sum(value, tuple(reversed(moves)), at)


def _is_free(i: HloInstruction, users: Users, root: HloInstruction) -> bool:
    return i is not root and len(users[i]) == 1 and not i.note.control_predecessors


def _fit(first: _Sum, second: _Sum) -> bool:
    one, other = first.collective, second.collective
    return one is not other and _key(one) == _key(other)


def _key(i: HloInstruction) -> Key:
    return (
        i.opcode, i["replica_groups"], bool(i["channel_id"]), i["use_global_device_ids"],
        i.shape.element_type, i.note.device,
        *((i["dimensions"],) if i.opcode == "reduce-scatter" else ()),
    )  # fmt: skip
