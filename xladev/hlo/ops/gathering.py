"""Gather: windows of an array, read at index vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops import rules
from xladev.hlo.ops.index_dims import IndexDims, along, check_index_dims, starts
from xladev.hlo.shape import UNBOUNDED, Shape


def infer_gather(call: OpCall) -> Shape:
    """Batch dimensions of the indices, with window dimensions at ``offset_dims``."""
    rules.require_arrays(call)
    operand, indices = call.operands
    dims, sizes = IndexDims.of_gather(call), call["slice_sizes"]
    batch = dims.batch_dims(indices.rank)
    rank = len(batch) + len(dims.window)
    check_index_dims(call, dims, operand, indices, rank)
    _check_sizes(call, dims, operand, sizes)
    windowed = dims.windowed(operand.rank)
    shown = [(sizes[d], _is_dynamic_window(operand, d, sizes[d])) for d in windowed]
    counted = [(indices.dims[d], indices.is_dynamic_dimension(d)) for d in batch]
    window, vectors = iter(shown), iter(counted)
    result = [next(window) if d in dims.window else next(vectors) for d in range(rank)]
    return rules.shape_like(operand, (n for n, _ in result), (flag for _, flag in result))


def _is_dynamic_window(operand: Shape, d: int, size: int) -> bool:
    """Reading all of a dynamic dimension gives a dynamic dimension."""
    return operand.is_dynamic_dimension(d) and size == operand.dims[d]


def _check_sizes(call: OpCall, dims: IndexDims, operand: Shape, sizes: Sequence[int]) -> None:
    count = len(sizes)
    call.require(count == operand.rank, "gather_c13", f"{count} slice sizes for {operand}")
    for d, size in enumerate(sizes):
        fits = size >= 0 and (size <= operand.dims[d] or operand.dims[d] == UNBOUNDED)
        call.require(fits, "gather_c14", f"slice size {size} in dimension {d} of {operand}")
        hidden = d in dims.dropped or d in dims.batching
        call.require(
            not hidden or size <= 1, "gather_c15", f"dimension {d} of slice size {size} is dropped"
        )


def evaluate_gather(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Meaning of gather."""
    del evaluation
    array, indices = operands
    return gather(array, indices, IndexDims.of_gather(instruction), instruction["slice_sizes"])


def gather(array: Array, indices: Array, dims: IndexDims, sizes: Sequence[int]) -> Array:
    """Windows of ``array``; a start is moved as far as the window needs to be inside.

    A dimension that the window covers whole is not indexed but kept, behind the indexed ones.
    """
    begins, batch = starts(indices, dims, array.ndim)
    windowed = dims.windowed(array.ndim)
    whole = [d for d in windowed if sizes[d] >= array.shape[d]]
    part = [d for d in windowed if d not in whole]
    indexed = [d for d in range(array.ndim) if d not in whole]
    shape = (*batch, *(sizes[d] for d in part))
    moved = array.transpose([*indexed, *whole])
    kept = moved.shape[len(indexed) :]
    if array.size == 0:
        picked = np.zeros((*shape, *kept), array.dtype)
    else:
        at = [_positions(begins[d], d, array, sizes, part, len(batch)) for d in indexed]
        picked = moved[tuple(np.broadcast_to(a, shape) for a in at)]
        picked = np.broadcast_to(picked, (*shape, *kept))
    return picked.transpose(_result_order(dims, len(batch), windowed, [*part, *whole]))


def _result_order(
    dims: IndexDims, batch_rank: int, windowed: Sequence[int], found: Sequence[int]
) -> list[int]:
    """Axes of what was read (batch, then the dimensions ``found``) in the result's order."""
    window = (batch_rank + found.index(d) for d in windowed)
    vectors = iter(range(batch_rank))
    rank = batch_rank + len(windowed)
    return [next(window) if d in dims.window else next(vectors) for d in range(rank)]


def _positions(
    begin: Array, d: int, array: Array, sizes: Sequence[int], part: Sequence[int], batch_rank: int
) -> Array:
    """Indices into dimension ``d``: clamped starts, plus steps along its own window dimension."""
    clamped = np.clip(begin, 0, max(0, array.shape[d] - sizes[d]))
    spread = clamped.reshape(clamped.shape + (1,) * len(part))
    if d not in part:
        return spread
    rank = batch_rank + len(part)
    return spread + along(np.arange(sizes[d]), batch_rank + part.index(d), rank)
