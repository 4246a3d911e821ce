"""convolution with feature or batch groups as a loop over plain convolutions."""

from __future__ import annotations

from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, Operand, Values, begin


def expand_convolution(instruction: HloInstruction) -> HloComputation | None:
    """One convolution per group, each exactly its own work; None without groups."""
    features, batches = instruction["feature_group_count"], instruction["batch_group_count"]
    groups = features * batches
    if groups == 1 or len(instruction.operands) != 2:
        return None
    e, (lhs, rhs) = begin(instruction)
    d: ConvDims = instruction["dim_labels"]
    shape = instruction.shape
    axis = d.input_feature if features > 1 else d.input_batch
    width = lhs.shape.dims[axis] // groups
    outputs = shape.dims[d.output_feature] // groups
    plain = {k: v for k, v in instruction.attrs.items() if not k.endswith("_group_count")}

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        result, lhs, rhs = state
        left = _part(e, lhs, axis, e.multiply(number, width), width)
        first = e.multiply(number, outputs)
        right = _part(e, rhs, d.kernel_output_feature, first, outputs)
        dims = [outputs if i == d.output_feature else n for i, n in enumerate(shape.dims)]
        made = e.op("convolution", left, right, shape=array(shape.element_type, dims), **plain)
        at: list[Operand] = [first if i == d.output_feature else 0 for i in range(shape.rank)]
        return e.dynamic_update_slice(result, made, at), lhs, rhs

    zero = e.full(0, shape.element_type, shape.dims)
    return e.build(e.repeat(groups, (zero, lhs, rhs), step)[0])


def _part(
    e: Emitter, x: HloInstruction, axis: int, start: HloInstruction, size: int
) -> HloInstruction:
    starts: list[Operand] = [start if d == axis else 0 for d in range(x.shape.rank)]
    return e.dynamic_slice(
        x, starts, [size if d == axis else n for d, n in enumerate(x.shape.dims)]
    )
