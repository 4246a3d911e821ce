"""The largest elements, exactly; also under the names that ask for them approximately."""

from __future__ import annotations

import numpy as np

from xladev.hlo.custom_calls.backend_config import config_of
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Value
from xladev.hlo.numerics.precision import widen
from xladev.hlo.numerics.reals import total_order_key
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.dimension_rules import parts_of
from xladev.hlo.ops.ordering import sorted_order


def _check_top_k(call: OpCall) -> None:
    parts = parts_of(call.result())
    arrays = (*call.operands[:1], *parts)
    ranks = {shape.rank if shape.is_array else 0 for shape in arrays}
    fits = len(arrays) == 3 and len(ranks) == 1 and 0 not in ranks
    call.require(fits, "custom_call_top_k", "TopK gives values and indices, of the operand's rank")
    rows = {shape.dims[:-1] for shape in arrays}
    fits = len(rows) == 1 and parts[0].dims == parts[1].dims
    fits = fits and parts[0].dims[-1] <= call.operands[0].dims[-1]
    call.require(fits, "custom_call_top_k", "TopK gives elements of each of its rows")


def _check_approximate(call: OpCall) -> None:
    count = len(call.operands) // 2
    arrays, initial = call.operands[:count], call.operands[count:]
    ranks = {shape.rank if shape.is_array else 0 for shape in (*arrays, *parts_of(call.result()))}
    fits = count > 0 and len(initial) == count == len(parts_of(call.result()))
    fits = fits and len(ranks) == 1 and 0 not in ranks
    fits = fits and all(shape.is_array and shape.rank == 0 for shape in initial)
    what = "it takes N arrays and N scalars, and gives N arrays of their rank"
    call.require(fits, "custom_call_top_k", what)


def _evaluate_top_k(
    _: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Largest elements of the last dimension, first of equals first, and their indices."""
    (values,) = operands[:1]
    shapes = parts_of(instruction.shape)
    k = shapes[0].dims[-1]
    wide = widen(values)
    keys = total_order_key(wide) if wide.dtype.kind == "f" else wide
    # Indices from the end, so that of equal elements the first has the largest.
    order = np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    order = values.shape[-1] - 1 - order
    return np.take_along_axis(values, order, -1), order.astype(shapes[1].element_type.np)


def _evaluate_approximate(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """The first elements along ``reduction_dim`` in the order of the comparator.

    Operands are N arrays and N initial values; the comparator takes a left and a right scalar of
    each array in turn. Results have as many elements as declared, all of them exact.
    """
    count = len(operands) // 2
    arrays = operands[:count]
    axis = int(config_of(instruction).get("reduction_dim", arrays[0].ndim - 1))
    comparator: HloComputation = (
        instruction["to_apply"] or tuple(instruction["called_computations"])[0]
    )
    length = arrays[0].shape[axis]
    lines = [np.moveaxis(array, axis, -1).reshape(-1, length) for array in arrays]
    order = sorted_order(evaluation, comparator, lines)
    results: list[Value] = []
    for array, line, shape in zip(arrays, lines, parts_of(instruction.shape), strict=True):
        k = shape.dims[axis]
        chosen = np.take_along_axis(line, order[:, :k], -1)
        rest = [n for i, n in enumerate(array.shape) if i != axis]
        results.append(np.moveaxis(chosen.reshape(*rest, k), -1, axis))
    return tuple(results) if instruction.shape.is_tuple else results[0]


_LARGEST = "The k largest elements and their indices."

CALLS: tuple[CustomCall, ...] = (
    *(
        CustomCall(target, _LARGEST, _evaluate_top_k, _check_top_k)
        for target in ("TopK", "mhlo.topk", "chlo.top_k")
    ),
    CustomCall(
        "ApproxTopK",
        "About the k first elements; exactly these here.",
        _evaluate_approximate,
        _check_approximate,
    ),
    CustomCall(
        "PartialReduce",
        "Some first elements; exactly the first here.",
        _evaluate_approximate,
        _check_approximate,
    ),
)
