"""dot in canonical form: ``[batch..., m, k] x [batch..., k, n]`` around transposes and reshapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, begin


def is_canonical(dot: HloInstruction) -> bool:
    """True for one matrix dimension of each kind, behind equal leading batch dimensions."""
    lhs, rhs = dot.operands[0].shape, dot.operands[1].shape
    batch = tuple(range(len(dot["lhs_batch_dims"])))
    rank = len(batch) + 2
    return (
        lhs.rank == rank
        and rhs.rank == rank
        and tuple(dot["lhs_batch_dims"]) == batch
        and tuple(dot["rhs_batch_dims"]) == batch
        and tuple(dot["lhs_contracting_dims"]) == (rank - 1,)
        and tuple(dot["rhs_contracting_dims"]) == (rank - 2,)
    )


def expand_dot(instruction: HloInstruction) -> HloComputation | None:
    """Operands transposed and flattened; None if canonical already, sparse or scaled."""
    if is_canonical(instruction) or len(instruction.operands) != 2:
        return None
    if any(o.shape.is_dynamic for o in instruction.operands):
        return None
    e, (lhs, rhs) = begin(instruction)
    return e.build(canonical_dot(e, instruction, lhs, rhs))


def canonical_dot(
    e: Emitter, dot: HloInstruction, lhs: HloInstruction, rhs: HloInstruction
) -> HloInstruction:
    """The value of ``dot`` on given operands, through one canonical dot."""
    batch, contracting = tuple(dot["lhs_batch_dims"]), tuple(dot["lhs_contracting_dims"])
    free = _free(lhs, batch, contracting)
    left = _flattened(e, lhs, batch, free, contracting)
    batch, contracting = tuple(dot["rhs_batch_dims"]), tuple(dot["rhs_contracting_dims"])
    free = _free(rhs, batch, contracting)
    right = _flattened(e, rhs, batch, contracting, free)
    count = len(batch)
    dims = (*left.shape.dims[:-1], right.shape.dims[-1])
    leading = tuple(range(count))
    made = e.op(
        "dot", left, right,
        shape=array(dot.shape.element_type, dims),
        lhs_batch_dims=leading, rhs_batch_dims=leading,
        lhs_contracting_dims=(count + 1,), rhs_contracting_dims=(count,),
        operand_precision=dot["operand_precision"], algorithm=dot["algorithm"],
    )  # fmt: skip
    return e.reshape(made, dot.shape.dims)


def _free(x: HloInstruction, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {d for dims in used for d in dims}
    return tuple(d for d in range(x.shape.rank) if d not in taken)


def _flattened(
    e: Emitter, x: HloInstruction, batch: tuple[int, ...], *groups: tuple[int, ...]
) -> HloInstruction:
    """Batch dimensions first, then each group as one dimension."""
    sizes = x.shape.dims
    turned = e.transpose(x, (*batch, *(d for group in groups for d in group)))
    dims = (*(sizes[d] for d in batch), *(prod(sizes[d] for d in group) for group in groups))
    return e.reshape(turned, dims)
