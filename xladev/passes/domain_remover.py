"""Domain remover: the borders between regions of other sharding metadata disappear."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite


@rewrite(m.Opcode("domain", m.Op("x")))
def remove_domain(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """domain(x) = x."""
    return x


_RULES = RuleSet([remove_domain])


@dataclass(frozen=True, slots=True)
class DomainRemover(HloModulePass):
    """Replaces each `domain` by its operand."""

    name = "domain-remover"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
