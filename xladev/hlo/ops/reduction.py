"""Opcodes that combine many elements with a computation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xladev.hlo.attributes import Window
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.expense import COMPUTATION, PAIR
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import (
    VARIADIC,
    Attr,
    AttrKind,
    Cost,
    Evaluation,
    InstructionView,
    OpCall,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops.dimension_rules import (
    convertible,
    from_dimensions,
    one_or_tuple,
    parts_of,
    remaining,
    require_array,
    require_axes,
    require_distinct,
)
from xladev.hlo.ops.reducers import reduce_axes
from xladev.hlo.ops.scan import evaluate_scan, infer_scan
from xladev.hlo.ops.select_and_scatter import (
    evaluate_select_and_scatter,
    infer_select_and_scatter,
)
from xladev.hlo.ops.windows import check_window, padded, window_view
from xladev.hlo.shape import UNBOUNDED, Shape, array

TO_APPLY = Attr("to_apply", AttrKind.COMPUTATION, required=True)

_ORDER = (
    "The order of a reduction is free in HLO: floats are accumulated in a wider type and rounded "
    "once where the reducer is a single opcode; XLA:CPU accumulates in the reducer's type."
)
_IDENTITY = (
    "XLA:CPU takes the initial value for the reducer's identity, and leaves it out where a result "
    "is made of one element."
)
_MISSED = (
    "XLA:CPU was seen to select other elements where windows are padded and one of them is "
    "wholly in padding: f32[4,2], windows of 2x2, padding 1_0x1_2, stride 1."
)
_PADDING = (
    "Padding and holes of a window hold the initial value, as in StableHLO; XLA:CPU skips them, "
    "which differs where the initial value is no identity of the reducer."
)


# reduce


def infer_reduce(call: OpCall) -> Shape:
    """Arrays without the reduced dimensions; a tuple of them if there are several.

    Raises:
        ShapeError: ``reduce_c1`` equal dimensions, ``_c2`` initial values, ``_c4`` dimensions in
            range, ``_c5`` dimensions distinct, ``_c6`` reducer.
    """
    values = check_inputs(call)
    axes = tuple(call["dimensions"])
    require_axes(call, "dimensions", axes, values[0].rank, "reduce_c4")
    require_distinct(call, "dimensions", axes, "reduce_c5")
    types = check_reducer(call, call["to_apply"], "reduce_c6")
    kept = remaining(values[0].rank, axes)
    return one_or_tuple(
        [from_dimensions(t, (value, kept)) for t, value in zip(types, values, strict=True)]
    )


def check_inputs(call: OpCall) -> tuple[Shape, ...]:
    """Checks N arrays of equal dimensions and their N scalar initial values; gives the arrays."""
    name, count = call.op.name.replace("-", "_"), len(call.operands) // 2
    require_array(call)
    even = len(call.operands) == 2 * count
    call.require(even, f"{name}_c2", "there must be one initial value per array")
    values, inits = call.operands[:count], call.operands[count:]
    for value, init in zip(values, inits, strict=True):
        same = agree(value.dims, values[0].dims)
        call.require(same, f"{name}_c1", "all arrays must have the same dimensions")
        call.require(init.is_scalar, f"{name}_c2", "initial values must be scalars")
    return values


def agree(a: Sequence[int], b: Sequence[int]) -> bool:
    """True if dimensions are equal where both have a bound."""
    return len(a) == len(b) and all(
        m == n or UNBOUNDED in (m, n) for m, n in zip(a, b, strict=True)
    )


def check_reducer(
    call: OpCall, reducer: HloComputation, constraint: str
) -> tuple[PrimitiveType, ...]:
    """Checks that a reducer takes N accumulators and N values, and gives N accumulators.

    Returns:
        The element types of the accumulators.
    """
    count = len(call.operands) // 2
    results = parts_of(reducer.root.shape)
    parameters = [p.shape for p in reducer.parameters]
    if len(results) != count or len(parameters) != 2 * count:
        call.fail(
            constraint,
            f"reducer {reducer.name} takes {len(parameters)} values and gives {len(results)}; "
            f"{2 * count} and {count} are wanted",
        )
    if any(not shape.is_scalar for shape in (*results, *parameters)):
        call.fail(constraint, f"reducer {reducer.name} must take and give scalars")
    for at, result in enumerate(results):
        inputs = (*parameters[at::count], *call.operands[at::count])
        if any(not convertible(shape.element_type, result.element_type) for shape in inputs):
            call.fail(
                constraint,
                f"reducer {reducer.name} gives {result.element_type} for values of "
                f"{call.operands[at].element_type}",
            )
    return tuple(result.element_type for result in results)


def evaluate_reduce(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Each kept element combines all elements along the reduced dimensions."""
    count = len(operands) // 2
    axes = tuple(sorted(instruction["dimensions"]))
    results = reduce_axes(
        evaluation, instruction["to_apply"], operands[:count], operands[count:], axes
    )
    return _typed(results, instruction.shape)


