"""Convolutions of planes that would be faster with their channels last, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.codegen.products.planar import LEAST_WINDOW, MOST_JOINED, TYPES
from xladev.platforms.cpu.codegen.products.windows import MOST_POSITIONS, WindowPlan, window_plan
from xladev.platforms.cpu.layouts.followers import Way
from xladev.platforms.cpu.layouts.in_kernel import in_kernel, moved_shape
from xladev.platforms.cpu.layouts.orders import Span, one, order_with_last, place_of
from xladev.platforms.cpu.layouts.rates import (
    DEPTHWISE_NS,
    EDGE_NS,
    GATHERED_NS,
    GFLOPS,
    PACKED_NS,
    PATCH_NS,
)

_MOVES = frozenset({"bitcast", "convert", "copy", "reshape", "reverse", "transpose"})


def way_of(i: HloInstruction) -> Way:
    """How a convolution is written: filters are moved by `written_convolution`."""
    d: ConvDims = i["dim_labels"]
    return Way(one(d.output_feature), (one(d.input_feature), None))


def gain_ns(i: HloInstruction, lanes: int) -> float | None:
    """Nanoseconds that a convolution takes less with its channels last; None if it cannot be.

    Args:
        i: the convolution.
        lanes: floats of 4 bytes in a vector.
    """
    if len(i.operands) != 2 or i["batch_group_count"] > 1:
        return None
    shapes = [o.shape.row_major() for o in i.operands]
    if window_plan(in_kernel(i, i.shape, shapes, i["dim_labels"])) is not None:
        return None
    moved = [moved_shape(i.operands[0], one(i["dim_labels"].input_feature)), shapes[1]]
    channels = _filters_moved(i)
    if channels is not None:
        moved[1] = moved_shape(i.operands[1], channels)
    result = moved_shape(i, one(i["dim_labels"].output_feature))
    plan = window_plan(in_kernel(i, result, moved, _labels(i)))
    if plan is None or plan.total not in TYPES:
        return None
    images = plan.pixels[plan.batch[0]]
    pixels = prod(plan.pixels) // images
    if plan.is_depthwise:
        return DEPTHWISE_NS * i.shape.size
    if plan.positions >= LEAST_WINDOW and plan.positions > pixels:
        return None
    return _gain_ns(plan, lanes * 4 // plan.total.host_nbytes, (images, pixels)) - _packed_ns(i)


def _gain_ns(plan: WindowPlan, lanes: int, pixels: tuple[int, int]) -> float:
    """Without what filters take; ``pixels`` are images, and pixels of each."""
    images, columns = pixels
    columns *= images if columns <= MOST_JOINED else 1
    size = prod(pixels) * plan.groups * plan.features
    depth = plan.channels * plan.positions
    fuller = _filling(columns, lanes) - _filling(plan.features, lanes)
    strided = any(a.window.stride > 1 or a.window.base_dilation > 1 for a in plan.axes)
    patches = depth * plan.groups * prod(pixels) * (GATHERED_NS if strided else PATCH_NS)
    rest = EDGE_NS * size * (plan.features % lanes) / plan.features
    return 2 * size * depth / GFLOPS * fuller + patches - rest


def _packed_ns(i: HloInstruction) -> float:
    """To pack filters that are no constant, if features are not neighbours there."""
    filters, d = i.operands[1], i["dim_labels"]
    is_near = d.kernel_output_feature == filters.shape.rank - 1
    return 0.0 if is_near or _is_constant(filters) else PACKED_NS * filters.shape.size


def _filling(count: int, lanes: int) -> float:
    """Lanes of whole vectors over those that are wanted."""
    return -(-count // lanes) * lanes / count


def written_convolution(
    e: Emitter, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    """The convolution on a base with its channels last.

    Filters of depthwise convolutions are transposed so that features are last, and so are those of
    windows whose places are not innermost. All others are packed in blocks of features anyway.
    """
    base, filters = operands
    channel, shape = _filters_moved(i), moved_shape(i, one(i["dim_labels"].output_feature))
    if channel is not None:
        filters = e.transpose(filters, order_with_last(filters.shape.rank, channel))
    attrs = {**i.attrs, "dim_labels": _labels(i)}
    return e.op("convolution", base, filters, shape=shape, name=i.name, note=i.note, **attrs)


def _filters_moved(i: HloInstruction) -> Span | None:
    """What of the filters is moved behind all others."""
    d: ConvDims = i["dim_labels"]
    dims = i.operands[1].shape.dims
    is_depthwise = i["feature_group_count"] > 1 and dims[d.kernel_input_feature] == 1
    if d.kernel_output_feature == len(dims) - 1 or not (is_depthwise or _is_apart(dims, d)):
        return None
    is_moved = is_depthwise or not _is_constant(i.operands[1])
    return one(d.kernel_output_feature) if is_moved else None


def _is_apart(dims: Sequence[int], d: ConvDims) -> bool:
    """True if filters have a window that is not innermost, behind the channels; or a large one."""
    count = prod(dims[x] for x in d.kernel_spatial)
    innermost = (d.kernel_input_feature, *sorted(d.kernel_spatial))
    is_run = innermost == tuple(range(len(dims)))[-len(innermost) :]
    return count > 1 and (not is_run or count > MOST_POSITIONS)


def _is_constant(value: HloInstruction) -> bool:
    while value.opcode in _MOVES:
        (value,) = value.operands
    return value.opcode == "constant"


def _labels(i: HloInstruction) -> ConvDims:
    """Which dimension is what, once those that are moved are the last ones."""
    d: ConvDims = i["dim_labels"]
    rank, filters = i.shape.rank, _filters_moved(i)
    seen, kept = one(d.input_feature), one(d.output_feature)
    moved = replace(
        d,
        input_batch=place_of(d.input_batch, seen, rank),
        input_feature=rank - 1,
        input_spatial=tuple(place_of(x, seen, rank) for x in d.input_spatial),
        output_batch=place_of(d.output_batch, kept, rank),
        output_feature=rank - 1,
        output_spatial=tuple(place_of(x, kept, rank) for x in d.output_spatial),
    )
    if filters is None:
        return moved
    return replace(
        moved,
        kernel_output_feature=rank - 1,
        kernel_input_feature=place_of(d.kernel_input_feature, filters, rank),
        kernel_spatial=tuple(place_of(x, filters, rank) for x in d.kernel_spatial),
    )
