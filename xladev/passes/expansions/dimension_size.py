"""Sizes of dimensions that are not dynamic: asked for, a constant; set or reshaped to, known.

TensorFlow sets the size of a dimension to its bound after a sort that it cuts short (top-k).
"""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import begin


def expand_get_dimension_size(instruction: HloInstruction) -> HloComputation | None:
    """The constant that it is; None where the operand is dynamic."""
    e, (x,) = begin(instruction)
    if x.shape.is_dynamic:
        return None
    (dimension,) = instruction["dimensions"]
    return e.build(e.scalar(x.shape.dims[dimension], dt.S32))


def expand_set_dimension_size(instruction: HloInstruction) -> HloComputation | None:
    """The operand; None where it or the result is dynamic.

    A result without dynamic dimension promises that the size is the dimension's bound
    (`ShapeInference::InferSetDimensionSizeShape` of XLA).
    """
    e, (x, _) = begin(instruction)
    if x.shape.is_dynamic or instruction.shape.is_dynamic:
        return None
    return e.build(x)


def expand_dynamic_reshape(instruction: HloInstruction) -> HloComputation | None:
    """A reshape; None where the operand or the result is dynamic.

    Sizes of a result without dynamic dimensions are its bounds: its elements are the operand's.
    """
    e, (x, *_) = begin(instruction)
    if x.shape.is_dynamic or instruction.shape.is_dynamic:
        return None
    return e.build(e.reshape(x, instruction.shape.dims))
