"""ragged-dot as a loop over groups, each a dot in which other groups do not take part.

Every group works on all rows; only their number, not the memory, grows with the groups.
"""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.ops.ragged import prefix_axes, ragged_mode
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, Operand, Values, begin

Axes = tuple[int, ...]


def expand_ragged_dot(instruction: HloInstruction) -> HloComputation:
    """See the module; a ragged batch dimension is an ordinary one."""
    e, (lhs, rhs, sizes) = begin(instruction)
    mode = ragged_mode(instruction)
    dims = DotDims.of(instruction)
    if mode == "batch" or not instruction.shape.size:
        return e.build(_dot(e, instruction, lhs, rhs, dims))
    ragged = instruction["lhs_ragged_dims"][0]
    axes = (*prefix_axes(dims, ragged, mode, lhs.shape.rank), ragged)
    members = _members(e, sizes, tuple(lhs.shape.dims[a] for a in axes))
    if mode == "contracting":
        return e.build(_contracting(e, instruction, (lhs, rhs, members), axes))
    return e.build(_free_rows(e, instruction, (lhs, rhs, members), axes))


def _members(e: Emitter, sizes: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    """Flags ``[groups, *dims]``: which slices of the last dimension a group holds."""
    wide = e.convert(sizes, dt.S64)
    groups = sizes.shape.dims[-1]
    if sizes.shape.rank == 1:
        wide = e.broadcast(wide, (*dims[:-1], groups), (len(dims) - 1,))
    square = (groups, groups)
    earlier = e.compare("LE", e.iota(dt.S32, square, 0), e.iota(dt.S32, square, 1))
    rank = len(dims)
    spread = e.broadcast(wide, (*dims[:-1], groups, groups), tuple(range(rank)))
    mask = e.broadcast(earlier, spread.shape.dims, (rank - 1, rank))
    ends = e.reduce(e.select(mask, spread, 0), (rank - 1,))
    starts = e.subtract(ends, wide)
    order = (rank - 1, *range(rank - 1))
    whole = (groups, *dims)
    at = e.iota(dt.S64, whole, rank)
    low, high = (
        e.broadcast(e.transpose(x, order), whole, tuple(range(rank))) for x in (starts, ends)
    )
    return e.op("and", e.compare("LE", low, at), e.compare("LT", at, high))


def _pick(e: Emitter, x: HloInstruction, axis: int, at: HloInstruction) -> HloInstruction:
    """One index of one dimension, which disappears."""
    dims = x.shape.dims
    starts = [at if d == axis else 0 for d in range(len(dims))]
    block = e.dynamic_slice(x, starts, [1 if d == axis else n for d, n in enumerate(dims)])
    return e.reshape(block, (*dims[:axis], *dims[axis + 1 :]))


def _kept(e: Emitter, flags: HloInstruction, axes: Axes, x: HloInstruction) -> HloInstruction:
    """``x`` where the flags over ``axes`` hold, zero elsewhere."""
    return e.select(e.broadcast(flags, x.shape.dims, axes), x, 0)


def _contracting(
    e: Emitter, instruction: HloInstruction, operands: Values, axes: Axes
) -> HloInstruction:
    """One product per group, over the terms that belong to it."""
    dims = DotDims.of(instruction)
    lhs_axes = dims.lhs_batch + dims.lhs_contracting
    rhs_axes = dims.rhs_batch + dims.rhs_contracting
    paired = tuple(dict(zip(lhs_axes, rhs_axes, strict=True))[a] for a in axes)
    shape = instruction.shape

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        result, lhs, rhs, members = state
        flags = _pick(e, members, 0, number)
        left, right = _kept(e, flags, axes, lhs), _kept(e, flags, paired, rhs)
        product = _dot(e, instruction, left, right, dims)
        row = e.reshape(product, (1, *shape.dims[1:]))
        start: list[Operand] = [number, *([0] * (shape.rank - 1))]
        return e.dynamic_update_slice(result, row, start), lhs, rhs, members

    zero = e.full(0, shape.element_type, shape.dims)
    return e.repeat(shape.dims[0], (zero, *operands), step)[0]


def _free_rows(
    e: Emitter, instruction: HloInstruction, operands: Values, axes: Axes
) -> HloInstruction:
    """Each row times the rhs of its group; rows of no group are zero."""
    dims, shape = DotDims.of(instruction), instruction.shape
    lhs, _, members = operands
    (group,) = instruction["rhs_group_dims"]
    inner = DotDims(
        dims.lhs_batch,
        dims.lhs_contracting,
        tuple(a - (a > group) for a in dims.rhs_batch),
        tuple(a - (a > group) for a in dims.rhs_contracting),
    )
    order = dims.lhs_batch + dims.lhs_free(lhs.shape.rank)
    at = tuple(order.index(a) for a in axes)

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        result, lhs, rhs, members = state
        product = _dot(e, instruction, lhs, _pick(e, rhs, group, number), inner)
        flags = e.broadcast(_pick(e, members, 0, number), shape.dims, at)
        return e.select(flags, product, result), lhs, rhs, members

    zero = e.full(0, shape.element_type, shape.dims)
    return e.repeat(members.shape.dims[0], (zero, *operands), step)[0]


def _dot(
    e: Emitter, instruction: HloInstruction, lhs: HloInstruction, rhs: HloInstruction,
    dims: DotDims,
) -> HloInstruction:  # fmt: skip
    """A dot whose result has the type of the whole."""
    sizes = [lhs.shape.dims[a] for a in dims.lhs_batch + dims.lhs_free(lhs.shape.rank)]
    sizes += [rhs.shape.dims[a] for a in dims.rhs_free(rhs.shape.rank)]
    return e.op(
        "dot", lhs, rhs, shape=array(instruction.shape.element_type, sizes),
        lhs_batch_dims=dims.lhs_batch, lhs_contracting_dims=dims.lhs_contracting,
        rhs_batch_dims=dims.rhs_batch, rhs_contracting_dims=dims.rhs_contracting,
        operand_precision=instruction["operand_precision"],
    )  # fmt: skip
