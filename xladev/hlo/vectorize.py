"""Applies a computation of scalars to whole arrays, element by element.

Reducers, comparators and map bodies are computations of scalars. Where every instruction is
elementwise (or merely passes scalars on), one evaluation on whole arrays gives all elements at
once; any other computation is evaluated once per element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.hlo.dtype import PRED
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics.bits import bitcast_elements
from xladev.hlo.opdef import Evaluation
from xladev.hlo.shape import Shape, flattened_shapes

PASS_ON = frozenset({"reshape", "broadcast", "copy", "transpose", "bitcast", "opt-barrier"})
"""Opcodes whose scalar result has the bits of their operand."""
_GROUPING = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


def apply_elementwise(
    evaluation: Evaluation, computation: HloComputation, arguments: Sequence[Value]
) -> Value:
    """Values of a scalar computation on arrays, element by element.

    Args:
        evaluation: runs the instructions.
        computation: takes scalars, and gives a scalar or a tuple of scalars.
        arguments: arrays that broadcast against each other.

    Returns:
        An array, or a tuple of arrays, of the broadcast dimensions.
    """
    dims = np.broadcast_shapes(*(np.shape(a) for a in arguments))
    if not dims:
        return evaluation.call(computation, [np.asarray(a) for a in arguments])
    if not is_vectorizable(computation):
        return _one_by_one(evaluation, computation, arguments, dims)
    return _filled(_on_arrays(evaluation, computation, arguments), dims)


def is_vectorizable(computation: HloComputation) -> bool:
    """True if one evaluation on arrays gives every element its scalar result."""
    return all(_is_vectorizable_instruction(i) for i in computation.instructions)


def _is_vectorizable_instruction(instruction: HloInstruction) -> bool:
    opcode = instruction.opcode
    if opcode in _GROUPING:
        return _all_scalars(instruction.shape)
    if opcode in ("call", "fusion"):
        return all(is_vectorizable(c) for c in instruction.called)
    scalars = _all_scalars(instruction.shape) and all(
        _all_scalars(o.shape) for o in instruction.operands
    )
    if opcode == "bitcast" and scalars:
        return _keeps_width(instruction)
    return scalars and (instruction.op.elementwise or opcode in PASS_ON)


def changes_type(instruction: HloInstruction) -> bool:
    """True if a bitcast is a bitcast-convert under another name, as XLA's own passes write it."""
    if instruction.opcode != "bitcast":
        return False
    return instruction.shape.element_type is not instruction.operands[0].shape.element_type


def _keeps_width(bitcast: HloInstruction) -> bool:
    """False for scalars that fill their bytes differently, such as s4 and u8, or pred and s8."""
    types = bitcast.shape.element_type, bitcast.operands[0].shape.element_type
    same_width = types[0].bits == types[1].bits and PRED not in types
    return types[0] is types[1] or same_width


def _all_scalars(shape: Shape) -> bool:
    return all(part.is_scalar for part in flattened_shapes(shape))


def _on_arrays(
    evaluation: Evaluation, computation: HloComputation, arguments: Sequence[Value]
) -> Value:
    values: dict[HloInstruction, Value] = {}
    for instruction in computation.instructions:
        operands = tuple(values[o] for o in instruction.operands)
        values[instruction] = _value(evaluation, instruction, operands, arguments)
    return values[computation.root]


def _value(
    evaluation: Evaluation,
    instruction: HloInstruction,
    operands: tuple[Value, ...],
    arguments: Sequence[Value],
) -> Value:
    opcode = instruction.opcode
    if opcode == "parameter":
        return arguments[instruction["parameter_number"]]
    if opcode in PASS_ON:
        (operand,) = operands
        if changes_type(instruction):
            return bitcast_elements(np.asarray(operand), instruction.shape.element_type)
        return operand
    if opcode in ("call", "fusion"):
        return _on_arrays(evaluation, instruction.called[0], operands)
    return evaluation.value(instruction, operands)


def _filled(value: Value, dims: tuple[int, ...]) -> Value:
    if isinstance(value, tuple):
        return tuple(_filled(v, dims) for v in value)
    array = np.asarray(value)
    return array if array.shape == dims else np.broadcast_to(array, dims).copy()


def _one_by_one(
    evaluation: Evaluation,
    computation: HloComputation,
    arguments: Sequence[Value],
    dims: tuple[int, ...],
) -> Value:
    spread = [np.broadcast_to(np.asarray(a), dims) for a in arguments]
    leaves = flattened_shapes(computation.root.shape)
    results: list[Array] = [np.empty(dims, leaf.element_type.np) for leaf in leaves]
    for at in np.ndindex(*dims):
        value: Any = evaluation.call(computation, [np.asarray(a[at]) for a in spread])
        parts = value if isinstance(value, tuple) else (value,)
        for result, part in zip(results, parts, strict=True):
            result[at] = part
    return tuple(results) if computation.root.shape.is_tuple else results[0]
