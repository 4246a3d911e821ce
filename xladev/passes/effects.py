"""Which instructions do more than give a value: these are neither removed, merged nor moved."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule

_COMMUNICATING = frozenset({"collective", "async"})


def has_effect(instruction: HloInstruction, effects: AbstractSet[HloComputation]) -> bool:
    """True if an instruction has a side effect, itself or in what it calls.

    Args:
        instruction: the one asked about.
        effects: computations known to have effects (see `computations_with_effects`).
    """
    if instruction.op.side_effect:
        return True
    if instruction.opcode == "custom-call" and instruction["custom_call_has_side_effect"]:
        return True
    return bool(instruction.attrs) and any(c in effects for c in instruction.called)


def acts(instruction: HloInstruction, effects: AbstractSet[str]) -> bool:
    """As `has_effect`, with the computations that have effects given by name."""
    if has_effect(instruction, frozenset()):
        return True
    return bool(instruction.attrs) and any(c.name in effects for c in instruction.called)


def computations_with_effects(module: HloModule) -> frozenset[HloComputation]:
    """Computations with an instruction that has an effect, directly or through calls."""
    found: set[HloComputation] = set()
    for computation in module.computations:
        if any(has_effect(i, found) for i in computation.instructions):
            found.add(computation)
    return frozenset(found)


def communicates(instruction: HloInstruction) -> bool:
    """True for collectives and their halves: all devices must run the same ones."""
    return instruction.op.category in _COMMUNICATING