def _typed(results: tuple[Array, ...], shape: Shape) -> Value:
    cast = tuple(
        result.astype(part.element_type.np, copy=False)
        for result, part in zip(results, parts_of(shape), strict=True)
    )
    return cast if shape.is_tuple else cast[0]


def _calls(computation: HloComputation) -> int:
    """Flops of one call of a computation of scalars."""
    return sum(i.op.elementwise for i in computation.instructions)


def reduce_cost(result: Shape, operands: tuple[Shape, ...], instruction: InstructionView) -> Cost:
    """One call of the reducer per element."""
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    flops = operands[0].size * max(_calls(instruction["to_apply"]), 1)
    return Cost(flops=flops, bytes_accessed=moved)


# reduce-window


def infer_reduce_window(call: OpCall) -> Shape:
    """One element per window position.

    Raises:
        ShapeError: ``reduce_window_c1`` equal dimensions, ``_c2`` initial values, ``_c4`` window
            rank, ``_c5`` sizes, strides and dilations, ``_c13`` reducer.
    """
    values = check_inputs(call)
    window: Window = call["window"]
    same = len(window) == values[0].rank
    call.require(same, "reduce_window_c4", "the window must have the rank of the operands")
    check_window(call, window, "reduce_window_c5")
    types = check_reducer(call, call["to_apply"], "reduce_window_c13")
    return one_or_tuple(
        [_windowed(t, value, window) for t, value in zip(types, values, strict=True)]
    )


def _windowed(element_type: PrimitiveType, value: Shape, window: Window) -> Shape:
    sizes = [
        UNBOUNDED if n == UNBOUNDED else part.output_size(n)
        for n, part in zip(value.dims, window, strict=True)
    ]
    return array(element_type, sizes, dynamic=value.dynamic)


