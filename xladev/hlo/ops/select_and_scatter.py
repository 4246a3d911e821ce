"""Select-and-scatter: the gradient of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.hlo.attributes import Window
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.dimension_rules import require_array
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.ops.windows import check_window
from xladev.hlo.shape import UNBOUNDED, Shape


def infer_select_and_scatter(call: OpCall) -> Shape:
    """Shape of the operand (StableHLO ``select_and_scatter`` C1 to C12).

    Raises:
        ShapeError: ``select_and_scatter_c1`` element types, ``_c2`` source dimensions, ``_c3``
            initial value, ``_c4`` window, ``_c9`` select, ``_c10`` scatter.
    """
    require_array(call)
    operand, source, init = call.operands
    name = "select_and_scatter"
    same = operand.element_type is source.element_type
    call.require(same, f"{name}_c1", "operand and source must have the same element type")
    scalar = init.is_scalar and init.element_type is operand.element_type
    call.require(scalar, f"{name}_c3", "the initial value must be a scalar of the element type")
    window: Window = call["window"]
    same = len(window) == operand.rank
    call.require(same, f"{name}_c4", "the window must have the rank of the operand")
    check_window(call, window, f"{name}_c4")
    plain = all(part.base_dilation == part.window_dilation == 1 for part in window)
    call.require(plain, f"{name}_c4", "the window must not be dilated")
    _check_source(call, operand, source, window)
    _check_computations(call, operand)
    return operand.without_layout()


def _check_source(call: OpCall, operand: Shape, source: Shape, window: Window) -> None:
    wanted = [
        n if n == UNBOUNDED else part.output_size(n)
        for n, part in zip(operand.dims, window, strict=True)
    ]
    if list(source.dims) != wanted and UNBOUNDED not in (*source.dims, *wanted):
        call.fail("select_and_scatter_c2", f"the source must have dimensions {wanted}")


def _check_computations(call: OpCall, operand: Shape) -> None:
    for attr, constraint in (("select", "c9"), ("scatter", "c10")):
        body: HloComputation = call[attr]
        scalars = len(body.parameters) == 2 and all(
            p.shape.is_scalar and p.shape.element_type is operand.element_type
            for p in body.parameters
        )
        wanted = "pred" if attr == "select" else operand.element_type.name
        gives = body.root.shape.is_scalar and body.root.shape.element_type.name == wanted
        if not (scalars and gives):
            call.fail(
                f"select-and-scatter_{constraint}",
                f"{attr} must take two scalars {operand.element_type} and give {wanted}",
            )


def evaluate_select_and_scatter(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    """Scatters each source element to the element of its window that ``select`` keeps.

    The window is walked in row-major order; an element is kept as long as ``select(kept, next)``
    holds, so the first of equals wins. Padding is never selected, and a window that is wholly in
    padding scatters nothing.
    """
    operand, source, init = operands
    window: Window = instruction["window"]
    chosen = _chosen(evaluation, instruction["select"], operand, window, source.shape)
    order = np.flatnonzero(chosen >= 0)
    targets, values = chosen.reshape(-1)[order], source.reshape(-1)[order]
    flat = np.full(operand.size, init, operand.dtype)
    result = scatter_into(evaluation, instruction["scatter"], flat, targets, values)
    return result.reshape(operand.shape)


def _chosen(
    evaluation: Evaluation,
    select: HloComputation,
    operand: Array,
    window: Window,
    counts: tuple[int, ...],
) -> Array:
    """Flat index of the selected operand element for each window position; -1 for none."""
    chosen = np.full(counts, -1, np.int64)
    kept = np.zeros(counts, operand.dtype)
    flat = operand.reshape(-1)
    for at in np.ndindex(*(part.size for part in window)):
        index, inside = _covered(operand.shape, window, counts, at)
        candidate = flat.take(index, mode="clip") if flat.size else kept
        keep = np.asarray(evaluation.apply(select, [kept, candidate])) & (chosen >= 0)
        change = inside & ~keep
        chosen = np.where(change, index, chosen)
        kept = np.where(change, candidate, kept)
    return chosen


def _covered(
    dims: Sequence[int], window: Window, counts: tuple[int, ...], at: tuple[int, ...]
) -> tuple[Array, Array]:
    """Flat index of element ``at`` of each window position, and whether it is no padding."""
    index: Any = np.zeros(counts, np.int64)
    inside: Any = np.ones(counts, np.bool_)
    for axis, (size, part) in enumerate(zip(dims, window, strict=True)):
        along = np.arange(counts[axis]) * part.stride + at[axis] - part.pad_low
        along = along.reshape([-1 if i == axis else 1 for i in range(len(dims))])
        index = index * size + along
        inside = inside & (along >= 0) & (along < size)
    return index, inside


def scatter_into(
    evaluation: Evaluation,
    combiner: HloComputation,
    flat: Array,
    targets: Array,
    values: Array,
) -> Array:
    """Combines ``values[i]`` into ``flat[targets[i]]``, in order of ``i`` for equal targets.

    A combiner that is a commutative opcode goes through NumPy in a wider type; any other, and those
    of narrow floats, which round each time as in `scatter`, are applied in rounds, where no round
    has a target twice.
    """
    monoid = monoid_of(combiner)
    fits = (
        monoid is not None
        and monoid.element_type.np == flat.dtype
        and not monoid.element_type.is_narrow_float
    )
    if monoid is not None and fits and not monoid.orders_zeros:
        total = flat.astype(monoid.wide)
        monoid.ufunc.at(total, targets, values.astype(monoid.wide))
        return total.astype(flat.dtype)
    order = np.argsort(targets, kind="stable")
    targets, values = targets[order], values[order]
    first = np.flatnonzero(np.concatenate([[True], targets[1:] != targets[:-1]]))[: targets.size]
    lengths = np.diff(np.append(first, targets.size))
    result = flat.copy()
    for iteration in range(int(lengths.max(initial=0))):
        at = first[lengths > iteration] + iteration
        combined = evaluation.apply(combiner, [result[targets[at]], values[at]])
        result[targets[at]] = combined
    return result
