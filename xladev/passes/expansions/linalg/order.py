"""Sorts vectors and says where each element came from."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.linalg.matrices import Value


def sorted_with_order(e: Emitter, keys: Value, *, descending: bool = False) -> tuple[Value, Value]:
    """Real vectors ``[batch, n]`` in order, equals as they were, and their old numbers, s32."""
    numbers = e.iota(dt.S32, keys.shape.dims, 1)
    comparator = comparison("GT" if descending else "LT", keys.shape.element_type)
    pair = e.op("sort", keys, numbers, dimensions=(1,), is_stable=True, to_apply=comparator)
    first, second = e.parts(pair)
    return first, second


def comparison(direction: str, element_type: PrimitiveType) -> HloComputation:
    """Compares the first of two operands of a sort; the second are s32."""
    e = Emitter(f"order.{direction.lower()}.{element_type}")
    values = [e.parameter(array(element_type)) for _ in range(2)]
    for _ in range(2):
        e.parameter(array(dt.S32))
    return e.build(e.compare(direction, *values))
