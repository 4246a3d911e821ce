"""Opcodes that read and write at indices known at run time."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

_GATHER = "gather_dimension_numbers."
_SCATTER = "scatter_dimension_numbers."
_INDEX_DIMS = (
    Attr("offset_dims", AttrKind.INTS, default=(), proto=_GATHER + "offset_dims"),
    Attr("collapsed_slice_dims", AttrKind.INTS, default=(), proto=_GATHER + "collapsed_slice_dims"),
    Attr("start_index_map", AttrKind.INTS, default=(), proto=_GATHER + "start_index_map"),
    Attr(
        "operand_batching_dims", AttrKind.INTS, default=(), proto=_GATHER + "operand_batching_dims"
    ),
    Attr(
        "start_indices_batching_dims",
        AttrKind.INTS,
        default=(),
        proto=_GATHER + "start_indices_batching_dims",
    ),
    Attr("index_vector_dim", AttrKind.INT, required=True, proto=_GATHER + "index_vector_dim"),
)
_SCATTER_DIMS = (
    Attr("update_window_dims", AttrKind.INTS, default=(), proto=_SCATTER + "update_window_dims"),
    Attr(
        "inserted_window_dims", AttrKind.INTS, default=(), proto=_SCATTER + "inserted_window_dims"
    ),
    Attr(
        "scatter_dims_to_operand_dims",
        AttrKind.INTS,
        default=(),
        proto=_SCATTER + "scatter_dims_to_operand_dims",
    ),
    Attr("input_batching_dims", AttrKind.INTS, default=(), proto=_SCATTER + "input_batching_dims"),
    Attr(
        "scatter_indices_batching_dims",
        AttrKind.INTS,
        default=(),
        proto=_SCATTER + "scatter_indices_batching_dims",
    ),
    Attr("index_vector_dim", AttrKind.INT, required=True, proto=_SCATTER + "index_vector_dim"),
)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "dynamic-slice",
        (1, VARIADIC),
        "Window at run-time starts, clamped.",
        attrs=(Attr("dynamic_slice_sizes", AttrKind.INTS, default=()),),
        category="shape",
    ),
    OpDef(
        "dynamic-update-slice",
        (2, VARIADIC),
        "Writes a window at run-time starts, clamped.",
        category="shape",
    ),
    OpDef(
        "gather",
        2,
        "Windows read at indices, clamped.",
        attrs=(
            *_INDEX_DIMS,
            Attr("slice_sizes", AttrKind.INTS, default=(), proto="gather_slice_sizes"),
            Attr("indices_are_sorted", AttrKind.BOOL, default=False),
        ),
        category="shape",
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
        category="training",
    ),
)
