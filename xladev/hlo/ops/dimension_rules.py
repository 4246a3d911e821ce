"""Rules about dimensions that the shape rules of several families share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.opdef import OpCall
from xladev.hlo.ops.rules import constraint
from xladev.hlo.shape import UNBOUNDED, Shape, array, tuple_of


def require_array(call: OpCall, *at: int) -> None:
    """Requires that the operands at these positions (all, if none) are arrays: ``<op>_operand``."""
    for i in at or range(len(call.operands)):
        if not call.operands[i].is_array:
            call.fail(constraint(call, "operand"), f"operand {i} must be an array")


def require_axes(call: OpCall, name: str, axes: Sequence[int], rank: int, constraint: str) -> None:
    """Requires that every axis is in ``[0, rank)``."""
    for axis in axes:
        if not 0 <= axis < rank:
            call.fail(constraint, f"{name} names dimension {axis} of an operand of rank {rank}")


def require_distinct(call: OpCall, name: str, axes: Sequence[int], constraint: str) -> None:
    """Requires that no axis is named twice."""
    if len(set(axes)) != len(axes):
        call.fail(constraint, f"{name} {list(axes)} names a dimension twice")


def same_size(a: Shape, axis_a: int, b: Shape, axis_b: int) -> bool:
    """True if two dimensions agree, or one has no bound."""
    sizes = (a.dims[axis_a], b.dims[axis_b])
    return UNBOUNDED in sizes or sizes[0] == sizes[1]


def remaining(rank: int, *taken: Iterable[int]) -> tuple[int, ...]:
    """The dimensions below ``rank`` that are in none of ``taken``, in order."""
    gone = {axis for axes in taken for axis in axes}
    return tuple(axis for axis in range(rank) if axis not in gone)


def from_dimensions(element_type: PrimitiveType, *sources: tuple[Shape, Sequence[int]]) -> Shape:
    """The array whose dimensions are those of the sources, one after the other."""
    dims = [shape.dims[axis] for shape, axes in sources for axis in axes]
    dynamic = [shape.is_dynamic_dimension(axis) for shape, axes in sources for axis in axes]
    return array(element_type, dims, dynamic=dynamic)


def one_or_tuple(parts: Sequence[Shape]) -> Shape:
    """The only part, or a tuple of several."""
    return parts[0] if len(parts) == 1 else tuple_of(*parts)


def parts_of(shape: Shape) -> tuple[Shape, ...]:
    """The parts of a tuple, or the shape itself as the only part."""
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def convertible(a: PrimitiveType, b: PrimitiveType) -> bool:
    """True if two types are equal or both floating-point (precision may differ)."""
    return a is b or (a.is_float and b.is_float) or (a.is_complex and b.is_complex)
