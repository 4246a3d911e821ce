"""Convolution of any rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xladev.hlo.attributes import ConvDims, Window
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
from xladev.hlo.ops.accumulation import accumulator_of, matmul, rounded
from xladev.hlo.ops.contraction_rules import (
    ALGORITHM,
    PRECISION,
    PRODUCT_DIFFERENCES,
    check_precision,
    product_cost,
    product_type,
)
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.hlo.ops.dimension_rules import require_array
from xladev.hlo.ops.windows import check_window, padded, window_positions
from xladev.hlo.shape import UNBOUNDED, Shape, array


def infer_convolution(call: OpCall) -> Shape:
    """Shape of a convolution (StableHLO ``convolution`` C1 to C27).

    Raises:
        ShapeError: ``convolution_c1`` operand ranks, ``_c2`` window, ``_c3`` to ``_c5`` dimension
            numbers, ``_c6`` groups, ``_c7`` features, ``_c8`` kernel size, ``_c9`` batch groups,
            ``_c11`` precision, ``_c12`` number of operands, ``_c13`` element types.
    """
    require_array(call)
    check_precision(call)
    call.require(len(call.operands) >= 2, "convolution_c12", "there must be an input and a kernel")
    lhs, rhs = call.operands[:2]
    convolution = ConvolutionDims.of(call)
    dims, window = convolution.labels, convolution.window
    call.require(lhs.rank == rhs.rank, "convolution_c1", "input and kernel must have equal rank")
    call.require(lhs.rank >= 2, "convolution_c1", "input and kernel must have rank 2 or more")
    _check_labels(call, dims)
    same = len(window) == lhs.rank - 2
    call.require(same, "convolution_c2", f"the window must have {lhs.rank - 2} dimensions")
    check_window(call, window, "convolution_c2")
    _check_groups(call, convolution)
    _check_kernel(call, dims, window)
    return _result(call, dims, window)


def _check_labels(call: OpCall, dims: ConvDims) -> None:
    rank = call.operands[0].rank
    for name, constraint, axes in (
        ("input", "convolution_c3", (dims.input_batch, dims.input_feature, *dims.input_spatial)),
        (
            "kernel",
            "convolution_c4",
            (dims.kernel_input_feature, dims.kernel_output_feature, *dims.kernel_spatial),
        ),
        (
            "output",
            "convolution_c5",
            (dims.output_batch, dims.output_feature, *dims.output_spatial),
        ),
    ):
        if sorted(axes) != list(range(rank)):
            call.fail(
                constraint, f"{name} dimensions {list(axes)} are not 0 to {rank - 1}, once each"
            )


def _check_groups(call: OpCall, convolution: ConvolutionDims) -> None:
    lhs, rhs = call.operands[:2]
    dims = convolution.labels
    features, batches = convolution.feature_groups, convolution.batch_groups
    positive = features > 0 and batches > 0
    call.require(positive, "convolution_c6", "group counts must be at least 1")
    one = features == 1 or batches == 1
    call.require(one, "convolution_c6", "only one of the group counts may be above 1")
    feature, outputs = lhs.dims[dims.input_feature], rhs.dims[dims.kernel_output_feature]
    inputs = rhs.dims[dims.kernel_input_feature]
    if UNBOUNDED not in (feature, inputs) and feature != inputs * features:
        call.fail(
            "convolution_c7",
            f"{feature} input features are not {features} groups of the kernel's {inputs}",
        )
    if outputs % features or outputs % batches:
        count = max(features, batches)
        call.fail("convolution_c9", f"{outputs} output features do not make {count} groups")
    if lhs.dims[dims.input_batch] % batches:
        call.fail("convolution_c9", f"the batch does not make {batches} groups")


def _check_kernel(call: OpCall, dims: ConvDims, window: Window) -> None:
    kernel = call.operands[1]
    for axis, part in zip(dims.kernel_spatial, window, strict=True):
        if kernel.dims[axis] not in (part.size, UNBOUNDED):
            call.fail(
                "convolution_c8",
                f"the window has size {part.size} where the kernel has {kernel.dims[axis]}",
            )


def _result(call: OpCall, dims: ConvDims, window: Window) -> Shape:
    lhs, rhs = call.operands[:2]
    sizes, dynamic = [0] * lhs.rank, [False] * lhs.rank
    batch = lhs.dims[dims.input_batch]
    sizes[dims.output_batch] = batch if batch == UNBOUNDED else batch // call["batch_group_count"]
    dynamic[dims.output_batch] = lhs.is_dynamic_dimension(dims.input_batch)
    sizes[dims.output_feature] = rhs.dims[dims.kernel_output_feature]
    for out, axis, part in zip(dims.output_spatial, dims.input_spatial, window, strict=True):
        size = lhs.dims[axis]
        sizes[out] = UNBOUNDED if size == UNBOUNDED else part.output_size(size)
        dynamic[out] = lhs.is_dynamic_dimension(axis)
    return array(product_type(call), sizes, dynamic=dynamic)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Operands of a convolution cut into groups, in one canonical order of dimensions.

    Attributes:
        inputs: ``[group, batch, *spatial, input feature]``, dilated and padded.
        kernels: ``[group, *window, input feature, output feature]``.
        window: how kernels slide over inputs.
        counts: number of window positions per dimension.
    """

    inputs: Array
    kernels: Array
    window: Window
    counts: tuple[int, ...]