def evaluate_reduce_window(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Each window position combines the elements that the window covers, row-major."""
    count = len(operands) // 2
    window: Window = instruction["window"]
    values, inits = operands[:count], operands[count:]
    reducer: HloComputation = instruction["to_apply"]
    views = [
        _turned(window_view(padded(value, window, init), window), window)
        for value, init in zip(values, inits, strict=True)
    ]
    axes = tuple(range(len(window), 2 * len(window)))
    return _typed(reduce_axes(evaluation, reducer, views, inits, axes), instruction.shape)


def _turned(view: Array, window: Window) -> Array:
    """The view with reversed window dimensions turned round."""
    turned: Any = (..., *(slice(None, None, -1 if part.reversal else 1) for part in window))
    return np.asarray(view[turned])


def reduce_window_cost(
    result: Shape, operands: tuple[Shape, ...], instruction: InstructionView
) -> Cost:
    """One call of the reducer per element of each window."""
    first = parts_of(result)[0]
    size = prod(part.size for part in instruction["window"])
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    flops = first.size * size * max(_calls(instruction["to_apply"]), 1)
    return Cost(flops=flops, bytes_accessed=moved)


# map


def infer_map(call: OpCall) -> Shape:
    """Dimensions of the operands, element type of the computation.

    Raises:
        ShapeError: ``map_c1`` equal dimensions, ``_c3`` dimensions, ``_c4`` computation.
    """
    require_array(call)
    call.require(bool(call.operands), "map_c1", "there must be at least one operand")
    first = call.operands[0]
    for shape in call.operands:
        same = agree(shape.dims, first.dims)
        call.require(same, "map_c1", "all operands must have the same dimensions")
    whole = tuple(call["dimensions"]) in ((), tuple(range(first.rank)))
    call.require(whole, "map_c3", "dimensions must name all dimensions, in order, or none")
    body: HloComputation = call["to_apply"]
    _check_map(call, body)
    return from_dimensions(body.root.shape.element_type, (first, range(first.rank)))


def _check_map(call: OpCall, body: HloComputation) -> None:
    parameters = [p.shape for p in body.parameters]
    scalars = body.root.shape.is_scalar and all(shape.is_scalar for shape in parameters)
    call.require(scalars, "map_c4", f"{body.name} must take and give scalars")
    fits = len(parameters) == len(call.operands) and all(
        convertible(a.element_type, b.element_type)
        for a, b in zip(parameters, call.operands, strict=True)
    )
    call.require(fits, "map_c4", f"the parameters of {body.name} must fit the operands")


def evaluate_map(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """The computation on the elements at each position."""
    return evaluation.apply(instruction["to_apply"], operands)


def map_cost(result: Shape, operands: tuple[Shape, ...], instruction: InstructionView) -> Cost:
    """One call of the computation per element."""
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=result.size * _calls(instruction["to_apply"]), bytes_accessed=moved)


def select_and_scatter_cost(
    result: Shape, operands: tuple[Shape, ...], instruction: InstructionView
) -> Cost:
    """One selection per element of each window, and one update per source element."""
    size = prod(part.size for part in instruction["window"])
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=operands[1].size * (size + 1), bytes_accessed=moved)


def scan_cost(result: Shape, operands: tuple[Shape, ...], instruction: InstructionView) -> Cost:
    """One flop per element of each elementwise instruction of the body, in every step."""
    body: HloComputation = instruction["to_apply"]
    step = sum(i.shape.size for i in body.instructions if i.op.elementwise)
    (axis,) = instruction["dimensions"]
    scanned = operands[0] if len(operands) > instruction["num_carries"] else parts_of(result)[0]
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=step * scanned.dims[axis], bytes_accessed=moved)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "reduce",
        (2, VARIADIC),
        "Combines elements along dimensions with any reducer.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=(), shown=True), TO_APPLY),
        infer=infer_reduce,
        evaluate=evaluate_reduce,
        category="reduce",
        expense=PAIR,
        over_operands=True,
        tolerance=Tolerance.SUM,
        differences=(_ORDER, _IDENTITY),
        cost=reduce_cost,
    ),
    OpDef(
        "map",
        (0, VARIADIC),
        "Applies a scalar computation to each element.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=(), shown=True), TO_APPLY),
        infer=infer_map,
        evaluate=evaluate_map,
        category="reduce",
        expense=COMPUTATION,
        over_operands=True,
        cost=map_cost,
    ),
    OpDef(
        "reduce-window",
        (2, VARIADIC),
        "Combines the elements of sliding windows.",
        attrs=(Attr("window", AttrKind.WINDOW, default=()), TO_APPLY),
        infer=infer_reduce_window,
        evaluate=evaluate_reduce_window,
        category="reduce",
        tolerance=Tolerance.SUM,
        differences=(_ORDER, _IDENTITY, _PADDING),
        cost=reduce_window_cost,
    ),
    OpDef(
        "select-and-scatter",
        3,
        "Adds each source element where its window selects; the gradient of pooling.",
        attrs=(
            Attr("window", AttrKind.WINDOW, default=()),
            Attr("select", AttrKind.COMPUTATION, required=True),
            Attr("scatter", AttrKind.COMPUTATION, required=True),
        ),
        infer=infer_select_and_scatter,
        evaluate=evaluate_select_and_scatter,
        category="training",
        expense=COMPUTATION,
        over_operands=True,
        tolerance=Tolerance.SUM,
        differences=(_ORDER, _MISSED),
        cost=select_and_scatter_cost,
    ),
    OpDef(
        "scan",
        (0, VARIADIC),
        "Carries values along one dimension.",
        attrs=(
            TO_APPLY,
            Attr("dimensions", AttrKind.INTS, required=True),
            Attr("num_carries", AttrKind.INT, default=0, shown=True),
            Attr("is_reverse", AttrKind.BOOL, default=False),
            Attr("is_associative", AttrKind.WORD),
        ),
        infer=infer_scan,
        evaluate=evaluate_scan,
        category="training",
        tolerance=Tolerance.SUM,
        cost=scan_cost,
    ),
)
