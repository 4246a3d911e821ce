"""Opcodes that change the element type or precision."""

from __future__ import annotations

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import Kind
from xladev.hlo.expense import SEQUENCE
from xladev.hlo.literal import Value
from xladev.hlo.numerics import bits, casts, quantize
from xladev.hlo.opdef import Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import rules
from xladev.hlo.shape import Shape


def _infer_convert(call: OpCall) -> Shape:
    rules.require_arrays(call)
    return rules.with_type(call.operands[0], rules.declared_array(call).element_type)


def _evaluate_convert(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    with np.errstate(all="ignore"):
        return casts.convert(operands[0], instruction.shape.element_type)


def _infer_bitcast_convert(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,) = call.operands
    source, target = operand.element_type, rules.declared_array(call).element_type
    call.require(
        source.is_complex == target.is_complex,
        "bitcast_convert_c2",
        f"{source} and {target}: only one of them is complex",
    )
    wide, slim = max(source.bits, target.bits), min(source.bits, target.bits)
    call.require(wide % slim == 0, "bitcast_convert_c3", f"{slim} bits do not divide {wide}")
    ratio = wide // slim
    if source.bits >= target.bits:
        extra = () if ratio == 1 else (ratio,)
        flags = (*operand.dynamic, False) if extra and operand.dynamic else operand.dynamic
        return rules.with_type(rules.shape_like(operand, operand.dims + extra, flags), target)
    call.require(
        operand.dims[-1:] == (ratio,),
        "bitcast_convert_c4",
        f"the last dimension of {operand} must be {ratio} to become {target}",
    )
    return rules.with_type(
        rules.shape_like(operand, operand.dims[:-1], operand.dynamic[:-1]), target
    )


def _evaluate_bitcast_convert(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return bits.bitcast_elements(operands[0], instruction.shape.element_type)


def _infer_reduce_precision(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,) = call.operands
    rules.require_kinds(call, operand, rules.FLOAT, "c2")
    exponent, mantissa = call["exponent_bits"], call["mantissa_bits"]
    call.require(exponent >= 1, "reduce_precision_c3", f"exponent_bits={exponent} is under 1")
    call.require(mantissa >= 0, "reduce_precision_c4", f"mantissa_bits={mantissa} is under 0")
    return operand.without_layout()


def _evaluate_reduce_precision(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    with np.errstate(all="ignore"):
        return quantize.reduce_precision(
            operands[0], instruction["exponent_bits"], instruction["mantissa_bits"]
        )


def _infer_stochastic_convert(call: OpCall) -> Shape:
    rules.require_arrays(call)
    operand, random = call.operands
    rules.require_kinds(call, operand, rules.FLOAT, "c2")
    rules.require_kinds(call, random, frozenset({Kind.UINT}), "c3")
    call.require(
        operand.element_type.bits == random.element_type.bits,
        "stochastic_convert_c4",
        f"{random.element_type} and {operand.element_type} differ in width",
    )
    target = rules.declared_array(call).element_type
    if target.is_complex or target is dt.PRED:
        call.fail("stochastic_convert_c5", f"cannot round to {target}")
    return rules.with_type(rules.merge_dims(call, (operand, random), "c6"), target)


def _evaluate_stochastic_convert(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    array, random = operands
    with np.errstate(all="ignore"):
        return quantize.stochastic_convert(array, random, instruction.shape.element_type)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "convert",
        1,
        "Value cast between element types.",
        infer=_infer_convert,
        evaluate=_evaluate_convert,
        category="elementwise",
        elementwise=True,
        differences=(
            "NaN becomes a zero in f4e2m1fn, f6e2m3fn and f6e3m2fn, which have none; XLA:CPU's may "
            "have another sign. Zero becomes NaN in f8e8m0fnu, which has none; XLA:CPU gives its "
            "smallest number. The same holds for results of other opcodes in these types.",
        ),
    ),
    OpDef(
        "bitcast-convert",
        1,
        "Same bits as another element type; widths may differ by a minor dimension.",
        infer=_infer_bitcast_convert,
        evaluate=_evaluate_bitcast_convert,
        category="elementwise",
    ),
    OpDef(
        "reduce-precision",
        1,
        "Rounds to fewer exponent and mantissa bits.",
        attrs=(
            Attr("exponent_bits", AttrKind.INT, required=True),
            Attr("mantissa_bits", AttrKind.INT, required=True),
        ),
        infer=_infer_reduce_precision,
        evaluate=_evaluate_reduce_precision,
        category="elementwise",
        expense=SEQUENCE,
        elementwise=True,
    ),
    OpDef(
        "stochastic-convert",
        2,
        "Cast that rounds up or down by random bits.",
        infer=_infer_stochastic_convert,
        evaluate=_evaluate_stochastic_convert,
        category="elementwise",
        expense=SEQUENCE,
        elementwise=True,
        differences=("XLA rounds to integers only; here also to floats.",),
    ),
)
