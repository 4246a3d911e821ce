"""Gradients of filters with the channels of both operands last, and what that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xladev.hlo.attributes import ConvDims, WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.codegen.products.filter_gradients import (
    LEAST_CHANNELS,
    FilterGradientPlan,
    filter_gradient_plan,
)
from xladev.platforms.cpu.layouts.followers import Way
from xladev.platforms.cpu.layouts.in_kernel import in_kernel, moved_shape
from xladev.platforms.cpu.layouts.orders import Span, one, place_of
from xladev.platforms.cpu.layouts.rates import GFLOPS, PATCH_NS

SLOWER = 0.1
"""By which part products with patches take longer: their padding is multiplied, too."""


def filter_gradient_way(i: HloInstruction) -> Way:
    """Its result stays as it is: filters are no images."""
    d: ConvDims = i["dim_labels"]
    rank = i.shape.rank
    return Way(Span(rank, rank), (one(d.input_batch), one(d.kernel_output_feature)))


def filter_gradient_gain_ns(i: HloInstruction) -> float | None:
    """Nanoseconds that it takes less with channels last; None for what is none, or has them."""
    if len(i.operands) != 2:
        return None
    shapes = [o.shape.row_major() for o in i.operands]
    if filter_gradient_plan(in_kernel(i, i.shape, shapes, i["dim_labels"])) is not None:
        return None
    plan = _plan(i, joins=False) or _plan(i, joins=True)
    if plan is None:
        return None
    depth = plan.images[0] * prod(a.window.size for a in plan.axes)
    patches = depth * plan.channels * plan.taps
    return patches * (PATCH_NS + 2 * plan.features / GFLOPS * SLOWER)


def written_filter_gradient(
    e: Emitter, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    """The convolution on operands with their channels last.

    Of few channels, those of the places along a row are taken together: rows are padded first, and
    the result is made in the order of memory that this needs.
    """
    if _plan(i, joins=False) is not None:
        attrs = {**i.attrs, "dim_labels": _labels(i)}
        return e.op("convolution", *operands, shape=i.shape, name=i.name, note=i.note, **attrs)
    base, other = operands
    window, order = _padded_window(i), _joined_order(i["dim_labels"])
    shape = array(i.shape.element_type, [i.shape.dims[d] for d in order])
    attrs = {**i.attrs, "window": window, "dim_labels": _labels(i, order)}
    padded = e.pad(base, _padding(i))
    made = e.op("convolution", padded, other, shape=shape, name=i.name, note=i.note, **attrs)
    return e.transpose(made, [order.index(d) for d in range(len(order))])


def _plan(i: HloInstruction, *, joins: bool) -> FilterGradientPlan | None:
    """Of the kernel that it becomes, where channels are few or not."""
    base, other = i.operands
    spans = one(i["dim_labels"].input_batch), one(i["dim_labels"].kernel_output_feature)
    moved = [moved_shape(base, spans[0]), moved_shape(other, spans[1])]
    if not joins:
        return filter_gradient_plan(in_kernel(i, i.shape, moved, _labels(i)))
    if not i["window"] or moved[0].dims[-1] >= LEAST_CHANNELS:
        return None
    order = _joined_order(i["dim_labels"])
    sizes = [n + low + high for n, (low, high, _) in zip(moved[0].dims, _padding(i), strict=True)]
    if min(sizes) < 1:
        return None
    moved[0] = array(base.shape.element_type, sizes).row_major()
    shape = array(i.shape.element_type, [i.shape.dims[d] for d in order])
    labels = _labels(i, order)
    made = in_kernel(i, shape, moved, labels)
    attrs = {**made.attrs, "window": _padded_window(i)}
    return filter_gradient_plan(HloInstruction(i.op, made.shape, made.operands, attrs, i.name))


def _joined_order(d: ConvDims) -> tuple[int, ...]:
    """Dimensions of the result as they then are in memory: places, channels, features."""
    return (*d.output_spatial, d.output_batch, d.output_feature)


def _padded_window(i: HloInstruction) -> tuple[WindowDim, ...]:
    """Without the padding of rows."""
    *outer, inner = i["window"]
    return (*outer, replace(inner, pad_low=0, pad_high=0))


def _padding(i: HloInstruction) -> list[tuple[int, int, int]]:
    """Of the base with its channels last, along rows."""
    inner = i["window"][-1]
    padding = [(0, 0, 0)] * i.shape.rank
    padding[_labels(i).input_spatial[-1]] = inner.pad_low, inner.pad_high, 0
    return padding


def _labels(i: HloInstruction, order: Sequence[int] = ()) -> ConvDims:
    """With channels last, and the result's dimensions in some order; as they are, without one."""
    d: ConvDims = i["dim_labels"]
    places = list(order or range(i.shape.rank))
    rank, seen, kept = i.shape.rank, one(d.input_batch), one(d.kernel_output_feature)
    return replace(
        d,
        input_batch=rank - 1,
        input_feature=place_of(d.input_feature, seen, rank),
        input_spatial=tuple(place_of(x, seen, rank) for x in d.input_spatial),
        kernel_output_feature=rank - 1,
        kernel_input_feature=place_of(d.kernel_input_feature, kept, rank),
        kernel_spatial=tuple(place_of(x, kept, rank) for x in d.kernel_spatial),
        output_batch=places.index(d.output_batch),
        output_feature=places.index(d.output_feature),
        output_spatial=tuple(places.index(x) for x in d.output_spatial),
    )
