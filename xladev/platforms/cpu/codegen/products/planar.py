"""Convolutions whose results are planes of pixels: rows are features, columns are pixels.

That is how PyTorch, ONNX and JAX by default lay images out: features before pixels. The filters are
the left operand, and are read as they are in memory. The right operand, patches of the base, is
written panel by panel by `patches.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from xladev.codegen.arrays import element_strides
from xladev.codegen.elemental.contraction import accumulation_type
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.platforms.cpu.codegen.products.dot import BLOCK_ROWS, COLUMNS_STEP, ROWS_STEP
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES, ProductKind, vector_length
from xladev.platforms.cpu.codegen.products.patches import (
    LaneDimension,
    PatchAxis,
    PatchKind,
    lane_facts,
)
from xladev.platforms.cpu.codegen.products.windows import WindowAxis, filter_axes, position_stride

TYPES = (dt.F32, dt.F64)
MOST_LINES = 512
"""Lines of a panel: a part of the depth."""
MOST_TURNED_LINES = 256
"""The same where lanes are places in the window: what is turned then stays near, too."""
BLOCK_COLUMNS = 128
"""Columns of a block, about: so many panels stay in the second cache."""
MOST_JOINED = 64
"""Pixels of an image up to which images share vectors: the result is put in its places later."""
BLOCK_CHANNELS = 32
"""Channels of a block of a depthwise convolution."""
LEAST_WINDOW = 16
"""Places in a window from which on they are lanes, if there are more of them than pixels."""
MOST_ELEMENTS = 1 << 30
"""Elements of a base whose places are 32-bit numbers."""


@dataclass(frozen=True, slots=True)
class PlanarPlan:
    """A convolution as a product of filters and patches; strides in elements.

    Attributes:
        total: type of all elements.
        groups, channels, features: how many, the last two in one group.
        images: of the batch, where each has a matrix of the result of its own.
        batch: strides of the base and of the result along these.
        planes: images that lie between the features and the pixels of the result, else 1; and the
            base's stride along them.
        axes: spatial dimensions as they are in the result's memory, outermost first.
        pixels: of the result, along each axis.
        filter_order: numbers of the axes as they are in the filters' memory.
        channel: stride of the base's channels.
        left: strides of the filters along features, channels and positions.
    """

    total: PrimitiveType
    groups: int
    channels: int
    features: int
    images: int
    batch: tuple[int, int]
    planes: tuple[int, int]
    axes: tuple[WindowAxis, ...]
    pixels: tuple[int, ...]
    filter_order: tuple[int, ...]
    channel: int
    left: tuple[int, int, int]

    @property
    def window(self) -> int:
        """Places in the window."""
        return prod(a.window.size for a in self.axes)

    @property
    def is_turned(self) -> bool:
        """True if lanes are places in the window: there are more of them than pixels."""
        is_long = self.window >= LEAST_WINDOW and self.window > prod(self.pixels)
        return is_long and not self.is_depthwise

    @property
    def is_joined(self) -> bool:
        """True if a block has the pixels of several images."""
        is_small = self.images > 1 and prod(self.pixels) <= MOST_JOINED
        return is_small and not (self.is_turned or self.is_depthwise)

    @property
    def matrices(self) -> int:
        """Of the result, each with blocks of its own."""
        return 1 if self.is_joined else self.images

    @property
    def is_depthwise(self) -> bool:
        """True if each channel is a group, of one feature; then there is no product of matrices."""
        is_single = self.groups > 1 and self.channels == self.features == 1
        return is_single and self.window <= MOST_LINES

    @property
    def columns(self) -> int:
        """Columns of a matrix."""
        images = self.images if self.is_joined else self.planes[0]
        return images * prod(self.pixels)

    @property
    def row_stride(self) -> int:
        """From one feature of the result to the next."""
        return self.planes[0] * prod(self.pixels)

    @property
    def is_dilated(self) -> bool:
        """True if the base is."""
        return any(a.window.base_dilation > 1 for a in self.axes)

    @property
    def patch(self) -> PatchKind:
        """Which microkernel writes patches."""
        return PatchKind(len(self.axes), self.is_dilated)

    @property
    def lines(self) -> int:
        """Lines of a part of the depth."""
        if self.is_turned:
            return min(MOST_TURNED_LINES, -(-self.window // self.most_lanes) * self.most_lanes)
        return self.part_channels * self.window

    @property
    def part_channels(self) -> int:
        """Channels of a part of the depth, where lanes are pixels."""
        most = max(MOST_LINES // self.window, 1)
        parts = -(-self.channels // most)
        return -(-self.channels // parts)

    @property
    def most_lanes(self) -> int:
        """Lanes of the longest vectors."""
        return WIDEST_NBYTES // self.total.host_nbytes

    @property
    def columns_step(self) -> int:
        """What divides the columns of a block: whole images if it has several."""
        pixels = prod(self.pixels)
        if self.is_turned:
            return pixels * self.most_lanes // gcd(pixels, self.most_lanes)
        return pixels if self.is_joined else COLUMNS_STEP

    @property
    def block_columns(self) -> int:
        """Most columns of a block."""
        step = self.columns_step
        most = max(BLOCK_COLUMNS // step, 1) * step
        return min(most, -(-self.columns // step) * step)

    @property
    def room(self) -> int:
        """Columns of a block and its panels."""
        return -(-self.block_columns // COLUMNS_STEP) * COLUMNS_STEP

    @property
    def step(self) -> int:
        """From one line to the next in the filters of a feature."""
        return self.left[2 if self.window > 1 else 1]

    @property
    def is_gathered(self) -> bool:
        """True if filters are copied first: those of a feature, or else of a channel, lie apart."""
        row, channel, position = self.left
        if self.is_turned or self.channels == 1:
            return False
        if self.window == 1:
            return channel != 1 == row
        return position == 1 and channel != self.window

    @property
    def gathered_row(self) -> int:
        """From one row of copied filters to the next; no multiple of a large power of two."""
        length = self.block_rows if self.window == 1 else self.lines
        return length + WIDEST_NBYTES // self.total.host_nbytes

    @property
    def gathered_nbytes(self) -> int:
        """Bytes of copied filters."""
        rows = self.lines if self.window == 1 else self.block_rows
        return rows * self.gathered_row * self.total.host_nbytes if self.is_gathered else 0

    @property
    def kept_nbytes(self) -> int:
        """Bytes of the sums of a block with several images."""
        return self.block_rows * self.room * self.total.host_nbytes if self.is_joined else 0

    @property
    def block_rows(self) -> int:
        """Most rows of a block."""
        most = BLOCK_ROWS if self.is_gathered else 2 * BLOCK_ROWS
        return min(most, -(-self.features // ROWS_STEP) * ROWS_STEP)

    @property
    def panels_nbytes(self) -> int:
        """Bytes of the panels of a block."""
        return self.room * self.lines * self.total.host_nbytes

    @property
    def line_nbytes(self) -> int:
        """Bytes of a column before it is turned: no multiple of a large power of two."""
        return self.lines * self.total.host_nbytes + WIDEST_NBYTES if self.is_turned else 0

    @property
    def turned_nbytes(self) -> int:
        """Bytes of patches before they are turned."""
        return self.room * self.line_nbytes

    @property
    def table_nbytes(self) -> int:
        """Bytes of the table of a block's rows."""
        return 8 * self.block_rows

    @property
    def lanes_line(self) -> int:
        """Bytes of a line in the table of lanes."""
        return 4 * max(self.lines if self.is_turned else 0, self.room)

    @property
    def lanes_nbytes(self) -> int:
        """Bytes of the table of lanes."""
        return self.lanes_line * (1 + len(self.lanes))

    @property
    def workspace_nbytes(self) -> int:
        """Panels, what is turned, copied filters, sums, the table of rows, lanes."""
        if self.is_depthwise:
            return self.lanes_nbytes
        copied = self.turned_nbytes + self.gathered_nbytes + self.kept_nbytes
        return self.panels_nbytes + copied + self.table_nbytes + self.lanes_nbytes

    # What microkernels must know

    @property
    def lanes(self) -> tuple[LaneDimension, ...]:
        """Dimensions that lanes go through, outermost first."""
        if self.is_turned:
            return tuple(self._window_lanes(self.axes[n]) for n in self.filter_order)
        pixels = zip(self.axes, self.pixels, strict=True)
        inner = tuple(
            LaneDimension(
                n, a.window.stride * self._elements(a), -a.window.pad_low, a.window.stride
            )
            for a, n in pixels
        )
        count, stride = (self.images, self.batch[0]) if self.is_joined else self.planes
        return (LaneDimension(count, stride, 0, 0), *inner) if count > 1 else inner

    def _elements(self, axis: WindowAxis) -> int:
        """From one coordinate to the next; counted elsewhere for a dilated base."""
        return 0 if self.is_dilated else axis.stride

    def _window_lanes(self, axis: WindowAxis) -> LaneDimension:
        w = axis.window
        step = -w.window_dilation if w.reversal else w.window_dilation
        first = (w.size - 1) * w.window_dilation if w.reversal else 0
        return LaneDimension(w.size, step * self._elements(axis), first, step)

    @property
    def lanes_facts(self) -> tuple[int, ...]:
        """See `lane_facts`."""
        if self.is_turned:
            pairs = [(self.axes[n], d) for n, d in zip(self.filter_order, self.lanes, strict=True)]
        else:
            pairs = list(zip(self.axes, self.lanes[-len(self.axes) :], strict=True))
        return lane_facts(self.lanes, sum(d.first * self._elements(a) for a, d in pairs))

    @property
    def patch_facts(self) -> tuple[int, ...]:
        """`PatchAxis` of each axis."""
        first = len(self.lanes) - len(self.axes)
        found = list[int]()
        for n, axis in enumerate(self.axes):
            dilation = axis.window.base_dilation
            inside = (axis.size - 1) * dilation + 1
            line = self.filter_order.index(n) if self.is_turned else first + n
            found += PatchAxis(line, inside, axis.shift, dilation - 1, axis.stride)
        return tuple(found)

    @property
    def positions(self) -> int:
        """Positions of a plane: pixels of the result where lanes are places in the window."""
        return prod(self.pixels) if self.is_turned else self.window

    @property
    def window_numbers(self) -> tuple[int, ...]:
        """Of each position: its place in elements, and its coordinates."""
        order = range(len(self.axes)) if self.is_turned else self.filter_order
        sizes = [self.pixels[n] if self.is_turned else self.axes[n].window.size for n in order]
        numbers = list[int]()
        for at in product(*map(range, sizes)):
            index = dict(zip(order, at, strict=True))
            along = [self._coordinate(n, index[n]) for n in range(len(self.axes))]
            pairs = zip(along, self.axes, strict=True)
            numbers += [sum(x * self._elements(a) for x, a in pairs), *along]
        return tuple(numbers)

    def _coordinate(self, axis: int, at: int) -> int:
        w = self.axes[axis].window
        if self.is_turned:
            return at * w.stride - w.pad_low
        return (w.size - 1 - at if w.reversal else at) * w.window_dilation

    def kind(self, nbytes: int) -> ProductKind:
        """The functions it needs, with vectors of some length."""
        return ProductKind(self.total, self.total, self.total, vector_length(nbytes, self.total))


