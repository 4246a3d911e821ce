"""Algebraic simplifier: rules of arithmetic, logic and movement, until none applies."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloModule
from xladev.passes.algebra.arithmetic import ARITHMETIC
from xladev.passes.algebra.contracting import CONTRACTING
from xladev.passes.algebra.conversion import CONVERSION
from xladev.passes.algebra.indexing import INDEXING
from xladev.passes.algebra.logic import LOGIC
from xladev.passes.algebra.movement import MOVEMENT
from xladev.passes.algebra.reducing import REDUCING
from xladev.passes.algebra.slicing import SLICING
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import RewriteRule, RuleSet

ALGEBRA: tuple[RewriteRule, ...] = (
    *ARITHMETIC,
    *LOGIC,
    *CONVERSION,
    *MOVEMENT,
    *SLICING,
    *INDEXING,
    *REDUCING,
    *CONTRACTING,
)
"""Every rule of algebra, in the order in which they are tried."""

_RULES = RuleSet(ALGEBRA, only_static=True)


@dataclass(frozen=True, slots=True)
class AlgebraicSimplifier(HloModulePass):
    """Replaces instructions by simpler ones that give the same values.

    Results keep every bit, but for those of NaN and for what the page on numerics lists: small
    powers, and the order of sums. What has dynamic dimensions is left alone.

    Attributes:
        sweeps: how often the rules are applied at most; it ends as soon as none applies.
    """

    name = "algebraic-simplifier"
    sweeps: int = 8

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        for _ in range(self.sweeps):
            before, module = module, _RULES.run(module)
            if module is before:
                break
        return module
