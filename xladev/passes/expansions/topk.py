"""topk as a stable sort of (value, index) pairs, cut after k; of the best blocks if n is large.

The k first elements are in the k blocks whose best elements come first: where a block is not among
these, k others hold an element each that comes before all of its own. So of n elements, about
2 sqrt(n k) are sorted.
"""

from __future__ import annotations

from math import isqrt, prod

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Literal
from xladev.hlo.shape import array
from xladev.passes.expansions.comparison import from_total_order_key, total_order_key
from xladev.passes.expansions.emit import Emitter, begin, binary_computation

_LEAST_SIZE = 1024
_LEAST_RATIO = 64
"""Blocks pay from so many elements on, and from so many times k: they sort a quarter then."""


def expand_topk(instruction: HloInstruction) -> HloComputation:
    """Sorts the last dimension in total order and keeps the first k."""
    e, (x,) = begin(instruction)
    return e.build(e.op("tuple", *first_k(e, x, instruction["k"], instruction["largest"])))


def first_k(e: Emitter, x: HloInstruction, k: int, largest: bool) -> list[HloInstruction]:
    """The k largest or smallest of the last dimension, and their s32 indices; ties by index."""
    n, element_type = x.shape.dims[-1], x.shape.element_type
    has_keys = element_type.bits >= 8 and (element_type.is_float or element_type.is_integral)
    if k and has_keys and x.shape.size and n >= max(_LEAST_SIZE, _LEAST_RATIO * k):
        return _first_of_blocks(e, x, k, largest)
    indices = e.iota(dt.S32, x.shape.dims, x.shape.rank - 1)
    return _sorted(e, x, indices, k, largest)


def _sorted(
    e: Emitter, x: HloInstruction, indices: HloInstruction, k: int, largest: bool
) -> list[HloInstruction]:
    last = x.shape.rank - 1
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


def _first_of_blocks(e: Emitter, x: HloInstruction, k: int, largest: bool) -> list[HloInstruction]:
    *outer, n = x.shape.dims
    rows, width = prod(outer), isqrt(n // k)
    count = -(-n // width)
    keys = total_order_key(e, x) if x.shape.element_type.is_float else x
    worst = _worst(e, keys.shape.element_type, largest)
    flat = e.reshape(keys, (rows, n))
    blocks = e.reshape(_padded(e, flat, worst, count * width - n), (rows, count, width))
    best = e.op(
        "reduce", blocks, worst, dimensions=(2,),
        to_apply=binary_computation("maximum" if largest else "minimum", worst.shape.element_type),
    )  # fmt: skip
    chosen = _sorted(e, best, e.iota(dt.S32, (rows, count), 1), k, largest)[1]
    chosen = e.op("sort", chosen, dimensions=(1,), to_apply=_ascending())
    candidates = e.reshape(_picked(e, blocks, chosen), (rows, k * width))
    starts = e.broadcast(e.multiply(chosen, width), (rows, k, width), (0, 1))
    indices = e.reshape(e.add(starts, e.iota(dt.S32, (rows, k, width), 2)), (rows, k * width))
    found, at = _sorted(e, candidates, indices, k, largest)
    values = e.reshape(found, (*outer, k))
    if x.shape.element_type.is_float:
        values = from_total_order_key(e, values, x.shape.element_type)
    return [values, e.reshape(at, (*outer, k))]


def _worst(e: Emitter, element_type: PrimitiveType, largest: bool) -> HloInstruction:
    """The scalar behind which no other comes."""
    info = np.iinfo(element_type.np)
    value = np.array(info.min if largest else info.max, element_type.np)
    return e.constant(Literal(array(element_type), value))


def _padded(e: Emitter, x: HloInstruction, value: HloInstruction, size: int) -> HloInstruction:
    """More elements behind those of the last dimension; they come last among equals."""
    if not size:
        return x
    rows = x.shape.dims[0]
    return e.concatenate((x, e.broadcast(value, (rows, size), ())), 1)


def _picked(e: Emitter, blocks: HloInstruction, chosen: HloInstruction) -> HloInstruction:
    """``[rows, count, width]`` at ``[rows, k]``: ``[rows, k, width]``."""
    return e.op(
        "gather", blocks, chosen,
        offset_dims=(2,), collapsed_slice_dims=(1,), start_index_map=(1,),
        operand_batching_dims=(0,), start_indices_batching_dims=(0,), index_vector_dim=2,
        slice_sizes=(1, 1, blocks.shape.dims[2]), indices_are_sorted=True,
    )  # fmt: skip


def _ascending() -> HloComputation:
    e = Emitter("ascending")
    x, y = (e.parameter(array(dt.S32)) for _ in range(2))
    return e.build(e.compare("LT", x, y))
