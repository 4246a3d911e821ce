"""Applies a change to every loop of a module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.state import Parts, parts_among

Changes = dict[HloInstruction, HloInstruction]
MOST_ROUNDS = 8
"""How often loops are looked at again after a change, which may show more."""


@dataclass(frozen=True, slots=True)
class LoopContext:
    """The computation that a loop is in.

    Attributes:
        parts: how the loop's result is taken apart; None if it is used as a whole.
        effects: names of computations with effects.
    """

    parts: Parts | None
    effects: set[str]


LoopChange = Callable[[KnownLoop, LoopContext], Changes]
"""Gives replacements for a loop, the parts of its result, or other instructions around it."""


def change_loops(module: HloModule, change: LoopChange) -> HloModule:
    """The module with a change made to its loops, inner ones first, until there is none.

    Loops with control dependencies are left alone, as are those whose parts have some.
    """
    for _ in range(MOST_ROUNDS):
        before, module = module, _changed_once(module, change)
        if module is before:
            return module
    return module


def _changed_once(module: HloModule, change: LoopChange) -> HloModule:
    if not any(i.opcode == "while" for c in module.computations for i in c.instructions):
        return module
    effects = {c.name for c in computations_with_effects(module)}

    def change_computation(computation: HloComputation) -> HloComputation:
        changes = _changes(computation, change, effects)
        return without_dead(rebuild(computation, changes), effects) if changes else computation

    changed = map_computations(module, change_computation)
    return module if changed is module else with_unique_names(changed)


def _changes(computation: HloComputation, change: LoopChange, effects: set[str]) -> Changes:
    loops = [loop for i in computation.instructions if (loop := KnownLoop.of(i)) is not None]
    if not loops:
        return {}
    users, ordered = users_of(computation), ordered_instructions(computation)
    changes: Changes = {}
    for loop in loops:
        if not is_ordered(loop.instruction, users, ordered):
            whole = computation.root is loop.instruction
            parts = None if whole else parts_among(users[loop.instruction])
            changes.update(change(loop, LoopContext(parts, effects)))
    return changes


def ordered_instructions(computation: HloComputation) -> set[HloInstruction]:
    """Instructions that a control dependency joins."""
    later = [i for i in computation.instructions if i.note.control_predecessors]
    return {p for i in later for p in i.note.control_predecessors}.union(later)


def is_ordered(i: HloInstruction, users: Users, ordered: set[HloInstruction]) -> bool:
    """True if a control dependency joins an instruction or one that uses its result."""
    return bool(ordered) and (i in ordered or not ordered.isdisjoint(users[i]))
