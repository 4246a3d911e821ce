"""Opcodes that order elements."""

from __future__ import annotations

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.expense import ORDERING
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics.precision import widen
from xladev.hlo.numerics.reals import total_order_key
from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import rules
from xladev.hlo.ops.ordering import sorted_order
from xladev.hlo.shape import UNBOUNDED, Shape, tuple_of


def _infer_sort(call: OpCall) -> Shape:
    rules.require_arrays(call)
    merged = rules.merge_dims(call, call.operands, "c2")
    dims = call["dimensions"]
    call.require(len(dims) == 1, "sort_c3", f"{len(dims)} dimensions; one is sorted")
    rules.require_dims_in_range(call, dims, merged.rank, "c3")
    _check_comparator(call, call["to_apply"])
    shapes = [rules.with_type(merged, s.element_type) for s in call.operands]
    return shapes[0] if len(shapes) == 1 else tuple_of(*shapes)


def _check_comparator(call: OpCall, comparator: HloComputation) -> None:
    result, count = comparator.root.shape, len(call.operands)
    answers = result.is_scalar and result.element_type is dt.PRED
    call.require(answers, "sort_c4", f"comparator {comparator.name} gives {result}, not pred[]")
    taken = len(comparator.parameters)
    call.require(taken == 2 * count, "sort_c5", f"comparator takes {taken} values, not {2 * count}")
    for number, parameter in enumerate(comparator.parameters):
        wanted = call.operands[number // 2].element_type
        fits = parameter.shape.is_scalar and parameter.shape.element_type is wanted
        call.require(fits, "sort_c6", f"comparator's parameter {number} must be {wanted}[]")


def _evaluate_sort(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    axis = instruction["dimensions"][0]
    length = operands[0].shape[axis]
    if operands[0].size == 0 or length < 2:
        return operands if instruction.shape.is_tuple else operands[0]
    lines = [np.moveaxis(a, axis, -1).reshape(-1, length) for a in operands]
    with np.errstate(all="ignore"):
        order = sorted_order(evaluation, instruction["to_apply"], lines)
    order = np.moveaxis(order.reshape(np.moveaxis(operands[0], axis, -1).shape), -1, axis)
    results = tuple(np.take_along_axis(a, order, axis) for a in operands)
    return results if instruction.shape.is_tuple else results[0]


def _infer_topk(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,) = call.operands
    call.require(operand.rank > 0, "topk_c2", "a scalar has no last dimension")
    rules.require_kinds(call, operand, rules.ANY - rules.COMPLEX, "c3")
    k, last = call["k"], operand.dims[-1]
    fits = k >= 0 and (k <= last or last == UNBOUNDED)
    call.require(fits, "topk_c4", f"k={k} of {last} elements")
    flags = (*operand.dynamic[:-1], False) if operand.dynamic else ()
    values = rules.shape_like(operand, (*operand.dims[:-1], k), flags)
    return tuple_of(values, rules.with_type(values, dt.S32))


def _evaluate_topk(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    (array,) = operands
    keys = _order_key(array)
    if instruction["largest"]:
        keys = ~keys
    chosen = np.argsort(keys, axis=-1, kind="stable")[..., : instruction["k"]]
    return np.take_along_axis(array, chosen, -1), chosen.astype(np.int32)


def _order_key(array: Array) -> Array:
    """Integers in the order of the elements; floats in total order, NaN at the ends."""
    return total_order_key(array) if dt.by_numpy(array.dtype).is_float else widen(array)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "sort",
        (1, VARIADIC),
        "Sorts along one dimension by any comparator.",
        attrs=(
            Attr("dimensions", AttrKind.INTS, required=True),
            Attr("is_stable", AttrKind.BOOL, default=False),
            Attr("to_apply", AttrKind.COMPUTATION, required=True),
        ),
        infer=_infer_sort,
        evaluate=_evaluate_sort,
        category="shape",
        expense=ORDERING,
        over_operands=True,
        differences=(
            "Always stable. A comparator that is no strict weak order, such as LT on floats with "
            "NaN, gives some permutation, not necessarily XLA's.",
            "XLA:CPU gives numbers that were not there for integers of fewer than eight bits.",
        ),
    ),
    OpDef(
        "topk",
        1,
        "The k largest or smallest elements of the last dimension, with their indices.",
        attrs=(
            Attr("k", AttrKind.INT, required=True),
            Attr("largest", AttrKind.BOOL, default=True),
            Attr("is_stable", AttrKind.BOOL, default=False, shown=True),
        ),
        infer=_infer_topk,
        evaluate=_evaluate_topk,
        category="shape",
        differences=("Floats are in total order: NaN is largest, -NaN smallest; ties by index.",),
    ),
)
