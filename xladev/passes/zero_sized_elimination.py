"""Zero-sized elimination: arrays without elements are constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.effects import communicates, has_effect
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite

_KEPT = frozenset({"parameter", "constant", "opt-barrier"})


def _has_no_elements(instruction: HloInstruction) -> bool:
    shape = instruction.shape
    if not shape.is_array or 0 not in shape.dims or shape.is_dynamic:
        return False
    if instruction.opcode in _KEPT or instruction.called:
        return False
    return not has_effect(instruction, frozenset()) and not communicates(instruction)


@rewrite(m.Op().where(_has_no_elements, "an array without elements"))
def make_constant(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """An array without elements is an empty constant."""
    return r.table(np.zeros(root.shape.dims), root.shape.element_type)


_RULES = RuleSet([make_constant])


@dataclass(frozen=True, slots=True)
class ZeroSizedElimination(HloModulePass):
    """Replaces what computes arrays without elements by constants, effects excepted."""

    name = "zero-sized-elimination"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
