"""Optimisation barriers have done their work once no more pass merges or moves computations."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite


@rewrite(m.Opcode("opt-barrier", m.Op("x")))
def remove_barrier(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """opt-barrier(x) = x."""
    return x


_RULES = RuleSet([remove_barrier])


@dataclass(frozen=True, slots=True)
class OptBarrierRemover(HloModulePass):
    """Replaces each `opt-barrier` by its operand; for the end of a pipeline."""

    name = "opt-barrier-remover"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
