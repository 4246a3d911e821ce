"""Opcodes that read and write at indices known at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.expense import MOVE
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics.casts import as_indices
from xladev.hlo.opdef import (
    VARIADIC,
    Attr,
    AttrKind,
    Evaluation,
    InstructionView,
    OpCall,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops import moved, rules
from xladev.hlo.ops.gathering import evaluate_gather, infer_gather
from xladev.hlo.ops.scattering import evaluate_scatter, infer_scatter
from xladev.hlo.shape import UNBOUNDED, Shape

_GATHER = "gather_dimension_numbers."
_SCATTER = "scatter_dimension_numbers."


def _dims(name: str, prefix: str, *, shown: bool = True) -> Attr:
    return Attr(name, AttrKind.INTS, default=(), proto=prefix + name, shown=shown)


_INDEX_DIMS = (
    _dims("offset_dims", _GATHER),
    _dims("collapsed_slice_dims", _GATHER),
    _dims("start_index_map", _GATHER),
    _dims("operand_batching_dims", _GATHER, shown=False),
    _dims("start_indices_batching_dims", _GATHER, shown=False),
    Attr("index_vector_dim", AttrKind.INT, required=True, proto=_GATHER + "index_vector_dim"),
)
_SCATTER_DIMS = (
    _dims("update_window_dims", _SCATTER),
    _dims("inserted_window_dims", _SCATTER),
    _dims("scatter_dims_to_operand_dims", _SCATTER),
    _dims("input_batching_dims", _SCATTER, shown=False),
    _dims("scatter_indices_batching_dims", _SCATTER, shown=False),
    Attr("index_vector_dim", AttrKind.INT, required=True, proto=_SCATTER + "index_vector_dim"),
)


def check_starts(call: OpCall, operand: Shape, indices: Sequence[Shape]) -> None:
    """``OP_c2``, ``OP_c3``: one integer scalar per dimension, or one vector of all of them."""
    count, kinds = rules.constraint(call, "c2"), "c3"
    if len(indices) == 1 and indices[0].rank == 1:
        length = indices[0].dims[0]
        call.require(length == operand.rank, count, f"{length} starts for {operand}")
        rules.require_kinds(call, indices[0], rules.INTEGER, kinds)
        return
    call.require(len(indices) == operand.rank, count, f"{len(indices)} starts for {operand}")
    for shape in indices:
        call.require(shape.is_scalar, count, f"start {shape} is no scalar")
        rules.require_kinds(call, shape, rules.INTEGER, kinds)
    if indices:
        rules.same_element_type(call, indices, kinds)


def clamped_starts(
    indices: Sequence[Array], dims: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Window of ``sizes`` at the starts, each moved as far as the window needs to be inside."""
    if len(indices) == 1 and indices[0].ndim == 1:
        indices = [indices[0][i] for i in range(len(dims))]
    result: list[slice] = []
    for index, dim, size in zip(indices, dims, sizes, strict=True):
        start = min(max(int(as_indices(np.asarray(index))), 0), max(0, dim - size))
        result.append(slice(start, start + size))
    return tuple(result)


def _infer_dynamic_slice(call: OpCall) -> Shape:
    rules.require_arrays(call)
    operand, *indices = call.operands
    check_starts(call, operand, indices)
    sizes = call["dynamic_slice_sizes"]
    count = len(sizes)
    call.require(count == operand.rank, "dynamic_slice_c4", f"{count} sizes for {operand}")
    for d, size in enumerate(sizes):
        fits = size >= 0 and (size <= operand.dims[d] or operand.dims[d] == UNBOUNDED)
        call.require(fits, "dynamic_slice_c5", f"size {size} in dimension {d} of {operand}")
    return rules.shape_like(operand, sizes)


def _evaluate_dynamic_slice(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    array, *indices = operands
    return array[clamped_starts(indices, array.shape, instruction["dynamic_slice_sizes"])]


def _infer_dynamic_update_slice(call: OpCall) -> Shape:
    rules.require_arrays(call)
    operand, update, *indices = call.operands
    check_starts(call, operand, indices)
    rules.same_element_type(call, (operand, update), "c4")
    call.require(
        update.rank == operand.rank, "dynamic_update_slice_c5", f"{update} and {operand}: ranks"
    )
    for d, size in enumerate(update.dims):
        fits = size <= operand.dims[d] or operand.dims[d] == UNBOUNDED
        call.require(fits, "dynamic_update_slice_c6", f"update {update} exceeds {operand}")
    flags = [
        operand.is_dynamic_dimension(d)
        or (update.is_dynamic_dimension(d) and update.dims[d] == operand.dims[d])
        for d in range(operand.rank)
    ]
    return rules.shape_like(operand, operand.dims, flags)


def _evaluate_dynamic_update_slice(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation, instruction
    array, update, *indices = operands
    result = np.array(array)
    result[clamped_starts(indices, array.shape, update.shape)] = update
    return result


_STARTS = (
    "The starts are one scalar of an integer type for each dimension of the first operand, or one "
    "vector of them, of rank 1, as a single operand.",
    "A start is moved as far as the window needs to be inside; a negative one becomes 0.",
)

OPS: tuple[OpDef, ...] = (
    OpDef(
        "dynamic-slice",
        (1, VARIADIC),
        "Window at run-time starts, clamped.",
        forms=_STARTS,
        attrs=(Attr("dynamic_slice_sizes", AttrKind.INTS, default=(), shown=True),),
        infer=_infer_dynamic_slice,
        evaluate=_evaluate_dynamic_slice,
        category="shape",
        expense=MOVE,
        moved=moved.windows_read,
    ),
    OpDef(
        "dynamic-update-slice",
        (2, VARIADIC),
        "Writes a window at run-time starts, clamped.",
        forms=_STARTS,
        infer=_infer_dynamic_update_slice,
        evaluate=_evaluate_dynamic_update_slice,
        category="shape",
        moved=moved.window_written,
    ),
    OpDef(
        "gather",
        2,
        "Windows read at indices, clamped.",
        attrs=(
            *_INDEX_DIMS,
            Attr("slice_sizes", AttrKind.INTS, default=(), proto="gather_slice_sizes", shown=True),
            Attr("indices_are_sorted", AttrKind.BOOL, default=False),
        ),
        infer=infer_gather,
        evaluate=evaluate_gather,
        category="shape",
        expense=MOVE,
        moved=moved.windows_read,
    ),
    OpDef(
        "scatter",
        (3, VARIADIC),
        "Windows combined into operands at indices; those out of bounds are dropped.",
        attrs=(
            *_SCATTER_DIMS,
            Attr("indices_are_sorted", AttrKind.BOOL, default=False),
            Attr("unique_indices", AttrKind.BOOL, default=False),
            Attr("to_apply", AttrKind.COMPUTATION, required=True),
        ),
        infer=infer_scatter,
        evaluate=evaluate_scatter,
        category="training",
        expense=MOVE,
        over_operands=True,
        tolerance=Tolerance.SUM,
        differences=(
            "A window that is partly outside is dropped whole, as in XLA; StableHLO drops only "
            "the elements outside.",
            "Every update counts where index vectors have no components; XLA:CPU keeps one.",
            "XLA:CPU was seen to combine other elements where several operands share a combiner.",
        ),
        moved=moved.windows_combined,
    ),
)
