"""Gradients of filters with the channels of both operands last, and what that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.codegen.products.filter_gradients import filter_gradient_plan
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
    spans = filter_gradient_way(i).operands
    moved = [moved_shape(o, span) for o, span in zip(i.operands, spans, strict=True) if span]
    plan = filter_gradient_plan(in_kernel(i, i.shape, moved, _labels(i)))
    if plan is None:
        return None
    depth = plan.images[0] * prod(a.window.size for a in plan.axes)
    patches = depth * plan.channels * plan.taps
    return patches * (PATCH_NS + 2 * plan.features / GFLOPS * SLOWER)


def written_filter_gradient(
    e: Emitter, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    """The convolution on operands with their channels last."""
    attrs = {**i.attrs, "dim_labels": _labels(i)}
    return e.op("convolution", *operands, shape=i.shape, name=i.name, note=i.note, **attrs)


def _labels(i: HloInstruction) -> ConvDims:
    d: ConvDims = i["dim_labels"]
    rank, seen, kept = i.shape.rank, one(d.input_batch), one(d.kernel_output_feature)
    return replace(
        d,
        input_batch=rank - 1,
        input_feature=place_of(d.input_feature, seen, rank),
        input_spatial=tuple(place_of(x, seen, rank) for x in d.input_spatial),
        kernel_output_feature=rank - 1,
        kernel_input_feature=place_of(d.kernel_input_feature, kept, rank),
        kernel_spatial=tuple(place_of(x, kept, rank) for x in d.kernel_spatial),
    )
