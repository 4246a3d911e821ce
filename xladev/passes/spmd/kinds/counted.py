"""Index vectors that count: component n of the vector at place p of an axis is p.

A gather or scatter by such vectors takes element p of a dimension at place p, as if dimension and
axis were a pair of batching dimensions; so both may be cut alike, and each device needs its part
alone. Source: `GetGatherScatterBatchParallelDims` in XLA's `gather_scatter_utils.h`.
"""

from __future__ import annotations

import numpy as np

from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Literal
from xladev.hlo.ops.index_dims import IndexDims

_DEPTH = 16
_MOST_ELEMENTS = 1 << 16


def counted_dims(i: HloInstruction) -> dict[int, int]:
    """For dimensions of the array of a gather or scatter the axis of the indices that counts them.

    An axis counts one dimension, which it is as long as, and of which a window has one element.
    """
    is_gather = i.opcode == "gather"
    dims = IndexDims.of_gather(i) if is_gather else IndexDims.of_scatter(i)
    number = 1 if is_gather else (len(i.operands) - 1) // 2
    x, indices = i.operands[0], i.operands[number]
    found: dict[int, int] = {}
    for n, d in enumerate(dims.index_map):
        axis = _component(indices, dims.vector_dim, n, _DEPTH) if d in dims.dropped else None
        if axis is None or axis in (*found.values(), *dims.indices_batching, dims.vector_dim):
            continue
        if indices.shape.dims[axis] == x.shape.dims[d]:
            found[d] = axis
    return found


def _component(i: HloInstruction, vector_dim: int, n: int, depth: int) -> int | None:
    """The axis along which component n of index vectors counts."""
    if vector_dim < i.shape.rank and i.opcode == "concatenate" and depth:
        if i["dimensions"] != (vector_dim,):
            return None
        for operand in i.operands:
            size = operand.shape.dims[vector_dim]
            if n < size:
                return _component(operand, vector_dim, n, depth - 1)
            n -= size
    if i.opcode in ("copy", "convert") and depth and _holds(i):
        return _component(i.operands[0], vector_dim, n, depth - 1)
    return _axis(i, depth)


def _axis(i: HloInstruction, depth: int) -> int | None:
    """The axis along which each element is its place."""
    if not i.shape.is_array or i.shape.is_dynamic or not _holds(i):
        return None
    if i.opcode == "iota":
        axis: int = i["iota_dimension"]
        return axis
    if i.opcode == "constant":
        return _of_literal(i["literal"])
    if not depth or i.opcode not in ("copy", "convert", "broadcast", "transpose", "reshape"):
        return None
    found = _axis(i.operands[0], depth - 1)
    return None if found is None else _moved(i, found)


def _moved(i: HloInstruction, axis: int) -> int | None:
    """Where an axis of the operand is in the result."""
    if i.opcode == "broadcast":
        to: int = i["dimensions"][axis]
        return to if i.shape.dims[to] == i.operands[0].shape.dims[axis] else None
    if i.opcode == "transpose":
        return list(i["dimensions"]).index(axis)
    if i.opcode != "reshape":
        return axis
    before, after = i.operands[0].shape.dims, i.shape.dims
    long = [d for d, size in enumerate(before) if size != 1]
    kept = [d for d, size in enumerate(after) if size != 1]
    if axis not in long or [before[d] for d in long] != [after[d] for d in kept]:
        return None
    return kept[long.index(axis)]


def _of_literal(literal: Literal) -> int | None:
    values = literal.value
    if not isinstance(values, np.ndarray) or not 0 < values.size <= _MOST_ELEMENTS:
        return None
    for axis, size in enumerate(values.shape):
        places = np.arange(size).reshape([-1 if d == axis else 1 for d in range(values.ndim)])
        if size > 1 and np.array_equal(values, np.broadcast_to(places, values.shape)):
            return axis
    return None


def _holds(i: HloInstruction) -> bool:
    """True for integers that can count all dimensions of an array."""
    kind = i.shape.element_type
    return kind.is_integral and all(n <= 2 ** (kind.bits - kind.is_signed) for n in i.shape.dims)
