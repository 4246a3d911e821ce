"""Batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import (
    Attr,
    AttrKind,
    Cost,
    Evaluation,
    InstructionView,
    OpCall,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops.accumulation import accumulator, rounded
from xladev.hlo.ops.dimension_rules import require_array
from xladev.hlo.shape import UNBOUNDED, Shape, array, tuple_of

_BATCH_NORM = (
    Attr("epsilon", AttrKind.FLOAT, required=True),
    Attr("feature_index", AttrKind.INT, required=True),
)
_DIFFERENCES = (
    "Mean and variance are computed in two passes in f64 (f32 for narrower floats) and rounded "
    "once; XLA computes the variance as mean(x*x) - mean(x)*mean(x) in the operand's type.",
)


def check_batch_norm(call: OpCall, per_feature: Sequence[int]) -> Shape:
    """Checks the operand and the per-feature vectors at ``per_feature``; gives a vector's shape.

    Raises:
        ShapeError: ``<op>_c1`` feature index, ``_c2`` element types, ``_c3`` vector sizes.
    """
    require_array(call)
    name = call.op.name.replace("-", "_")
    operand, axis = call.operands[0], call["feature_index"]
    inside = 0 <= axis < operand.rank
    call.require(inside, f"{name}_c1", f"feature_index {axis} is no dimension of {operand}")
    floating = all(shape.element_type.is_float for shape in call.operands)
    call.require(floating, f"{name}_c2", "all operands must be floating-point")
    features = operand.dims[axis]
    for at in per_feature:
        found = call.operands[at].dims
        same = found == (features,) or UNBOUNDED in (*found, features)
        call.require(same, f"{name}_c3", f"operand {at} must have {features} elements")
    return array(operand.element_type, (features,), dynamic=(operand.is_dynamic_dimension(axis),))


def infer_training(call: OpCall) -> Shape:
    """The normalised operand, its mean and its variance per feature."""
    vector = check_batch_norm(call, (1, 2))
    return tuple_of(call.operands[0].without_layout(), vector, vector)


def infer_inference(call: OpCall) -> Shape:
    """Shape of the operand."""
    check_batch_norm(call, (1, 2, 3, 4))
    return call.operands[0].without_layout()


def infer_grad(call: OpCall) -> Shape:
    """Gradients of operand, scale and offset."""
    vector = check_batch_norm(call, (1, 2, 3))
    operand, grad = call.operands[0], call.operands[4]
    same = operand.dims == grad.dims
    call.require(same, "batch_norm_grad_c4", "the gradient must have the dimensions of the operand")
    return tuple_of(operand.without_layout(), vector, vector)


class _Features:
    """Broadcasting between an operand and vectors of one value per feature, in a wide type."""

    def __init__(self, instruction: InstructionView, operand: Array, wide: np.dtype[Any]) -> None:
        axis = instruction["feature_index"]
        self.wide = wide
        self.others = tuple(i for i in range(operand.ndim) if i != axis)
        self.dims = [-1 if i == axis else 1 for i in range(operand.ndim)]
        self.count = operand.size // max(operand.shape[axis], 1)

    def spread(self, vector: Array) -> Array:
        """The vector, so that it broadcasts against the operand."""
        return vector.astype(self.wide).reshape(self.dims)

    def mean(self, values: Array) -> Array:
        """Mean per feature, so that it broadcasts against the operand."""
        total: Any = values.sum(axis=self.others, keepdims=True, dtype=self.wide)
        return np.asarray(total / self.wide.type(self.count))


def _normalised(
    values: Array, mean: Array, variance: Array, scale: Array, offset: Array, epsilon: float
) -> Array:
    return (values - mean) / np.sqrt(variance + epsilon) * scale + offset


def evaluate_training(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Normalises with the mean and the (biased) variance of each feature."""
    operand, scale, offset = operands
    types = [part.element_type for part in instruction.shape.tuple_shapes]
    wide = accumulator(types[0])
    features = _Features(instruction, operand, wide)
    values = operand.astype(wide)
    mean = features.mean(values)
    variance = features.mean(np.square(values - mean))
    result = _normalised(
        values, mean, variance, features.spread(scale), features.spread(offset),
        wide.type(instruction["epsilon"]),
    )  # fmt: skip
    return (
        rounded(result, types[0]),
        rounded(mean.reshape(-1), types[1]),
        rounded(variance.reshape(-1), types[2]),
    )


def evaluate_inference(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """(operand - mean) / sqrt(variance + epsilon) * scale + offset."""
    element_type = instruction.shape.element_type
    wide = accumulator(element_type)
    features = _Features(instruction, operands[0], wide)
    scale, offset, mean, variance = map(features.spread, operands[1:])
    epsilon = wide.type(instruction["epsilon"])
    values = operands[0].astype(wide)
    return rounded(_normalised(values, mean, variance, scale, offset, epsilon), element_type)


def evaluate_grad(_: Evaluation, instruction: InstructionView, operands: Sequence[Value]) -> Value:
    """Gradients of `evaluate_training`'s first result; mean and variance are those it gave.

    With c = x - mean, s = 1 / sqrt(variance + epsilon) and means over each feature:
    d_x = scale * s * (g - mean(g) - c * s^2 * mean(g * c)); d_scale = sum(g * c) * s;
    d_offset = sum(g).
    """
    types = [part.element_type for part in instruction.shape.tuple_shapes]
    wide = accumulator(types[0])
    features = _Features(instruction, operands[0], wide)
    scale, mean, variance = map(features.spread, operands[1:4])
    inverse = 1 / np.sqrt(variance + wide.type(instruction["epsilon"]))
    centred, grad = operands[0].astype(wide) - mean, operands[4].astype(wide)
    mean_grad, mean_product = features.mean(grad), features.mean(grad * centred)
    d_operand = scale * inverse * (grad - mean_grad - centred * inverse**2 * mean_product)
    count = wide.type(features.count)
    return (
        rounded(d_operand, types[0]),
        rounded((mean_product * inverse * count).reshape(-1), types[1]),
        rounded((mean_grad * count).reshape(-1), types[2]),
    )


def batch_norm_cost(result: Shape, operands: tuple[Shape, ...], _: InstructionView) -> Cost:
    """About eight flops per element, and one root per feature."""
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=8 * operands[0].size, transcendentals=operands[1].size, bytes_accessed=moved)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "batch-norm-training",
        3,
        "Normalises by the batch's mean and variance, and returns them.",
        attrs=_BATCH_NORM,
        infer=infer_training,
        evaluate=evaluate_training,
        category="training",
        tolerance=Tolerance.SUM,
        differences=_DIFFERENCES,
        cost=batch_norm_cost,
    ),
    OpDef(
        "batch-norm-inference",
        5,
        "Normalises by given mean and variance.",
        attrs=_BATCH_NORM,
        infer=infer_inference,
        evaluate=evaluate_inference,
        category="training",
        tolerance=Tolerance.SUM,
        differences=(
            "Floats narrower than f32 are computed in f32 and rounded once; XLA rounds each of "
            "the steps, which cancel: 50 ulp were seen in f16.",
        ),
        cost=batch_norm_cost,
    ),
    OpDef(
        "batch-norm-grad",
        5,
        "Gradients of operand, scale and offset.",
        attrs=_BATCH_NORM,
        infer=infer_grad,
        evaluate=evaluate_grad,
        category="training",
        tolerance=Tolerance.SUM,
        differences=_DIFFERENCES,
        cost=batch_norm_cost,
    ),
)
