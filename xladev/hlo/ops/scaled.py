"""Scaled dot: a dot of operands whose blocks each have a scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.accumulation import accumulator_of, rounded
from xladev.hlo.ops.contraction_rules import DotDims, check_dot, contract, product_type
from xladev.hlo.ops.dimension_rules import from_dimensions, require_array
from xladev.hlo.shape import Shape

_SIDES = ("lhs", "rhs")


def infer_scaled_dot(call: OpCall) -> Shape:
    """As a dot of lhs and rhs; a scale is a scalar or has a whole number of elements per block."""
    require_array(call)
    dims = DotDims.of(call)
    check_dot(call, dims)
    for at, side in enumerate(_SIDES):
        _check_scale(call, side, call.operands[at], call.operands[at + 2])
    lhs, rhs = call.operands[:2]
    return from_dimensions(
        product_type(call),
        (lhs, dims.lhs_batch),
        (lhs, dims.lhs_free(lhs.rank)),
        (rhs, dims.rhs_free(rhs.rank)),
    )


def _check_scale(call: OpCall, side: str, operand: Shape, scale: Shape) -> None:
    floating = scale.element_type.is_float
    call.require(floating, "scaled_dot_c14", f"the scale of {side} must be floating-point")
    if scale.is_scalar:
        return
    call.require(
        scale.rank == operand.rank, "scaled_dot_c15", f"{side} and its scale must have equal rank"
    )
    for size, blocks in zip(operand.dims, scale.dims, strict=True):
        if blocks == 0 or size % blocks:
            call.fail("scaled_dot_c16", f"{size} elements of {side} do not make {blocks} blocks")


def evaluate_scaled_dot(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Each operand times the scale of its block, then a dot."""
    element_type = instruction.shape.element_type
    wide = accumulator_of(element_type, *operands)
    lhs, rhs = (_scaled(operands[at], operands[at + 2], wide) for at in range(2))
    return rounded(contract(lhs, rhs, DotDims.of(instruction), wide), element_type)


def _scaled(operand: Array, scale: Array, wide: np.dtype[Any]) -> Array:
    scale = scale.astype(wide)
    for axis in range(scale.ndim):
        scale = np.repeat(scale, operand.shape[axis] // scale.shape[axis], axis)
    return operand.astype(wide) * scale
