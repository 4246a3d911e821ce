"""Scatter: windows of updates, combined into arrays at index vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops import rules
from xladev.hlo.ops.index_dims import IndexDims, along, check_index_dims, starts
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.shape import UNBOUNDED, Shape, tuple_of


def infer_scatter(call: OpCall) -> Shape:
    """As the operands; a tuple of them if there are several."""
    rules.require_arrays(call)
    count = len(call.operands) // 2
    call.require(len(call.operands) % 2 == 1, "scatter_c13", "operands, indices, as many updates")
    inputs, indices, updates = (
        call.operands[:count],
        call.operands[count],
        call.operands[count + 1 :],
    )
    dims = IndexDims.of_scatter(call)
    for values, update in zip(inputs, updates, strict=True):
        check_index_dims(call, dims, values, indices, update.rank)
        _check_updates(call, dims, values, indices, update)
    rules.merge_dims(call, inputs, "c14")
    rules.merge_dims(call, updates, "c14")
    _check_combiner(call, inputs, updates)
    shapes = [s.without_layout() for s in inputs]
    return shapes[0] if count == 1 else tuple_of(*shapes)


def _check_updates(
    call: OpCall, dims: IndexDims, values: Shape, indices: Shape, update: Shape
) -> None:
    batch = dims.batch_dims(indices.rank)
    rank = len(batch) + len(dims.window)
    call.require(update.rank == rank, "scatter_c15", f"updates {update} must have rank {rank}")
    for axis, d in zip(dims.window, dims.windowed(values.rank), strict=True):
        fits = update.dims[axis] <= values.dims[d] or values.dims[d] == UNBOUNDED
        call.require(fits, "scatter_c16", f"window dimension {axis} of {update} exceeds {values}")
    for axis, d in zip(dims.batch_axes(rank), batch, strict=True):
        sizes = update.dims[axis], indices.dims[d]
        fits = UNBOUNDED in sizes or sizes[0] == sizes[1]
        call.require(fits, "scatter_c17", f"dimension {axis} of {update} does not fit {indices}")


def _check_combiner(call: OpCall, inputs: Sequence[Shape], updates: Sequence[Shape]) -> None:
    body: HloComputation = call["to_apply"]
    root = body.root.shape
    results = root.tuple_shapes if root.is_tuple else (root,)
    parameters = [p.shape for p in body.parameters]
    counts = len(results) == len(inputs) and len(parameters) == 2 * len(inputs)
    scalars = counts and all(s.is_scalar for s in (*results, *parameters))
    call.require(scalars, "scatter_c18", f"{body.name} must combine {len(inputs)} scalars each")
    for i, values in enumerate(inputs):
        wanted = values.element_type
        found = results[i], parameters[i], parameters[len(inputs) + i], updates[i]
        same = all(s.element_type is wanted for s in found)
        call.require(same, "scatter_c19", f"{body.name} and updates {i} must be of type {wanted}")


def evaluate_scatter(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Meaning of scatter.

    A window that is partly outside is dropped whole. Updates are applied in the row-major order
    of the index vectors, so duplicates are combined one after the other.
    """
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    dims = IndexDims.of_scatter(instruction)
    at, inside = flat_positions(inputs[0].shape, indices, updates[0].shape, dims)
    results = [np.array(values).reshape(-1) for values in inputs]
    lined = [_lined_up(update, dims)[inside].reshape(-1) for update in updates]
    with np.errstate(all="ignore"):
        combine_at(evaluation, instruction["to_apply"], results, at.reshape(-1), lined)
    shaped = tuple(r.reshape(v.shape) for r, v in zip(results, inputs, strict=True))
    return shaped if instruction.shape.is_tuple else shaped[0]


def _lined_up(update: Array, dims: IndexDims) -> Array:
    """One row per index vector, holding its window in row-major order."""
    axes = dims.batch_axes(update.ndim)
    rows = prod(update.shape[a] for a in axes)
    columns = prod(update.shape[a] for a in dims.window)
    return update.transpose([*axes, *dims.window]).reshape(rows, columns)


def flat_positions(
    sizes: Sequence[int], indices: Array, update_dims: Sequence[int], dims: IndexDims
) -> tuple[Array, Array]:
    """Where updates go in the flattened array, one row per window that is inside.

    Returns:
        ``[windows inside, window size]`` s64 positions, and one flag per window: is it inside.
    """
    rank = len(sizes)
    begins, batch = starts(indices, dims, rank)
    extents = dict.fromkeys(range(rank), 1)
    extents |= {d: update_dims[a] for a, d in zip(dims.window, dims.windowed(rank), strict=True)}
    inside = np.ones(batch, np.bool_)
    base, offsets = np.zeros(batch, np.int64), np.zeros((), np.int64)
    for d in range(rank):
        step = prod(sizes[d + 1 :])
        inside &= (begins[d] >= 0) & (begins[d] <= sizes[d] - extents[d])
        base = base + np.where(inside, begins[d], 0) * step
        offsets = offsets + along(np.arange(extents[d]) * step, d, rank)
    flags = inside.reshape(-1)
    return base.reshape(-1)[flags][:, np.newaxis] + offsets.reshape(-1), flags


def combine_at(
    evaluation: Evaluation,
    body: HloComputation,
    results: list[Array],
    at: Array,
    updates: list[Array],
) -> None:
    """Combines updates into flat arrays, in place, in the order given.

    Replacing, and opcodes whose NumPy counterpart does the same one by one, take one call. Others
    go in rounds: the first update of every position, then the second of those that have one, ...
    """
    single = len(results) == 1
    if single and body.root is body.parameters[1]:
        results[0][at] = updates[0]
        return
    monoid = monoid_of(body) if single else None
    if monoid is not None and _is_exact(monoid.ufunc, results[0].dtype):
        monoid.ufunc.at(results[0], at, updates[0])
        return
    for turn in rounds(at):
        here = at[turn]
        combined = evaluation.apply(
            body, [*(r[here] for r in results), *(u[turn] for u in updates)]
        )
        parts = combined if isinstance(combined, tuple) else (combined,)
        for result, part in zip(results, parts, strict=True):
            result[here] = part


def _is_exact(ufunc: np.ufunc, dtype: np.dtype[np.generic]) -> bool:
    """True if the ufunc is what the opcode means: not for narrow types, nor max of signed zeros."""
    if dtype.kind in "iub":
        return True
    return dtype in (np.float32, np.float64) and ufunc in (np.add, np.multiply)


def rounds(at: Array) -> Iterator[Array]:
    """Yields numbers of updates such that none has a position twice and their order is kept."""
    if not at.size:
        return
    order = np.argsort(at, kind="stable")
    first = np.concatenate([[True], np.diff(at[order]) != 0])
    group_start = np.maximum.accumulate(np.where(first, np.arange(at.size), 0))
    turn = np.arange(at.size) - group_start
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])
