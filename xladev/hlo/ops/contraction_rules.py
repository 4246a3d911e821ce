"""What all matrix products share: dimension numbers, shape rules, general contraction."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.opdef import Attr, AttrKind, Cost, InstructionView, OpCall
from xladev.hlo.ops.accumulation import matmul
from xladev.hlo.ops.dimension_rules import (
    remaining,
    require_array,
    require_axes,
    require_distinct,
    same_size,
)
from xladev.hlo.ops.rules import constraint
from xladev.hlo.shape import Shape

PRECISION = Attr(
    "operand_precision", AttrKind.WORDS, default=(), proto="precision_config.operand_precision"
)
ALGORITHM = Attr(
    "algorithm", AttrKind.WORD, default="dot_unset", proto="precision_config.algorithm"
)


def _dimension_numbers(prefix: str) -> tuple[Attr, ...]:
    sides = ("lhs_batch", "lhs_contracting", "rhs_batch", "rhs_contracting")
    return tuple(
        Attr(
            side + "_dims",
            AttrKind.INTS,
            default=(),
            proto=prefix + side + "_dimensions",
            shown="contracting" in side,
        )
        for side in sides
    )


DOT_DIMS = _dimension_numbers("dot_dimension_numbers.")
RAGGED_DOT_DIMS = _dimension_numbers("ragged_dot_dimension_numbers.dot_dimension_numbers.")

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DotDims:
    """Which dimensions of two operands a dot pairs up and which it keeps."""

    lhs_batch: Axes
    lhs_contracting: Axes
    rhs_batch: Axes
    rhs_contracting: Axes

    @staticmethod
    def of(source: OpCall | InstructionView) -> DotDims:
        """The dimension numbers of a dot."""
        return DotDims(*(tuple(source[attr.name]) for attr in DOT_DIMS))

    def lhs_free(self, rank: int) -> Axes:
        """Dimensions of the left operand that are neither batch nor contracting."""
        return remaining(rank, self.lhs_batch, self.lhs_contracting)

    def rhs_free(self, rank: int) -> Axes:
        """Dimensions of the right operand that are neither batch nor contracting."""
        return remaining(rank, self.rhs_batch, self.rhs_contracting)


def check_dot(call: OpCall, dims: DotDims) -> None:
    """Checks dimension numbers against the operands (StableHLO ``dot_general`` C1 to C11).

    Raises:
        ShapeError: ``dot_c1`` to ``dot_c11``.
    """
    lhs, rhs = call.operands[:2]
    require_array(call, 0, 1)
    same_count = len(dims.lhs_batch) == len(dims.rhs_batch)
    call.require(same_count, "dot_c1", "both operands must have as many batch dimensions")
    same_count = len(dims.lhs_contracting) == len(dims.rhs_contracting)
    call.require(same_count, "dot_c2", "both operands must have as many contracting dimensions")
    require_distinct(call, "lhs", dims.lhs_batch + dims.lhs_contracting, "dot_c3")
    require_distinct(call, "rhs", dims.rhs_batch + dims.rhs_contracting, "dot_c4")
    require_axes(call, "lhs_batch_dims", dims.lhs_batch, lhs.rank, "dot_c5")
    require_axes(call, "lhs_contracting_dims", dims.lhs_contracting, lhs.rank, "dot_c6")
    require_axes(call, "rhs_batch_dims", dims.rhs_batch, rhs.rank, "dot_c7")
    require_axes(call, "rhs_contracting_dims", dims.rhs_contracting, rhs.rank, "dot_c8")
    for a, b in zip(dims.lhs_batch, dims.rhs_batch, strict=True):
        _check_sizes(call, a, b, "batch", "dot_c9")
    if not (call.op.by_name.get("sparsity_config") and call["sparsity_config"]):
        for a, b in zip(dims.lhs_contracting, dims.rhs_contracting, strict=True):
            _check_sizes(call, a, b, "contracting", "dot_c10")
    check_precision(call)


def _check_sizes(call: OpCall, a: int, b: int, what: str, constraint: str) -> None:
    lhs, rhs = call.operands[:2]
    if not same_size(lhs, a, rhs, b):
        call.fail(
            constraint,
            f"{what} dimensions differ: lhs dimension {a} has size {lhs.dims[a]}, "
            f"rhs dimension {b} has size {rhs.dims[b]}",
        )


def check_precision(call: OpCall) -> None:
    """Checks that a precision is given for no operand or for each of the first two."""
    count = len(call["operand_precision"])
    if count not in (0, 2, len(call.operands)):
        call.fail(constraint(call, "c11"), f"operand_precision has {count} entries, not 2")


def product_type(call: OpCall) -> PrimitiveType:
    """Element type of a product: as declared if that can hold it, else the operands' higher one.

    Raises:
        ShapeError: ``<op>_c13``: a declared type that cannot hold the product.
    """
    lhs, rhs = (shape.element_type for shape in call.operands[:2])
    inferred = max((lhs, rhs), key=lambda t: (_rank(t), t is not dt.PRED, t.bits))
    declared = None if call.declared is None else call.declared.element_type
    if declared is None or declared is inferred:
        return inferred
    if not declared.is_array or _rank(declared) < _rank(inferred):
        call.fail(constraint(call, "c13"), f"{declared} cannot hold a product of {lhs} and {rhs}")
    return declared


def _rank(element_type: PrimitiveType) -> int:
    """Integers (and pred) convert to floats, and floats to complex numbers, not back."""
    if element_type.is_complex:
        return 2
    return 1 if element_type.is_float else 0


def contract(lhs: Array, rhs: Array, dims: DotDims, wide: np.dtype[Any]) -> Array:
    """General contraction of two arrays, accumulated in ``wide``.

    Returns:
        Batch dimensions, free dimensions of ``lhs``, free dimensions of ``rhs``; dtype ``wide``.
    """
    lhs_free, rhs_free = dims.lhs_free(lhs.ndim), dims.rhs_free(rhs.ndim)
    batch, rows = _sizes(lhs, dims.lhs_batch), _sizes(lhs, lhs_free)
    columns, depth = _sizes(rhs, rhs_free), _sizes(lhs, dims.lhs_contracting)
    a = lhs.transpose(dims.lhs_batch + lhs_free + dims.lhs_contracting)
    b = rhs.transpose(dims.rhs_batch + dims.rhs_contracting + rhs_free)
    stack = prod(batch)
    a = a.reshape(stack, prod(rows), prod(depth))
    b = b.reshape(stack, prod(depth), prod(columns))
    return matmul(a, b, wide).reshape(batch + rows + columns)


def _sizes(array: Array, axes: Axes) -> tuple[int, ...]:
    return tuple(array.shape[axis] for axis in axes)


def product_cost(result: Shape, operands: tuple[Shape, ...], products: int) -> Cost:
    """Cost of an instruction that multiplies and adds ``products`` times."""
    flops = products * (8 if result.element_type.is_complex else 2)
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=flops, bytes_accessed=moved)


PRODUCT_DIFFERENCES = (
    "Products of f32 are accumulated in f64 and of narrower floats in f32, then rounded once; "
    "XLA:CPU accumulates in the result type and in an order of its own.",
    "operand_precision and algorithm allow a backend to lose precision; the evaluator never does.",
)
