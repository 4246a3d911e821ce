"""A dot of any dimension numbers as a product of matrices in memory, for each batch index.

Dimensions that follow each other in memory without a gap are gone through as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xladev.codegen.arrays import element_strides
from xladev.codegen.elemental.contraction import accumulation_type
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape

SUM_TYPES = frozenset({dt.F32, dt.F64, dt.S32, dt.U32})
"""Types of sums that tiles can hold."""


@dataclass(frozen=True, slots=True)
class Side:
    """An operand as a matrix for each batch index; strides in elements.

    Attributes:
        batch: along the batch dimensions.
        free: along the dimensions that the result keeps.
        extent: size of these together.
        step: along those that are summed over.
        depth: size of these together.
    """

    batch: tuple[int, ...]
    free: int
    extent: int
    step: int
    depth: int


class ResultStrides(NamedTuple):
    """Where the sums go; strides in elements.

    Attributes:
        batch: along the batch dimensions.
        row: along the free dimensions of the left operand.
        column: along those of the right one.
    """

    batch: tuple[int, ...]
    row: int
    column: int


class Matrices(NamedTuple):
    """A dot as a product of matrices: type of the sums, operands, result."""

    total: PrimitiveType
    left: Side
    right: Side
    result: ResultStrides


def matrices_of(i: HloInstruction) -> Matrices | None:
    """The operands and the result of a kernel's dot; None if they are no matrices in memory."""
    in_memory = all(o.opcode == "parameter" for o in i.operands)
    return matrices_by_shape(i) if in_memory else None


def matrices_by_shape(i: HloInstruction) -> Matrices | None:
    """As `matrices_of`, for operands that will be in memory."""
    total = accumulation_type(i.shape.element_type)
    shapes = (i.operands[0].shape, i.operands[1].shape, i.shape)
    is_kept = total is i.shape.element_type or i.shape.element_type.is_float
    if len(i.operands) != 2 or total not in SUM_TYPES or not is_kept:
        return None
    if any(not s.size or not _is_read(s.element_type, total) for s in shapes):
        return None
    left = _side(shapes[0], i["lhs_batch_dims"], i["lhs_contracting_dims"])
    right = _side(shapes[1], i["rhs_batch_dims"], i["rhs_contracting_dims"])
    if left is None or right is None:
        return None
    count = len(left.batch)
    kept = shapes[0].rank - len(i["lhs_contracting_dims"])
    row = merged_dims(i.shape, range(count, kept))
    column = merged_dims(i.shape, range(kept, i.shape.rank))
    if row is None or column is None:
        return None
    along = element_strides(i.shape)[:count]
    return Matrices(total, left, right, ResultStrides(along, row[0], column[0]))


def _is_read(dtype: PrimitiveType, total: PrimitiveType) -> bool:
    """True if tiles can read such elements."""
    if dtype is total:
        return True
    return dtype.bits >= 8 and not dtype.is_complex and dtype.is_float == total.is_float


def _side(shape: Shape, batch: tuple[int, ...], contracting: tuple[int, ...]) -> Side | None:
    free = [d for d in range(shape.rank) if d not in (*batch, *contracting)]
    kept, summed = merged_dims(shape, free), merged_dims(shape, contracting)
    if not free or not contracting or kept is None or summed is None:
        return None
    strides = element_strides(shape)
    return Side(tuple(strides[d] for d in batch), *kept, *summed)


def merged_dims(shape: Shape, dimensions: Sequence[int]) -> tuple[int, int] | None:
    """Stride and size of some dimensions, gone through in order as one; None if they cannot be."""
    strides, size, step = element_strides(shape), 1, 1
    for d in reversed(dimensions):
        if shape.dims[d] == 1:
            continue
        if size == 1:
            step = strides[d]
        elif strides[d] != step * size:
            return None
        size *= shape.dims[d]
    return step, size
