"""shuffle as slices joined the other way round."""

from __future__ import annotations

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import begin


def expand_shuffle(instruction: HloInstruction) -> HloComputation | None:
    """Each dimension rotated in turn; None where the operand is dynamic."""
    e, (x,) = begin(instruction)
    if x.shape.is_dynamic:
        return None
    for dimension, shift in zip(instruction["dimensions"], instruction["shifts"], strict=True):
        size = x.shape.dims[dimension]
        if size and shift % size:
            cut = shift % size
            parts = [e.slice_in(x, dimension, cut, size), e.slice_in(x, dimension, 0, cut)]
            x = e.concatenate(parts, dimension)
    return e.build(x)
