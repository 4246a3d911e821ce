"""Random constraints for the instructions of a program, as a user might give them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.effects import computations_with_effects, has_effect

_UNPLACED = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


def with_random_devices(
    module: HloModule, devices: Sequence[str], chance: random.Random, share: float
) -> HloModule:
    """The module, with a device for about this share of its instructions.

    Neighbours often get the same one, so that regions are of several sizes.
    """
    effects = computations_with_effects(module)
    called = {c.name for each in module.computations for i in each.instructions
              if i.opcode not in ("while", "conditional", "call") for c in i.called}  # fmt: skip

    def change(computation: HloComputation) -> HloComputation:
        if computation.name in called:
            return computation
        made: dict[HloInstruction, HloInstruction] = {}
        device = chance.choice(devices)
        for i in computation.instructions:
            if chance.random() < 0.3:
                device = chance.choice(devices)
            if i.opcode in _UNPLACED or has_effect(i, effects) or chance.random() >= share:
                continue
            made[i] = replace(i, note=replace(i.note, device=device))
        return rebuild(computation, made)

    return map_computations(module, change)