def planar_plan(i: HloInstruction) -> PlanarPlan | None:
    """How a convolution is computed as planes of pixels; None if it is not."""
    total = accumulation_type(i.shape.element_type)
    shapes = [o.shape for o in (*i.operands, i)]
    if len(shapes) != 3 or any(o.opcode != "parameter" for o in i.operands):
        return None
    if total not in TYPES or any(not s.size or s.element_type is not total for s in shapes):
        return None
    dims = ConvolutionDims.of(i)
    d, groups = dims.labels, dims.feature_groups
    base, filters, result = shapes
    if dims.batch_groups > 1 or not d.output_spatial or base.size > MOST_ELEMENTS:
        return None
    order = tuple(reversed(result.minor_to_major))
    place = order.index(d.output_feature)
    before, after = order[:place], order[place + 1 :]
    if after[:1] == (d.output_batch,):
        after = after[1:]
    elif before != (d.output_batch,):
        return None
    numbers = [d.output_spatial.index(x) for x in after if x in d.output_spatial]
    if len(numbers) != len(d.output_spatial) or any(
        dims.window[n].base_dilation.bit_count() > 1 for n in numbers
    ):
        return None
    kernel_axes = filter_axes(i, d)
    position = position_stride(filters, [d.kernel_spatial[n] for n in kernel_axes])
    if position is None:
        return None
    strides, left = element_strides(base), element_strides(filters)
    images = result.dims[d.output_batch]
    in_rows = before != (d.output_batch,)
    plan = PlanarPlan(
        total=total,
        groups=groups,
        channels=filters.dims[d.kernel_input_feature],
        features=result.dims[d.output_feature] // groups,
        images=1 if in_rows else images,
        batch=(strides[d.input_batch], element_strides(result)[d.output_batch]),
        planes=(images, strides[d.input_batch]) if in_rows else (1, 0),
        axes=tuple(
            WindowAxis(dims.window[n], base.dims[d.input_spatial[n]], strides[d.input_spatial[n]])
            for n in numbers
        ),
        pixels=tuple(result.dims[d.output_spatial[n]] for n in numbers),
        filter_order=tuple(numbers.index(n) for n in kernel_axes),
        channel=strides[d.input_feature],
        left=(
            left[d.kernel_output_feature],
            left[d.kernel_input_feature],
            position,
        ),
    )
    return plan if _is_fast(plan) else None


def _is_fast(plan: PlanarPlan) -> bool:
    """False for what other code is for."""
    is_apart = plan.channels > 1 and plan.window > 1 and not plan.is_turned
    if is_apart and plan.left[1] != plan.window * plan.left[2] and plan.left[2] != 1:
        return False
    return plan.is_turned or plan.window <= MOST_LINES
