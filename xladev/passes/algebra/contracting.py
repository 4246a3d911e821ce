"""Dots that need no sum."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.passes import pattern as m
from xladev.passes.algebra.conversion import holds_exactly
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite

_PLAIN = frozenset({"operand_precision", "lhs_batch_dims", "rhs_batch_dims"}) | {
    "lhs_contracting_dims",
    "rhs_contracting_dims",
}


@rewrite(m.Opcode("dot"))
def dot_of_nothing(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A dot that sums no products is zero."""
    if all(o.shape.size for o in root.operands):
        return None
    return r.full(0, root.shape.element_type, root.shape.dims)


@rewrite(m.Opcode("dot"))
def dot_of_single_products(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A dot whose sums have one term each is a product of broadcasts."""
    if len(root.operands) != 2 or not root.attrs.keys() <= _PLAIN:
        return None
    x, y = root.operands
    dims = DotDims.of(root)
    if any(x.shape.dims[d] != 1 for d in dims.lhs_contracting):
        return None
    element_type = root.shape.element_type
    if element_type.is_complex or not all(
        holds_exactly(o.shape.element_type, element_type) for o in (x, y)
    ):
        return None
    batch = len(dims.lhs_batch)
    lhs_free, rhs_free = dims.lhs_free(x.shape.rank), dims.rhs_free(y.shape.rank)
    left = _spread(r, x, root, (*dims.lhs_batch, *lhs_free), range(batch + len(lhs_free)))
    behind = range(batch + len(lhs_free), root.shape.rank)
    right = _spread(r, y, root, (*dims.rhs_batch, *rhs_free), (*range(batch), *behind))
    return r.multiply(left, right)


def _spread(
    r: Rewriter,
    operand: HloInstruction,
    root: HloInstruction,
    dims: tuple[int, ...],
    at: range | tuple[int, ...],
) -> HloInstruction:
    """An operand without its contracting dimensions, at its place in the result."""
    sizes = [operand.shape.dims[d] for d in dims]
    contracted = [d for d in range(operand.shape.rank) if d not in dims]
    moved = r.transpose(operand, (*dims, *contracted))
    kept = r.convert(r.reshape(moved, sizes), root.shape.element_type)
    return r.broadcast(kept, root.shape.dims, tuple(at))


CONTRACTING: tuple[RewriteRule, ...] = (dot_of_nothing, dot_of_single_products)
"""Rules of this file, in the order in which they are tried."""
