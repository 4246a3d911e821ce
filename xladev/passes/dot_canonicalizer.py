"""Dot canonicaliser: every dot is ``[batch..., m, k] x [batch..., k, n]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.shape import array
from xladev.passes import pattern as m
from xladev.passes.algebra.contracting import exchanged_attrs
from xladev.passes.expansions.dot import canonical_dot, is_canonical
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RewriteRule, RuleSet, rewrite

Spares = Callable[[HloInstruction], bool]


def _can_be_canonical(dot: HloInstruction) -> bool:
    return len(dot.operands) == 2 and not is_canonical(dot)


def _is_canonical_in_either_order(dot: HloInstruction) -> bool:
    """True if each operand has the batch dimensions first, then two of which one is summed over."""
    dims = DotDims.of(dot)
    batch = tuple(range(len(dims.lhs_batch)))
    return (dims.lhs_batch, dims.rhs_batch) == (batch, batch) and all(
        o.shape.rank == len(batch) + 2 and len(contracting) == 1
        for o, contracting in zip(
            dot.operands, (dims.lhs_contracting, dims.rhs_contracting), strict=True
        )
    )


def _with_vector_along_memory(r: Rewriter, dot: HloInstruction) -> HloInstruction | None:
    """A left operand ``[batch..., k, 1]`` as ``[batch..., 1, k]``, the same memory; None if not."""
    dims, lhs = DotDims.of(dot), dot.operands[0]
    last = lhs.shape.rank - 1
    if dims.lhs_contracting != (last - 1,) or lhs.shape.dims[last] != 1:
        return None
    sizes = (*lhs.shape.dims[: last - 1], 1, lhs.shape.dims[last - 1])
    turned = r.op("reshape", lhs, shape=array(lhs.shape.element_type, sizes))
    attrs = {**dot.attrs, "lhs_contracting_dims": (last,)}
    return r.op("dot", turned, dot.operands[1], shape=dot.shape.without_layout(), **attrs)


def _with_vector_first(r: Rewriter, dot: HloInstruction) -> HloInstruction | None:
    """A matrix that is summed over its first dimension, times a vector; None if it is not that."""
    dims = DotDims.of(dot)
    lhs, rhs = (o.shape for o in dot.operands)
    order = (*dims.lhs_batch, *dims.lhs_contracting, *dims.lhs_free(lhs.rank))
    columns = prod(rhs.dims[d] for d in dims.rhs_free(rhs.rank))
    rows = prod(lhs.dims[d] for d in dims.lhs_free(lhs.rank))
    if order != tuple(range(lhs.rank)) or columns > 1 or rows == 1:
        return None
    turned = replace(dot, operands=dot.operands[::-1], attrs=exchanged_attrs(dot))
    return canonical_dot(r, turned, *turned.operands)


def _rule(least_reuse: int, either_order: bool, spares: Spares | None) -> RewriteRule:
    @rewrite(m.Opcode("dot").where(_can_be_canonical, "a dot of dense operands in another form"))
    def canonicalize_dot(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
        """Any dot is a canonical one around transposes and reshapes."""
        if spares is not None and spares(root):
            return None
        turned = _with_vector_first(r, root) if either_order else None
        if turned is not None:
            return turned
        if either_order and _is_canonical_in_either_order(root):
            return _with_vector_along_memory(r, root)
        if least_reuse and any(reuse < least_reuse for reuse in _reuses(root)):
            return None
        return canonical_dot(r, root, *root.operands)

    return canonicalize_dot


def _reuses(dot: HloInstruction) -> list[int]:
    """How often the dot uses an element of each operand that has to be transposed."""
    lhs, rhs = dot.operands[0].shape, dot.operands[1].shape
    dims = DotDims.of(dot)
    rows, columns = dims.lhs_free(lhs.rank), dims.rhs_free(rhs.rank)
    left = (*dims.lhs_batch, *rows, *dims.lhs_contracting)
    right = (*dims.rhs_batch, *dims.rhs_contracting, *columns)
    reuses: list[int] = []
    if left != tuple(range(lhs.rank)):
        reuses.append(prod(rhs.dims[d] for d in columns))
    if right != tuple(range(rhs.rank)):
        reuses.append(prod(lhs.dims[d] for d in rows))
    return reuses


@dataclass(frozen=True, slots=True)
class DotCanonicalizer(HloModulePass):
    """Brings every dot to the form that backends with one matrix product have.

    This is for pipelines of backends: the default one does the opposite (see transpose folding).

    Attributes:
        either_order: a dot stays if its operands are matrices, whichever of their dimensions comes
            first. A matrix whose rows are summed, times a vector, is the vector times the matrix.
        least_reuse: a dot stays if it would use the elements of an operand that has to be
            transposed less often than this; 0 to let none stay.
        spares: says of a dot that it stays.
    """

    name = "dot-canonicalizer"
    only_for = frozenset({"dot"})
    least_reuse: int = 0
    either_order: bool = False
    spares: Spares | None = None

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        rule = _rule(self.least_reuse, self.either_order, self.spares)
        return RuleSet([rule], only_static=True).run(module)
