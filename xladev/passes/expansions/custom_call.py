"""custom-call as the plain HLO that its target is registered with."""

from __future__ import annotations

from xladev.hlo.custom_calls.registry import known
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import begin


def expand_registered(instruction: HloInstruction) -> HloComputation | None:
    """What the registry of custom calls says; None if it says nothing."""
    target = known(instruction["custom_call_target"])
    if target is None or target.expand is None:
        return None
    e, operands = begin(instruction)
    return e.build(target.expand(e, instruction, operands))
