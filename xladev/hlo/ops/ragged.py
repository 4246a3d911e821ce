"""Ragged dot: a dot whose operands are cut into groups of run-time size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.accumulation import accumulator_of, rounded
from xladev.hlo.ops.contraction_rules import Axes, DotDims, check_dot, contract, product_type
from xladev.hlo.ops.dimension_rules import from_dimensions, remaining, require_axes
from xladev.hlo.shape import Shape


def ragged_mode(source: OpCall | InstructionView) -> str:
    """What the ragged dimension of lhs is: ``contracting``, ``batch`` or ``free``."""
    dims, ragged = DotDims.of(source), source["lhs_ragged_dims"][0]
    if ragged in dims.lhs_contracting:
        return "contracting"
    return "batch" if ragged in dims.lhs_batch else "free"


def prefix_axes(dims: DotDims, ragged: int, mode: str, rank: int) -> Axes:
    """Dimensions of lhs that group sizes may vary over: batch, then those before the ragged one."""
    if mode == "batch":
        return dims.lhs_batch[: dims.lhs_batch.index(ragged)]
    others = dims.lhs_contracting if mode == "contracting" else dims.lhs_free(rank)
    return dims.lhs_batch + others[: others.index(ragged)]


def infer_ragged_dot(call: OpCall) -> Shape:
    """``[m,k],[g,k,n]->[m,n]``, ``[m,k],[k,n]->[g,m,n]`` or ``[b,m,k],[b,k,n]->[b,m,n]``."""
    dims = DotDims.of(call)
    check_dot(call, dims)
    lhs, rhs, sizes = call.operands
    one = len(call["lhs_ragged_dims"]) == 1
    call.require(one, "ragged_dot_c1", "there must be exactly one ragged dimension of lhs")
    require_axes(call, "lhs_ragged_dims", call["lhs_ragged_dims"], lhs.rank, "ragged_dot_c1")
    mode, groups = ragged_mode(call), tuple(call["rhs_group_dims"])
    _check_group_sizes(call, dims, mode)
    _check_groups(call, dims, mode, groups)
    free = remaining(rhs.rank, dims.rhs_batch, dims.rhs_contracting, groups)
    count = (sizes, (sizes.rank - 1,) if mode == "contracting" else ())
    lhs_free = dims.lhs_free(lhs.rank)
    return from_dimensions(
        product_type(call), count, (lhs, dims.lhs_batch), (lhs, lhs_free), (rhs, free)
    )


def _check_group_sizes(call: OpCall, dims: DotDims, mode: str) -> None:
    lhs, _, sizes = call.operands
    integers = sizes.is_array and sizes.element_type.is_integral
    call.require(integers, "ragged_dot_c2", "group sizes must be integers")
    call.require(sizes.rank >= 1, "ragged_dot_c3", "group sizes must have a dimension of groups")
    prefix = prefix_axes(dims, call["lhs_ragged_dims"][0], mode, lhs.rank)
    wanted = tuple(lhs.dims[axis] for axis in prefix)
    if sizes.rank > 1 and sizes.dims[:-1] != wanted:
        call.fail("ragged_dot_c3", f"group sizes must have dimensions {list(wanted)} and groups")


def _check_groups(call: OpCall, dims: DotDims, mode: str, groups: Axes) -> None:
    _, rhs, sizes = call.operands
    if mode != "free":
        what = f"a {mode} ragged dimension allows no rhs_group_dims"
        call.require(not groups, "ragged_dot_c4", what)
        return
    call.require(len(groups) == 1, "ragged_dot_c4", "rhs_group_dims must name one dimension")
    require_axes(call, "rhs_group_dims", groups, rhs.rank, "ragged_dot_c5")
    taken = dims.rhs_batch + dims.rhs_contracting
    call.require(groups[0] not in taken, "ragged_dot_c5", "the group dimension must be free")
    same = rhs.dims[groups[0]] == sizes.dims[-1]
    call.require(same, "ragged_dot_c6", "rhs must have one group per group size")


def evaluate_ragged_dot(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """One dot per group of consecutive slices of the ragged dimension; outside of groups, zero."""
    lhs, rhs, sizes = operands
    dims, mode = DotDims.of(instruction), ragged_mode(instruction)
    element_type = instruction.shape.element_type
    wide = accumulator_of(element_type, lhs, rhs)
    if mode == "batch":
        return rounded(contract(lhs, rhs, dims, wide), element_type)
    ragged = instruction["lhs_ragged_dims"][0]
    axes = (*prefix_axes(dims, ragged, mode, lhs.ndim), ragged)
    members = _members(sizes, tuple(lhs.shape[axis] for axis in axes))
    if mode == "contracting":
        product = _contracting_groups(lhs, rhs, members, axes, dims, wide)
    else:
        groups = np.moveaxis(rhs, instruction["rhs_group_dims"][0], 0)
        inner = _without(dims, instruction["rhs_group_dims"][0])
        product = _row_groups(lhs, groups, members, axes, inner, wide)
    return rounded(product, element_type)


def _members(sizes: Array, dims: tuple[int, ...]) -> Array:
    """Flags ``[groups, *dims]``: which slices of the last (ragged) dimension a group holds."""
    sizes = np.broadcast_to(sizes.astype(np.int64), (*dims[:-1], sizes.shape[-1]))
    ends = np.moveaxis(np.cumsum(sizes, axis=-1), -1, 0)[..., None]
    starts = ends - np.moveaxis(sizes, -1, 0)[..., None]
    at = np.arange(dims[-1])
    return (starts <= at) & (at < ends)


def _spread(flags: Array, axes: Axes, rank: int) -> Array:
    """Flags over ``axes`` as an array that broadcasts against one of ``rank`` dimensions."""
    ordered = flags.transpose(np.argsort(axes))
    sizes = dict(zip(sorted(axes), ordered.shape, strict=True))
    return ordered.reshape([sizes.get(axis, 1) for axis in range(rank)])


def _without(dims: DotDims, group: int) -> DotDims:
    """Dimension numbers of a rhs from which the group dimension was taken."""
    batch = tuple(axis - (axis > group) for axis in dims.rhs_batch)
    contracting = tuple(axis - (axis > group) for axis in dims.rhs_contracting)
    return DotDims(dims.lhs_batch, dims.lhs_contracting, batch, contracting)


def _row_groups(
    lhs: Array, groups: Array, members: Array, axes: Axes, dims: DotDims, wide: np.dtype[Any]
) -> Array:
    """Each row times the rhs of its group; rows of no group are zero."""
    order = dims.lhs_batch + dims.lhs_free(lhs.ndim)
    result_axes = tuple(order.index(axis) for axis in axes)
    free = dims.rhs_free(groups.ndim - 1)
    shape = [lhs.shape[axis] for axis in order] + [groups.shape[1 + axis] for axis in free]
    result = np.zeros(shape, wide)
    for rhs, rows in zip(groups, members, strict=True):
        product = contract(lhs, rhs, dims, wide)
        result = np.where(_spread(rows, result_axes, result.ndim), product, result)
    return result


def _contracting_groups(
    lhs: Array, rhs: Array, members: Array, axes: Axes, dims: DotDims, wide: np.dtype[Any]
) -> Array:
    """One product per group, over the terms that belong to it."""
    pairs = dict(
        zip(
            dims.lhs_batch + dims.lhs_contracting,
            dims.rhs_batch + dims.rhs_contracting,
            strict=True,
        )
    )
    rhs_axes = tuple(pairs[axis] for axis in axes)
    products: list[Array] = []
    for terms in members:
        left = np.where(_spread(terms, axes, lhs.ndim), lhs, np.zeros((), lhs.dtype))
        right = np.where(_spread(terms, rhs_axes, rhs.ndim), rhs, np.zeros((), rhs.dtype))
        products.append(contract(left, right, dims, wide))
    if products:
        return np.stack(products)
    empty = contract(lhs, rhs, dims, wide)
    return empty[None][:0]
