"""Opcodes that run computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.registry import evaluate_custom_call, infer_custom_call
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Value
from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import moved, rules
from xladev.hlo.ops.index_dims import Attributes
from xladev.hlo.shape import Shape, tuple_of
from xladev.instrument.interruption import LoopWatch


def check_call(
    call: OpCall, body: HloComputation, arguments: Sequence[Shape], rules_: tuple[str, str]
) -> Shape:
    """Two rules: as many arguments as parameters, and of their shapes. Gives the result."""
    taken = len(body.parameters)
    call.require(
        taken == len(arguments),
        rules_[0],
        f"{body.name} takes {taken} values, not {len(arguments)}",
    )
    for parameter, argument in zip(body.parameters, arguments, strict=True):
        fits = rules.compatible(parameter.shape, argument)
        call.require(fits, rules_[1], f"{body.name} takes {parameter.shape}, not {argument}")
    return body.root.shape.without_layout()


def _infer_while(call: OpCall) -> Shape:
    (state,) = call.operands
    condition, body = call["condition"], call["body"]
    answer = check_call(call, condition, call.operands, ("while_c1", "while_c2"))
    result = check_call(call, body, call.operands, ("while_c3", "while_c4"))
    logical = answer.is_scalar and answer.element_type is dt.PRED
    call.require(logical, "while_c5", f"condition {condition.name} gives {answer}, not pred[]")
    fits = rules.compatible(result, state)
    call.require(fits, "while_c6", f"body {body.name} gives {result} for a state of {state}")
    return state.without_layout()


def _evaluate_while(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    (state,) = operands
    condition, body = instruction["condition"], instruction["body"]
    watch = LoopWatch()
    while bool(evaluation.call(condition, (state,))):
        state = evaluation.call(body, (state,))
        watch.look()
    return state


def branches(attrs: Attributes) -> tuple[HloComputation, ...]:
    """Branch computations in order; of a conditional on pred, false's is the second."""
    named = attrs["true_computation"], attrs["false_computation"]
    return tuple(attrs["branch_computations"] or (c for c in named if c is not None))


def branch_attributes(selector: Shape, bodies: Sequence[HloComputation]) -> dict[str, Any]:
    """The attributes of a conditional that `branches` reads: XLA has one spelling per selector."""
    if selector.element_type is not dt.PRED:
        return {"branch_computations": tuple(bodies)}
    true, false = bodies
    return {"true_computation": true, "false_computation": false}


def _infer_conditional(call: OpCall) -> Shape:
    selector, *arguments = call.operands
    chosen = branches(call)
    kinds = selector.is_scalar and selector.element_type in (dt.PRED, dt.S32)
    call.require(kinds, "conditional_c1", f"{selector} is neither pred[] nor s32[]")
    enough = len(chosen) == 2 if selector.element_type is dt.PRED else len(chosen) > 0
    call.require(enough, "conditional_c2", f"{len(chosen)} branches for {selector}")
    count = len(arguments)
    call.require(count == len(chosen), "conditional_c3", f"{count} arguments for {len(chosen)}")
    results = [
        check_call(call, body, (argument,), ("conditional_c4", "conditional_c5"))
        for body, argument in zip(chosen, arguments, strict=True)
    ]
    for body, result in zip(chosen, results, strict=True):
        fits = rules.compatible(result.static(), results[0].static())
        call.require(fits, "conditional_c6", f"{body.name} gives {result}, not {results[0]}")
    return _merged(call, results)


def _merged(call: OpCall, shapes: Sequence[Shape]) -> Shape:
    """Shape of all branches, dynamic where one of them is."""
    first = shapes[0]
    if first.is_tuple:
        columns = zip(*(s.tuple_shapes for s in shapes), strict=True)
        return tuple_of(*(_merged(call, column) for column in columns))
    return rules.merge_dims(call, shapes, "c6") if first.is_array else first


