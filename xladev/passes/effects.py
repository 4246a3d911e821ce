"""Which instructions do more than give a value: these are neither removed, merged nor moved."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from weakref import WeakKeyDictionary

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule

_ACTS: WeakKeyDictionary[HloComputation, bool] = WeakKeyDictionary()
_COMMUNICATING = frozenset({"collective", "async"})


def has_effect(instruction: HloInstruction, effects: AbstractSet[HloComputation]) -> bool:
    """True if an instruction has a side effect, itself or in what it calls.

    Args:
        instruction: the one asked about.
        effects: computations known to have effects (see `computations_with_effects`).
    """
    op = instruction.op
    if op.side_effect:
        return True
    if op.name == "custom-call" and instruction["custom_call_has_side_effect"]:
        return True
    return bool(effects and op.calling) and any(c in effects for c in instruction.called)


def acts(instruction: HloInstruction, effects: AbstractSet[str]) -> bool:
    """As `has_effect`, with the computations that have effects given by name."""
    if has_effect(instruction, frozenset()):
        return True
    calls = bool(effects and instruction.op.calling)
    return calls and any(c.name in effects for c in instruction.called)


def computations_with_effects(module: HloModule) -> frozenset[HloComputation]:
    """Computations with an instruction that has an effect, directly or through calls."""
    found: set[HloComputation] = set()
    for computation in module.computations:
        if acts_within(computation, found):
            found.add(computation)
    return frozenset(found)


def acts_within(computation: HloComputation, effects: AbstractSet[HloComputation]) -> bool:
    """True if an instruction of a computation has an effect; remembered, since it never changes.

    Args:
        computation: the one asked about.
        effects: those of the computations that it calls, directly or not, that have effects.
    """
    known = _ACTS.get(computation)
    if known is None:
        known = _ACTS[computation] = any(has_effect(i, effects) for i in computation.instructions)
    return known


def communicates(instruction: HloInstruction) -> bool:
    """True for collectives and their halves: all devices must run the same ones."""
    return instruction.op.category in _COMMUNICATING