def evaluate_convolution(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Sum over window and input features of input times kernel."""
    lhs, rhs = operands[:2]
    dims: ConvDims = instruction["dim_labels"]
    element_type = instruction.shape.element_type
    wide = accumulator_of(element_type, lhs, rhs)
    groups = _grouped(lhs, rhs, instruction, wide)
    few = prod(groups.counts) < prod(part.size for part in groups.window)
    product = (_by_position if few else _by_kernel)(groups, wide)
    return rounded(_labelled(product, dims), element_type)


def _grouped(lhs: Array, rhs: Array, instruction: InstructionView, wide: np.dtype[Any]) -> _Groups:
    convolution = ConvolutionDims.of(instruction)
    dims, window = convolution.labels, convolution.window
    features, batches = convolution.feature_groups, convolution.batch_groups
    counts = tuple(
        part.output_size(lhs.shape[axis])
        for axis, part in zip(dims.input_spatial, window, strict=True)
    )
    inputs = lhs.transpose(dims.input_batch, *dims.input_spatial, dims.input_feature)
    inputs = padded(inputs.astype(wide), (None, *window, None), np.zeros((), wide))
    inputs = _split(inputs, -1, features) if features > 1 else _split(inputs, 0, batches)
    kernels = rhs.transpose(
        *dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature
    ).astype(wide)
    turned = tuple(slice(None, None, -1 if part.reversal else 1) for part in window)
    kernels = _split(kernels[turned], -1, max(features, batches))
    return _Groups(inputs, kernels, window, counts)


def _split(array: Array, axis: int, groups: int) -> Array:
    """Cuts one dimension into ``groups`` consecutive parts, and puts the groups first."""
    if groups == 1:
        return array[None]
    return np.stack(np.split(array, groups, axis))


def _by_kernel(groups: _Groups, wide: np.dtype[Any]) -> Array:
    """Adds one product per element of the window: ``[group, batch, *positions, feature]``."""
    count, batch = groups.inputs.shape[:2]
    features = groups.kernels.shape[-1]
    total = np.zeros((count, batch * prod(groups.counts), features), wide)
    for at in np.ndindex(*(part.size for part in groups.window)):
        picked = groups.inputs[(slice(None), slice(None), *_positions(groups, at))]
        rows = picked.reshape(count, total.shape[1], picked.shape[-1])
        product = matmul(rows, groups.kernels[(slice(None), *at)], wide)
        total = total | product if wide == np.bool_ else total + product
    return total.reshape(count, batch, *groups.counts, features)


def _positions(groups: _Groups, at: tuple[int, ...]) -> tuple[slice, ...]:
    """Where element ``at`` of the window is, over all window positions."""
    starts = (i * part.window_dilation for i, part in zip(at, groups.window, strict=True))
    return tuple(
        slice(start, start + max((n - 1) * part.stride + 1, 0), part.stride)
        for start, n, part in zip(starts, groups.counts, groups.window, strict=True)
    )


def _by_position(groups: _Groups, wide: np.dtype[Any]) -> Array:
    """As `_by_kernel`, by one product per window position; for kernels as large as the input."""
    count, batch = groups.inputs.shape[:2]
    features = groups.kernels.shape[-1]
    result = np.zeros((count, batch, *groups.counts, features), wide)
    kernels = groups.kernels.reshape(count, -1, features)
    for at in np.ndindex(*groups.counts):
        patch = groups.inputs[(slice(None), slice(None), *window_positions(groups.window, at))]
        rows = patch.reshape(count, batch, kernels.shape[1])
        result[(slice(None), slice(None), *at)] = matmul(rows, kernels, wide)
    return result


def _labelled(product: Array, dims: ConvDims) -> Array:
    """``[group, batch, *spatial, feature]`` in the order of the output labels."""
    joined = np.moveaxis(product, 0, -2)
    joined = joined.reshape(*joined.shape[:-2], joined.shape[-2] * joined.shape[-1])
    order = (dims.output_batch, *dims.output_spatial, dims.output_feature)
    return joined.transpose(np.argsort(order))


def convolution_cost(
    result: Shape, operands: tuple[Shape, ...], instruction: InstructionView
) -> Cost:
    """Two flops per multiply-add, padding and holes included."""
    kernel, dims = operands[1], instruction["dim_labels"]
    outputs = kernel.dims[dims.kernel_output_feature]
    return product_cost(result, operands, result.size * kernel.size // max(outputs, 1))


OPS: tuple[OpDef, ...] = (
    OpDef(
        "convolution",
        (2, VARIADIC),
        "Convolution of any rank with windows, dilation, groups and reversal.",
        attrs=(
            Attr("window", AttrKind.WINDOW, default=()),
            Attr(
                "dim_labels",
                AttrKind.CONV_DIMS,
                required=True,
                proto="convolution_dimension_numbers",
            ),
            Attr("feature_group_count", AttrKind.INT, default=1),
            Attr("batch_group_count", AttrKind.INT, default=1),
            PRECISION,
            ALGORITHM,
            Attr("convolution_kind", AttrKind.WORD, proto="conv_kind"),
            Attr("sparsity_config", AttrKind.SPARSITY),
            Attr("block_scaling_config", AttrKind.SPARSITY),
        ),
        infer=infer_convolution,
        evaluate=evaluate_convolution,
        category="conv",
        tolerance=Tolerance.SUM,
        differences=PRODUCT_DIFFERENCES,
        cost=convolution_cost,
    ),
)
