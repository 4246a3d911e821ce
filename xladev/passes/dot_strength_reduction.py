"""Dot strength reduction: products with a vector as sums along memory of elementwise products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RewriteRule, RuleSet, rewrite

Wants = Callable[[HloInstruction], bool]
"""Says of a dot whether it is worth it."""


def _is_plain(dot: HloInstruction) -> bool:
    types = {value.shape.element_type for value in (dot, *dot.operands)}
    is_one_type = len(types) == 1 and not dot.shape.element_type.is_narrow_float
    return len(dot.operands) == 2 and is_one_type


def _rule(wants: Wants | None) -> RewriteRule:
    @rewrite(m.Opcode("dot").where(_is_plain, "a dense dot in one type"))
    def reduce_products(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
        """dot(x, v) = reduce-add(x * broadcast(v)), if sums go along the last dimensions of x."""
        if wants is not None and not wants(root):
            return None
        dims, (lhs, rhs) = DotDims.of(root), root.operands
        left = (dims.lhs_batch, dims.lhs_free(lhs.shape.rank), dims.lhs_contracting)
        right = (dims.rhs_batch, dims.rhs_free(rhs.shape.rank), dims.rhs_contracting)
        wide, (batch, free, summed), vector, (paired, single, along) = (
            (lhs, left, rhs, right) if lhs.shape.size >= rhs.shape.size else (rhs, right, lhs, left)
        )
        if prod(vector.shape.dims[d] for d in single) != 1 or not summed:
            return None
        if (*batch, *free, *summed) != tuple(range(wide.shape.rank)):
            return None
        turned = r.transpose(vector, (*paired, *along, *single))
        kept = r.reshape(turned, [vector.shape.dims[d] for d in (*paired, *along)])
        spread = r.broadcast(kept, wide.shape.dims, (*batch, *summed))
        return r.reshape(r.reduce(r.multiply(wide, spread), summed), root.shape.dims)

    return reduce_products


@dataclass(frozen=True, slots=True)
class DotStrengthReduction(HloModulePass):
    """Writes products of matrices with vectors as `multiply` and `reduce`.

    For backends that have no faster way for them. Those of narrow floats stay, for their products
    would be rounded before they are added.

    Attributes:
        wants: asked about each dot; None to ask nobody.
    """

    name = "dot-strength-reduction"
    only_for = frozenset({"dot"})
    wants: Wants | None = None

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return RuleSet([_rule(self.wants)], only_static=True).run(module)
