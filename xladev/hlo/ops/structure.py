"""Opcodes that name, group and pass values on."""

from __future__ import annotations

import numpy as np

from xladev.hlo import physical
from xladev.hlo.expense import FREE
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import moved, rules
from xladev.hlo.shape import TOKEN_SHAPE, Shape, tuple_of


def infer_same(call: OpCall) -> Shape:
    """Shape rule: the result is as the first operand."""
    return call.operands[0].without_layout()


def evaluate_first(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """The first operand."""
    del evaluation, instruction
    return operands[0]


def evaluate_token(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """A token, which has no value."""
    del evaluation, instruction, operands


def _infer_parameter(call: OpCall) -> Shape:
    number = call["parameter_number"]
    call.require(number is not None and number >= 0, "parameter_c2", f"number {number} is under 0")
    return call.result().without_layout()


def _infer_constant(call: OpCall) -> Shape:
    shape: Shape = call["literal"].shape.without_layout()
    if call.declared is not None and not rules.compatible(shape, call.declared):
        call.fail("constant_c1", f"a literal of shape {shape} does not fit {call.declared}")
    return shape


def _evaluate_constant(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation, operands
    return instruction["literal"].value


def _infer_tuple(call: OpCall) -> Shape:
    return tuple_of(*(s.without_layout() for s in call.operands))


def _evaluate_tuple(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation, instruction
    return operands


def _infer_element(call: OpCall) -> Shape:
    (operand,) = call.operands
    index = call["index"]
    if not operand.is_tuple:  # a text of every tuple would make work of width squared
        call.fail("get_tuple_element_c1", f"{operand} is no tuple")
    count = len(operand.tuple_shapes)
    call.require(
        0 <= index < count, "get_tuple_element_c2", f"index {index} into a tuple of {count} parts"
    )
    return operand.tuple_shapes[index].without_layout()


def _evaluate_element(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return operands[0][instruction["index"]]


def _infer_bitcast(call: OpCall) -> Shape:
    rules.require_arrays(call)
    declared = call.result()
    call.require(declared.is_array, "bitcast_c2", f"result {declared} is no array")
    sizes = physical.physical_nbytes(call.operands[0]), physical.physical_nbytes(declared)
    call.require(sizes[0] == sizes[1], "bitcast_c3", f"{sizes[0]} bytes cannot be {sizes[1]}")
    return declared.without_layout()


def _evaluate_bitcast(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    source, target = instruction.operands[0].shape, instruction.shape
    array: Array = np.asarray(operands[0])
    if (
        physical.is_plain(source)
        and physical.is_plain(target)
        and array.dtype == target.element_type.np
    ):
        return array.reshape(target.dims)
    return physical.unpack(physical.pack(array, source), target)


def _infer_after_all(call: OpCall) -> Shape:
    for i, shape in enumerate(call.operands):
        call.require(shape.is_token, "after_all_c1", f"operand {i} is {shape}, not a token")
    return TOKEN_SHAPE


def _infer_add_dependency(call: OpCall) -> Shape:
    token = call.operands[1]
    call.require(token.is_token, "add_dependency_c1", f"second operand is {token}, not a token")
    return call.operands[0].without_layout()


OPS: tuple[OpDef, ...] = (
    OpDef(
        "parameter",
        0,
        "Numbered input of a computation.",
        attrs=(
            Attr("parameter_number", AttrKind.NUMBER, required=True),
            Attr(
                "parameter_replication",
                AttrKind.BOOLS,
                proto="parameter_replication.replicated_at_leaf_buffers",
            ),
        ),
        infer=_infer_parameter,
        exempt="its value is the caller's argument",
        category="shape",
        expense=FREE,
        moved=moved.nothing,
    ),
    OpDef(
        "constant",
        0,
        "A literal value.",
        attrs=(Attr("literal", AttrKind.LITERAL, required=True),),
        infer=_infer_constant,
        evaluate=_evaluate_constant,
        category="shape",
        expense=FREE,
        moved=moved.nothing,
    ),
    OpDef(
        "tuple",
        (0, VARIADIC),
        "A tuple of the operands.",
        infer=_infer_tuple,
        evaluate=_evaluate_tuple,
        category="shape",
        expense=FREE,
        moved=moved.nothing,
    ),
    OpDef(
        "get-tuple-element",
        1,
        "One part of a tuple.",
        attrs=(Attr("index", AttrKind.INT, required=True, proto="tuple_index"),),
        infer=_infer_element,
        evaluate=_evaluate_element,
        category="shape",
        moved=moved.nothing,
    ),
    OpDef(
        "copy",
        1,
        "The same value, maybe in another layout.",
        infer=infer_same,
        evaluate=evaluate_first,
        category="shape",
    ),
    OpDef(
        "bitcast",
        1,
        "The same bytes seen as another shape, element type and layout.",
        forms=(
            "Only the number of bytes is the same. The element type may be another one, of another "
            "width, and the layouts may differ: in the order of dimensions, in tiles (`T(8,128)`), "
            "in the bits of an element (`E(4)`).",
            "`Compiler.supports` is asked with these layouts. A backend that does not know tiles "
            "and packed elements must refuse them, as "
            "`xladev.compiler.emitter_support.bitcast_support` does; the SDK then writes the "
            "bitcast out. [What becomes of the others](kernel-route.md#layouts).",
        ),
        infer=_infer_bitcast,
        evaluate=_evaluate_bitcast,
        category="shape",
        expense=FREE,
        moved=moved.nothing,
    ),
    OpDef(
        "opt-barrier",
        1,
        "Keeps computations from moving or merging across it.",
        infer=infer_same,
        evaluate=evaluate_first,
        category="shape",
        moved=moved.nothing,
    ),
    OpDef(
        "after-all",
        (0, VARIADIC),
        "A token that is ready when all operands are.",
        infer=_infer_after_all,
        evaluate=evaluate_token,
        category="control",
        moved=moved.nothing,
    ),
    OpDef(
        "add-dependency",
        2,
        "First operand, available after the token.",
        infer=_infer_add_dependency,
        evaluate=evaluate_first,
        category="control",
        moved=moved.nothing,
    ),
    OpDef(
        "domain",
        1,
        "Border of a region with other metadata.",
        attrs=(Attr("domain", AttrKind.SHARDINGS, required=True, proto="domain_entry_sharding"),),
        infer=infer_same,
        evaluate=evaluate_first,
        category="control",
        moved=moved.nothing,
    ),
)
