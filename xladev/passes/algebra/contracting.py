"""Dots that need no sum, of operands that are the same in a batch, or with a transposed result."""

from __future__ import annotations

from math import prod
from typing import Any

from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.passes import pattern as m
from xladev.passes.algebra.conversion import holds_exactly
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite

_PLAIN = frozenset({"operand_precision", "lhs_batch_dims", "rhs_batch_dims"}) | {
    "lhs_contracting_dims",
    "rhs_contracting_dims",
}

LEAST_COLUMNS = 16
"""Columns that any vector unit is busy with; a product with fewer is slower than a transpose."""


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


@rewrite(m.Opcode("dot"))
def dot_of_one_matrix_for_a_batch(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """dot(x, broadcast(y)) of a batch that y is the same in: the batch becomes rows of x."""
    if len(root.operands) != 2:
        return None
    dims, y = DotDims.of(root), root.operands[1]
    spread = _spread_over(y)
    first = end = len(dims.rhs_batch)
    while first and dims.rhs_batch[first - 1] in spread:
        first -= 1
    if first == end or y.note.device != root.note.device:
        return None
    x, moved = _with_rows_in_order(r, root.operands[0], dims, first)
    left = [d for d in range(y.shape.rank) if d not in dims.rhs_batch[first:]]
    at = {d: number for number, d in enumerate(left)}
    matrix = r.broadcast(
        y.operands[0], [y.shape.dims[d] for d in left], tuple(at[d] for d in y["dimensions"])
    )
    numbers = {
        "lhs_batch_dims": moved.lhs_batch[:first],
        "lhs_contracting_dims": moved.lhs_contracting,
        "rhs_batch_dims": tuple(at[d] for d in dims.rhs_batch[:first]),
        "rhs_contracting_dims": tuple(at[d] for d in dims.rhs_contracting),
    }
    attrs = {**root.attrs, **numbers}
    return r.op("dot", x, matrix, shape=root.shape.without_layout(), **attrs)


def _spread_over(operand: HloInstruction) -> frozenset[int]:
    """Dimensions along which all elements of an operand are the same, as it is a broadcast."""
    if operand.opcode != "broadcast":
        return frozenset()
    return frozenset(range(operand.shape.rank)) - frozenset(operand["dimensions"])


def _with_rows_in_order(
    r: Rewriter, x: HloInstruction, dims: DotDims, first: int
) -> tuple[HloInstruction, DotDims]:
    """A left operand whose batch dimensions from one on come before its rows, transposed if not."""
    rows = (*dims.lhs_batch[first:], *dims.lhs_free(x.shape.rank))
    if list(rows) == sorted(rows):
        return x, dims
    order = (*dims.lhs_batch, *dims.lhs_free(x.shape.rank), *dims.lhs_contracting)
    contracting = tuple(range(x.shape.rank - len(dims.lhs_contracting), x.shape.rank))
    batch = tuple(range(len(dims.lhs_batch)))
    moved = DotDims(batch, contracting, dims.rhs_batch, dims.rhs_contracting)
    return r.transpose(x, order), moved


@rewrite(m.Transpose(m.Opcode("dot").named("dot").one_use()))
def transpose_of_dot(
    r: Rewriter, root: HloInstruction, dot: HloInstruction
) -> HloInstruction | None:
    """transpose(dot(x, y)) = dot(y, x) if operands are no worse and columns do not become few."""
    if len(dot.operands) != 2:
        return None
    x, y = dot.operands
    dims = DotDims.of(dot)
    batch, rows = len(dims.lhs_batch), len(dims.lhs_free(x.shape.rank))
    order = (*range(batch), *range(batch + rows, dot.shape.rank), *range(batch, batch + rows))
    if root["dimensions"] != order or _lies_better(dims, x, y):
        return None
    left, right = prod(dot.shape.dims[batch : batch + rows]), prod(dot.shape.dims[batch + rows :])
    if left < min(LEAST_COLUMNS, right):
        return None
    return r.op("dot", y, x, shape=root.shape.without_layout(), **exchanged_attrs(dot))


def exchanged_attrs(dot: HloInstruction) -> dict[str, Any]:
    """The attributes of a dot whose operands change places."""
    dims = DotDims.of(dot)
    numbers = {
        "lhs_batch_dims": dims.rhs_batch,
        "lhs_contracting_dims": dims.rhs_contracting,
        "rhs_batch_dims": dims.lhs_batch,
        "rhs_contracting_dims": dims.lhs_contracting,
    }
    if "operand_precision" in dot.attrs:
        numbers["operand_precision"] = dot["operand_precision"][::-1]
    return {**dot.attrs, **numbers}


def _lies_better(dims: DotDims, x: HloInstruction, y: HloInstruction) -> bool:
    """True if more operands are read along memory in the order that they have now."""
    batch, depth = len(dims.lhs_batch), len(dims.lhs_contracting)
    at_the_end = [
        contracting == tuple(range(o.shape.rank - depth, o.shape.rank))
        for o, contracting in ((x, dims.lhs_contracting), (y, dims.rhs_contracting))
    ]
    in_front = [
        contracting == tuple(range(batch, batch + depth))
        for contracting in (dims.lhs_contracting, dims.rhs_contracting)
    ]
    return at_the_end[0] + in_front[1] > at_the_end[1] + in_front[0]


CONTRACTING: tuple[RewriteRule, ...] = (
    dot_of_nothing, dot_of_single_products, dot_of_one_matrix_for_a_batch, transpose_of_dot
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
