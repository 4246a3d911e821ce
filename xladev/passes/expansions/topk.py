"""topk as a stable sort of (value, index) pairs, cut after k."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, begin


def expand_topk(instruction: HloInstruction) -> HloComputation:
    """Sorts the last dimension in total order and keeps the first k."""
    e, (x,) = begin(instruction)
    return e.build(e.op("tuple", *first_k(e, x, instruction["k"], instruction["largest"])))


def first_k(e: Emitter, x: HloInstruction, k: int, largest: bool) -> list[HloInstruction]:
    """The k largest or smallest of the last dimension, and their s32 indices; ties by index."""
    last = x.shape.rank - 1
    indices = e.iota(dt.S32, x.shape.dims, last)
    comparator = _comparator("GT" if largest else "LT", x.shape.element_type)
    pair = e.op("sort", x, indices, dimensions=(last,), is_stable=True, to_apply=comparator)
    return [e.slice_in(part, last, 0, k) for part in e.parts(pair)]


def _comparator(direction: str, element_type: PrimitiveType) -> HloComputation:
    e = Emitter(f"compare.{direction.lower()}.{element_type}")
    values = [e.parameter(array(element_type)) for _ in range(2)]
    for _ in range(2):
        e.parameter(array(dt.S32))
    kind = "TOTALORDER" if element_type.is_float else None
    return e.build(e.op("compare", *values, direction=direction, type=kind))
