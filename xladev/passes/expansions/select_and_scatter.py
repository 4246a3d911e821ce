"""select-and-scatter as a window reduction that finds indices, and a scatter to them."""

from __future__ import annotations

from math import prod

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, begin


def expand_select_and_scatter(instruction: HloInstruction) -> HloComputation:
    """Of each window the first element that ``select`` keeps; padding is never chosen."""
    e, (operand, source, init) = begin(instruction)
    element_type, dims = operand.shape.element_type, operand.shape.dims
    result = e.broadcast(init, (prod(dims),), ())
    if not source.shape.size or not operand.shape.size:
        return e.build(e.reshape(result, dims))
    index_type = dt.S32 if prod(dims) < 2**31 else dt.S64
    index = e.reshape(e.iota(index_type, (prod(dims),), 0), dims)
    found = e.op(
        "reduce-window", operand, index, init, e.scalar(-1, index_type),
        window=instruction["window"],
        to_apply=_chooser(instruction["select"], element_type, index_type),
    )  # fmt: skip
    chosen = e.reshape(e.parts(found)[1], (source.shape.size, 1))
    updates = e.reshape(source, (source.shape.size,))
    made = e.op(
        "scatter", result, chosen, updates,
        to_apply=instruction["scatter"], update_window_dims=(), inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
    )  # fmt: skip
    return e.build(e.reshape(made, dims))


def _chooser(
    select: HloComputation, element_type: PrimitiveType, index_type: PrimitiveType
) -> HloComputation:
    """(kept value, its index, next value, its index) -> what is kept; index -1 is nothing."""
    e = Emitter("choose")
    kinds = (element_type, index_type) * 2
    kept, kept_at, value, at = (e.parameter(array(t)) for t in kinds)
    wanted = e.op("call", kept, value, to_apply=select)
    stays = e.op("and", wanted, e.compare("GE", kept_at, 0))
    stays = e.op("or", stays, e.compare("LT", at, 0))
    return e.build(e.op("tuple", e.select(stays, kept, value), e.select(stays, kept_at, at)))