def _evaluate_conditional(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Index 0 is true's branch; an index out of range takes the last branch."""
    selector, *arguments = operands
    chosen = branches(instruction)
    if selector.dtype == bool:
        at = 0 if selector else 1
    else:
        at = int(selector) if 0 <= selector < len(chosen) else len(chosen) - 1
    return evaluation.call(chosen[at], (arguments[at],))


def _infer_call(call: OpCall) -> Shape:
    return check_call(call, call["to_apply"], call.operands, ("call_c1", "call_c2"))


def _evaluate_call(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    return evaluation.call(instruction["to_apply"], operands)


FUSION_KINDS = frozenset({"kLoop", "kInput", "kOutput", "kCustom"})


def _infer_fusion(call: OpCall) -> Shape:
    kind = call["kind"]
    call.require(kind in FUSION_KINDS, "fusion_c1", f"unknown kind {kind!r}")
    return check_call(call, call["calls"], call.operands, ("fusion_c2", "fusion_c3"))


def _evaluate_fusion(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    return evaluation.call(instruction["calls"], operands)


def _infer_custom_call(call: OpCall) -> Shape:
    target, constrained = call["custom_call_target"], call["operand_layout_constraints"]
    call.require(bool(target), "custom_call_c1", "the target has no name")
    if constrained is not None:
        counts = len(constrained), len(call.operands)
        call.require(
            counts[0] == counts[1],
            "custom_call_c2",
            f"{counts[0]} layouts for {counts[1]} operands",
        )
    return infer_custom_call(call).without_layout()


OPS: tuple[OpDef, ...] = (
    OpDef(
        "while",
        1,
        "Repeats body while condition holds.",
        attrs=(
            Attr("condition", AttrKind.COMPUTATION, required=True),
            Attr("body", AttrKind.COMPUTATION, required=True),
        ),
        infer=_infer_while,
        evaluate=_evaluate_while,
        category="control",
        moved=moved.nothing,
    ),
    OpDef(
        "conditional",
        (2, VARIADIC),
        "Runs one of several computations.",
        attrs=(
            Attr("true_computation", AttrKind.COMPUTATION),
            Attr("false_computation", AttrKind.COMPUTATION),
            Attr("branch_computations", AttrKind.COMPUTATIONS),
        ),
        infer=_infer_conditional,
        evaluate=_evaluate_conditional,
        category="control",
        moved=moved.nothing,
    ),
    OpDef(
        "call",
        (0, VARIADIC),
        "Runs a computation.",
        attrs=(
            Attr("to_apply", AttrKind.COMPUTATION, required=True),
            Attr("is_composite", AttrKind.BOOL, default=False),
            Attr(
                "output_to_operand_aliasing",
                AttrKind.ALIASING,
                default=(),
                proto="output_operand_aliasing",
            ),
        ),
        infer=_infer_call,
        evaluate=_evaluate_call,
        category="control",
        moved=moved.nothing,
    ),
    OpDef(
        "fusion",
        (0, VARIADIC),
        "Runs a computation as one kernel.",
        attrs=(
            Attr("kind", AttrKind.WORD, required=True, proto="fusion_kind"),
            Attr(
                "output_to_operand_aliasing",
                AttrKind.ALIASING,
                default=(),
                proto="output_operand_aliasing",
            ),
            Attr("calls", AttrKind.COMPUTATION, required=True),
        ),
        infer=_infer_fusion,
        evaluate=_evaluate_fusion,
        category="fusion",
        moved=moved.nothing,
    ),
    OpDef(
        "custom-call",
        (0, VARIADIC),
        "Calls a function known by name.",
        attrs=(
            Attr("window", AttrKind.WINDOW, default=()),
            Attr("dim_labels", AttrKind.CONV_DIMS, proto="convolution_dimension_numbers"),
            Attr("feature_group_count", AttrKind.INT, default=1),
            Attr("batch_group_count", AttrKind.INT, default=1),
            Attr("custom_call_target", AttrKind.STRING, required=True),
            Attr("operand_layout_constraints", AttrKind.SHAPES, proto="operand_shapes_with_layout"),
            Attr("custom_call_has_side_effect", AttrKind.BOOL, default=False),
            Attr("to_apply", AttrKind.COMPUTATION),
            Attr("called_computations", AttrKind.COMPUTATIONS, default=()),
            Attr(
                "output_to_operand_aliasing",
                AttrKind.ALIASING,
                default=(),
                proto="output_operand_aliasing",
            ),
            Attr("padding_type", AttrKind.WORD, default="PADDING_INVALID"),
            Attr("literal", AttrKind.LITERAL),
            Attr(
                "operand_precision",
                AttrKind.WORDS,
                default=(),
                proto="precision_config.operand_precision",
            ),
            Attr("schedule", AttrKind.WORD, default="SCHEDULE_NONE", proto="custom_call_schedule"),
            Attr(
                "api_version",
                AttrKind.WORD,
                default="API_VERSION_ORIGINAL",
                proto="custom_call_api_version",
            ),
        ),
        infer=_infer_custom_call,
        evaluate=evaluate_custom_call,
        category="fusion",
    ),
)
