"""Bounded dynamic shapes.

Within an evaluation an array has its live sizes (see `hlo/bounded.py`).
"""

from __future__ import annotations

from math import prod

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo import dtype as dt
from xladev.hlo.literal import Value
from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import rules
from xladev.hlo.shape import UNBOUNDED, Shape
from xladev.hlo.shape import array as array_shape

_LARGEST = 2**31 - 1


def _dimension(call: OpCall) -> int:
    """``OP_c2``, ``OP_c3``: one dimension, in range, of a size that s32 can hold."""
    operand, dims = call.operands[0], call["dimensions"]
    name = rules.constraint(call, "c2")
    call.require(len(dims) == 1, name, f"{len(dims)} dimensions; one is wanted")
    rules.require_dims_in_range(call, dims, operand.rank, "c2")
    size = operand.dims[dims[0]]
    call.require(size <= _LARGEST, rules.constraint(call, "c3"), f"size {size} exceeds s32")
    return int(dims[0])


def _infer_get_size(call: OpCall) -> Shape:
    rules.require_arrays(call)
    _dimension(call)
    return array_shape(dt.S32)


def _evaluate_get_size(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return np.array(operands[0].shape[instruction["dimensions"][0]], np.int32)


def _infer_set_size(call: OpCall) -> Shape:
    rules.require_arrays(call)
    operand, size = call.operands
    dimension = _dimension(call)
    fits = size.is_scalar and size.element_type is dt.S32
    call.require(fits, "set_dimension_size_c4", f"size {size} must be s32[]")
    flags = [operand.is_dynamic_dimension(d) for d in range(operand.rank)]
    flags[dimension] = True
    if call.declared is not None and call.declared.rank == operand.rank:
        flags[dimension] = call.declared.is_dynamic_dimension(dimension)
    return rules.shape_like(operand, operand.dims, flags)


def _evaluate_set_size(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Cuts the array; a dimension that grows again is filled with zeros."""
    del evaluation
    array, size = operands
    (d,) = instruction["dimensions"]
    wanted, bound = int(size), instruction.shape.dims[d]
    if not 0 <= wanted <= bound:
        raise EvaluationError(f"dimension {d} of bound {bound} cannot have size {wanted}")
    result = np.zeros((*array.shape[:d], wanted, *array.shape[d + 1 :]), array.dtype)
    live = (slice(None),) * d + (slice(min(wanted, array.shape[d])),)
    result[live] = array[live]
    return result


def _infer_dynamic_reshape(call: OpCall) -> Shape:
    operand, *sizes = call.operands
    rules.require_arrays(call)
    result = rules.declared_array(call)
    for shape in sizes:
        fits = shape.is_scalar and shape.element_type is dt.S32
        call.require(fits, "dynamic_reshape_c2", f"size {shape} must be s32[]")
    count = len(sizes)
    call.require(count == result.rank, "dynamic_reshape_c3", f"{count} sizes for {result}")
    unknown = UNBOUNDED in operand.dims or UNBOUNDED in result.dims
    call.require(
        unknown or operand.size == result.size,
        "dynamic_reshape_c4",
        f"{operand.size} elements cannot be {result.size}",
    )
    return rules.with_type(result, operand.element_type)


def _evaluate_dynamic_reshape(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    array, *sizes = operands
    dims = [int(s) for s in sizes]
    if min(dims, default=0) < 0 or prod(dims) != array.size:
        raise EvaluationError(f"{array.size} live elements cannot have sizes {dims}")
    return array.reshape(dims)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "get-dimension-size",
        1,
        "Run-time size of one dimension.",
        attrs=(Attr("dimensions", AttrKind.INTS, required=True),),
        infer=_infer_get_size,
        evaluate=_evaluate_get_size,
        category="dynamic",
    ),
    OpDef(
        "set-dimension-size",
        2,
        "Sets the run-time size of one dimension.",
        attrs=(Attr("dimensions", AttrKind.INTS, required=True),),
        infer=_infer_set_size,
        evaluate=_evaluate_set_size,
        category="dynamic",
        differences=(
            "A dimension that is cut and grows again is filled with zeros; XLA:CPU shows what the "
            "buffer held.",
        ),
    ),
    OpDef(
        "dynamic-reshape",
        (1, VARIADIC),
        "Reshape to sizes given at run time.",
        infer=_infer_dynamic_reshape,
        evaluate=_evaluate_dynamic_reshape,
        category="dynamic",
    ),
)
