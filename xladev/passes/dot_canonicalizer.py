"""Dot canonicaliser: every dot is ``[batch..., m, k] x [batch..., k, n]``."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.expansions.dot import canonical_dot, is_canonical
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite


def _can_be_canonical(dot: HloInstruction) -> bool:
    return len(dot.operands) == 2 and not is_canonical(dot)


@rewrite(m.Opcode("dot").where(_can_be_canonical, "a dot of dense operands in another form"))
def canonicalize_dot(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """Any dot is a canonical one around transposes and reshapes."""
    return canonical_dot(r, root, *root.operands)


_RULES = RuleSet([canonicalize_dot], only_static=True)


@dataclass(frozen=True, slots=True)
class DotCanonicalizer(HloModulePass):
    """Brings every dot to the form that backends with one matrix product have.

    This is for pipelines of backends: the default one does the opposite (see transpose folding).
    """

    name = "dot-canonicalizer"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
