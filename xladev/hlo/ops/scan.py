"""Scan: a loop along one dimension that carries values and stacks outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.dimension_rules import one_or_tuple, parts_of, remaining, same_size
from xladev.hlo.shape import Shape, array


def infer_scan(call: OpCall) -> Shape:
    """Outputs with the scanned dimension put back, then the last carries.

    Operands are inputs and then initial carries; the body takes one slice of each input (without
    the scanned dimension) and the carries, and gives one slice of each output and the carries.

    Raises:
        ShapeError: ``scan_c1`` number of carries, ``_c2`` one dimension, in range, ``_c3`` equal
            sizes, ``_c4`` parameters of the body, ``_c5`` results of the body, ``_c6`` a size that
            follows from nothing.
    """
    carries = call["num_carries"]
    enough = 0 <= carries <= len(call.operands)
    call.require(enough, "scan_c1", f"{carries} carries, but {len(call.operands)} operands")
    one = len(call["dimensions"]) == 1
    call.require(one, "scan_c2", "there must be exactly one dimension")
    (axis,) = call["dimensions"]
    count = len(call.operands) - carries
    inputs, inits = call.operands[:count], call.operands[count:]
    for shape in inputs:
        inside = shape.is_array and 0 <= axis < shape.rank
        call.require(inside, "scan_c2", f"dimension {axis} is not one of input {shape}")
        same = same_size(shape, axis, inputs[0], axis)
        call.require(same, "scan_c3", "inputs must agree in the scanned dimension")
    results = _check_body(call, inputs, inits, axis)
    length = inputs[0].dims[axis] if inputs else _declared_length(call, axis)
    outputs = [_with_axis(call, shape, axis, length) for shape in results[: len(results) - carries]]
    return one_or_tuple([*outputs, *results[len(results) - carries :]])


def _check_body(
    call: OpCall, inputs: Sequence[Shape], inits: Sequence[Shape], axis: int
) -> tuple[Shape, ...]:
    body: HloComputation = call["to_apply"]
    wanted = [*(_without_axis(shape, axis) for shape in inputs), *inits]
    found = [p.shape for p in body.parameters]
    if len(found) != len(wanted) or not all(map(Shape.equal_ignoring_layout, found, wanted)):
        shapes = ", ".join(shape.to_string(layout=False) for shape in wanted)
        call.fail("scan_c4", f"{body.name} must take ({shapes})")
    results = parts_of(body.root.shape)
    last = results[len(results) - len(inits) :] if inits else ()
    if len(results) < len(inits) or not all(map(Shape.equal_ignoring_layout, last, inits)):
        call.fail("scan_c5", f"the last results of {body.name} must be the carries")
    return tuple(shape.without_layout() for shape in results)


def _without_axis(shape: Shape, axis: int) -> Shape:
    kept = remaining(shape.rank, (axis,))
    flags = [shape.is_dynamic_dimension(i) for i in kept]
    return array(shape.element_type, [shape.dims[i] for i in kept], dynamic=flags)


def _with_axis(call: OpCall, shape: Shape, axis: int, length: int) -> Shape:
    inside = axis <= shape.rank
    call.require(inside, "scan_c2", f"dimension {axis} is not one of the output")
    dims = (*shape.dims[:axis], length, *shape.dims[axis:])
    return array(shape.element_type, dims)


def _declared_length(call: OpCall, axis: int) -> int:
    first = parts_of(call.declared)[0] if call.declared is not None else None
    if first is None or len(parts_of(call["to_apply"].root.shape)) == call["num_carries"]:
        call.fail("scan_c6", "without inputs, the length must follow from the declared outputs")
    return first.dims[axis]


def evaluate_scan(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Calls the body once per index of the dimension, last index first if ``is_reverse``."""
    (axis,) = instruction["dimensions"]
    count = len(operands) - instruction["num_carries"]
    inputs, carries = operands[:count], operands[count:]
    body: HloComputation = instruction["to_apply"]
    shapes = parts_of(instruction.shape)
    length = inputs[0].shape[axis] if inputs else shapes[0].dims[axis]
    outputs = [np.empty(s.dims, s.element_type.np) for s in shapes[: len(shapes) - len(carries)]]
    order = range(length - 1, -1, -1) if instruction["is_reverse"] else range(length)
    for at in order:
        slices = [np.asarray(value.take(at, axis)) for value in inputs]
        result = evaluation.call(body, [*slices, *carries])
        parts = result if isinstance(result, tuple) else (result,)
        _store(outputs, parts, axis, at)
        carries = parts[len(outputs) :]
    values = (*outputs, *carries)
    return values if instruction.shape.is_tuple else values[0]


def _store(outputs: Sequence[Array], parts: Sequence[Array], axis: int, at: int) -> None:
    for output, part in zip(outputs, parts, strict=False):
        np.moveaxis(output, axis, 0)[at] = part
