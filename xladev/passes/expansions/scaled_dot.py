"""scaled-dot as a dot of operands multiplied by their blocks' scales."""

from __future__ import annotations

from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, begin

_DIMS = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims")


def expand_scaled_dot(instruction: HloInstruction) -> HloComputation:
    """Operands and scales in f32, or f64 where one of them is; the result rounded once."""
    e, (lhs, rhs, lhs_scale, rhs_scale) = begin(instruction)
    result = instruction.shape.element_type
    types = [result, *(o.shape.element_type for o in instruction.operands)]
    wide = dt.F64 if dt.F64 in types else dt.F32
    left = _scaled(e, e.convert(lhs, wide), e.convert(lhs_scale, wide))
    right = _scaled(e, e.convert(rhs, wide), e.convert(rhs_scale, wide))
    dims: dict[str, Any] = {name: tuple(instruction[name]) for name in _DIMS}
    precision = instruction["operand_precision"][:2]  # those of scales ask nothing of the dot
    made = e.op("dot", left, right, operand_precision=precision, **dims)
    return e.build(e.convert(made, result))


def _scaled(e: Emitter, x: HloInstruction, scale: HloInstruction) -> HloInstruction:
    if scale.shape.is_scalar:
        return e.multiply(x, scale)
    sizes = x.shape.dims
    split = [
        part
        for size, blocks in zip(sizes, scale.shape.dims, strict=True)
        for part in (blocks, size // blocks)
    ]
    spread = e.broadcast(scale, split, tuple(range(0, 2 * len(sizes), 2)))
    return e.multiply(x, e.reshape(spread, sizes))
