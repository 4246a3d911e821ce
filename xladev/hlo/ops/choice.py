"""Elementwise opcodes that compare and choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import Kind
from xladev.hlo.expense import PAIR
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics import reals
from xladev.hlo.numerics.precision import widen
from xladev.hlo.opdef import Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import rules
from xladev.hlo.ops.binary import maximum, minimum
from xladev.hlo.shape import Shape

DIRECTIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_KINDS_OF_TYPE: Mapping[str | None, rules.Kinds] = {
    None: rules.ANY,
    "FLOAT": rules.FLOAT | rules.COMPLEX,
    "TOTALORDER": rules.FLOAT,
    "SIGNED": frozenset({Kind.SINT}),
    "UNSIGNED": frozenset({Kind.UINT, Kind.PRED}),
}


def _infer_compare(call: OpCall) -> Shape:
    rules.require_arrays(call)
    direction, comparison = call["direction"], call["type"]
    call.require(direction in DIRECTIONS, "compare_c2", f"unknown direction {direction!r}")
    call.require(comparison in _KINDS_OF_TYPE, "compare_c3", f"unknown type {comparison!r}")
    element_type = rules.same_element_type(call, call.operands, "c4")
    rules.require_kinds(call, call.operands[0], _KINDS_OF_TYPE[comparison], "c5")
    if element_type.is_complex and direction not in ("EQ", "NE"):
        call.fail("compare_c6", "complex numbers have no order")
    return rules.with_type(rules.merge_dims(call, call.operands, "c7"), dt.PRED)


def compare(a: Array, b: Array, direction: str, comparison: str | None = None) -> Array:
    """Where ``a`` relates so to ``b``; NaN is unordered unless ``comparison`` is TOTALORDER."""
    if comparison == "TOTALORDER":
        a, b = reals.total_order_key(a), reals.total_order_key(b)
    return np.asarray(DIRECTIONS[direction](widen(a), widen(b)))


def _evaluate_compare(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    with np.errstate(invalid="ignore"):
        a, b = operands
        return compare(a, b, instruction["direction"], instruction["type"])


def _infer_select(call: OpCall) -> Shape:
    pred, on_true, on_false = call.operands
    call.require(pred.element_type is dt.PRED, "select_c1", f"{pred} is not pred")
    if not (on_true.is_array and on_false.is_array):
        call.fail("select_c2", f"cannot choose between {on_true} and {on_false}")
    rules.same_element_type(call, (on_true, on_false), "c3")
    full = (on_true, on_false, pred) if pred.rank else (on_true, on_false)
    return rules.merge_dims(call, full, "c4")


def select(pred: Array, on_true: Array, on_false: Array) -> Array:
    """``on_true`` where ``pred``, which may be one for all elements, else ``on_false``."""
    return np.where(pred, on_true, on_false)


def _infer_clamp(call: OpCall) -> Shape:
    rules.require_arrays(call)
    low, operand, high = call.operands
    rules.same_element_type(call, call.operands, "c2")
    full = [operand, *(bound for bound in (low, high) if bound.rank)]
    return rules.merge_dims(call, full, "c3")


def clamp(low: Array, operand: Array, high: Array) -> Array:
    """min(max(operand, low), high); bounds may be scalars, NaN propagates."""
    return minimum(maximum(operand, low), high)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "compare",
        2,
        "Compares in one of six directions, floats by IEEE or total order.",
        attrs=(
            Attr("direction", AttrKind.WORD, required=True, proto="comparison_direction"),
            Attr("type", AttrKind.WORD, proto="comparison_type"),
        ),
        infer=_infer_compare,
        evaluate=_evaluate_compare,
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "select",
        3,
        "Second operand where the first is true, else the third.",
        forms=("The first operand may be one scalar for all elements.",),
        infer=_infer_select,
        evaluate=rules.elementwise(select),
        category="elementwise",
        elementwise=True,
    ),
    OpDef(
        "clamp",
        3,
        "Second operand limited to the range from the first to the third.",
        forms=(
            "The first and third operand may be scalars, each for itself, beside an array; they "
            "are then not broadcast.",
            "It is `minimum(maximum(operand, low), high)`: NaN in any of the three gives NaN, and "
            "where low is above high the result is high.",
        ),
        infer=_infer_clamp,
        evaluate=rules.elementwise(clamp),
        category="elementwise",
        expense=PAIR,
        elementwise=True,
    ),
)
