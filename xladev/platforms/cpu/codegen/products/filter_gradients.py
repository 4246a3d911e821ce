"""Convolutions that sum over images and pixels: gradients of filters, with channels last.

Such a convolution's window is as large as an image, and its result has the pixels of a filter. The
base's channels are its batch, and images its channels. With channels last in both operands each
pixel is a row of either, and what a place of the filter gets is the product of one, transposed, and
the other: nothing is gathered, and nothing is copied but panels of the second one. Where channels
are few, and no place along a row sees padding, those of all places along a row are taken together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xladev.codegen.arrays import element_strides
from xladev.codegen.elemental.contraction import accumulation_type
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.platforms.cpu.codegen.products.kinds import (
    VECTORS,
    WIDEST_NBYTES,
    ProductKind,
    vector_length,
)
from xladev.platforms.cpu.codegen.products.planar import LEAST_WINDOW, TYPES
from xladev.platforms.cpu.codegen.products.windows import WindowAxis

MOST_LINES = 256
"""Pixels of a part of the depth: so many lines of a panel stay in the first cache."""
SUMS_NBYTES = 256 << 10
"""Bytes of the sums of a block, at most: they stay in the second cache."""
LEAST_CHANNELS, MOST_CHANNELS = 8, 64
"""Channels below which tiles have too few rows; those of a block."""
LEAST_FEATURES = 8
"""Features below which vectors are empty for the most part."""


class DepthPart(NamedTuple):
    """Images, rows and pixels of rows of a part of the depth."""

    images: int
    rows: int
    pixels: int


@dataclass(frozen=True, slots=True)
class FilterGradientPlan:
    """How sums over images and pixels are made; strides in elements.

    Attributes:
        total: type of all elements.
        channels, features: rows and columns of each product.
        images: number of images, and strides of the two operands along them.
        axes: rows and pixels of rows; the windows are the images that are summed over.
        places: of the filter, along the two axes.
        right: strides of the second operand along the axes.
        result: strides along features, channels and the two axes.
    """

    total: PrimitiveType
    channels: int
    features: int
    images: tuple[int, int, int]
    axes: tuple[WindowAxis, WindowAxis]
    places: tuple[int, int]
    right: tuple[int, int]
    result: tuple[int, int, int, int]

    @property
    def taps(self) -> int:
        """Places of the filter."""
        return prod(self.places)

    @property
    def block_channels(self) -> int:
        """Channels of a block."""
        fitting = SUMS_NBYTES // (self.taps * VECTORS * WIDEST_NBYTES)
        most = max(min(fitting, MOST_CHANNELS) // LEAST_CHANNELS, 1) * LEAST_CHANNELS
        return min(most, self.channels)

    @property
    def part(self) -> DepthPart:
        """How the depth is cut: it is the same for all targets, as bits depend on it."""
        rows, pixels = (a.window.size for a in self.axes)
        if pixels > MOST_LINES:
            return DepthPart(1, 1, _even(pixels, MOST_LINES))
        if rows * pixels > MOST_LINES:
            return DepthPart(1, _even(rows, MOST_LINES // pixels), pixels)
        return DepthPart(_even(self.images[0], MOST_LINES // (rows * pixels)), rows, pixels)

    @property
    def panel_nbytes(self) -> int:
        """Bytes of a panel."""
        return prod(self.part) * VECTORS * WIDEST_NBYTES

    @property
    def sums_nbytes(self) -> int:
        """Bytes of the sums of a block, and of lines that are read with the last ones."""
        lines = self.block_channels * self.taps + WIDEST_NBYTES
        return lines * VECTORS * WIDEST_NBYTES

    @property
    def workspace_nbytes(self) -> int:
        """A panel and sums."""
        return self.panel_nbytes + self.sums_nbytes

    @property
    def is_turned(self) -> bool:
        """True if the result has features before all else, as PyTorch's filters do."""
        return self.result[0] != 1

    def seen(self, axis: int) -> tuple[int, ...]:
        """Of each place of the filter, which rows or pixels see the base: from the first on, and
        below the second; both are 0 if none does."""
        a, found = self.axes[axis], list[int]()
        w = a.window
        for place in range(self.places[axis]):
            begin = place * w.stride - w.pad_low
            first = max(-(begin // w.window_dilation), 0)
            last = min((a.size - 1 - begin) // w.window_dilation, w.size - 1)
            found += (first, last + 1) if first <= last else (0, 0)
        return tuple(found)

    def kind(self, nbytes: int) -> ProductKind:
        """The functions it needs, with vectors of some length."""
        return ProductKind(self.total, self.total, self.total, vector_length(nbytes, self.total))


def filter_gradient_plan(i: HloInstruction) -> FilterGradientPlan | None:
    """How a convolution is computed as sums over images and pixels; None if it is not."""
    total = accumulation_type(i.shape.element_type)
    shapes = [o.shape for o in (*i.operands, i)]
    if len(shapes) != 3 or any(o.opcode != "parameter" for o in i.operands):
        return None
    if total not in TYPES or any(not s.size or s.element_type is not total for s in shapes):
        return None
    dims = ConvolutionDims.of(i)
    d, axes = dims.labels, len(dims.window)
    if dims.groups > 1 or axes not in (1, 2):
        return None
    if any(w.reversal or w.base_dilation > 1 for w in dims.window):
        return None
    base, filters, result = shapes
    left, right, kept = map(element_strides, (base, filters, result))
    if left[d.input_batch] != 1 or right[d.kernel_output_feature] != 1:
        return None
    found = [
        (
            WindowAxis(dims.window[n], base.dims[d.input_spatial[n]], left[d.input_spatial[n]]),
            result.dims[d.output_spatial[n]],
            right[d.kernel_spatial[n]],
            kept[d.output_spatial[n]],
        )
        for n in range(axes)
    ]
    if axes == 1:
        axis = found[0]
        window = type(axis[0].window)(1)
        found.insert(0, (WindowAxis(window, 1, 0), 1, 0, axis[1] * axis[3]))
    outer, inner = found
    plan = FilterGradientPlan(
        total=total,
        channels=base.dims[d.input_batch],
        features=filters.dims[d.kernel_output_feature],
        images=(base.dims[d.input_feature], left[d.input_feature], right[d.kernel_input_feature]),
        axes=(outer[0], inner[0]),
        places=(outer[1], inner[1]),
        right=(outer[2], inner[2]),
        result=(kept[d.output_feature], kept[d.output_batch], outer[3], inner[3]),
    )
    plan = _joined(plan)
    return plan if _is_fast(plan) else None


def _joined(plan: FilterGradientPlan) -> FilterGradientPlan:
    """Few channels: those of neighbouring places follow one another, and are channels of one."""
    axis, places, count = plan.axes[1], plan.places[1], plan.channels
    _, channel, row, pixel = plan.result
    if count >= LEAST_CHANNELS or (axis.stride, pixel) != (count, count * channel):
        return plan
    if axis.window.stride > 1 or plan.seen(1) != (0, axis.window.size) * places:
        return plan
    return replace(
        plan,
        channels=count * places,
        places=(plan.places[0], 1),
        result=(plan.result[0], channel, row, 0),
    )


def _even(count: int, most: int) -> int:
    """Of so many, how many are in each of equal parts of at most so many."""
    return -(-count // -(-count // max(most, 1)))


def _is_fast(plan: FilterGradientPlan) -> bool:
    """False for what other code is for."""
    window = prod(a.window.size for a in plan.axes)
    is_large = window >= LEAST_WINDOW and window * plan.images[0] > plan.taps
    if not is_large or plan.channels < LEAST_CHANNELS or plan.features < LEAST_FEATURES:
        return False
    if plan.sums_nbytes > 2 * SUMS_NBYTES:
        return False
    if not plan.is_turned:
        return True
    rows, pixels = plan.places
    return plan.result[1:] == (rows * pixels, pixels, 1)
