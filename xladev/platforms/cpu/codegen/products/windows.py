"""Convolutions as products whose rows a table gives: which ones, and where their operands are.

Rows are pixels of the result in the order of memory, positions the elements of the window in the
order of the filters' memory, steps the channels, columns the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from math import prod

from xladev.codegen.arrays import element_strides
from xladev.codegen.elemental.contraction import accumulation_type
from xladev.codegen.matrices import SUM_TYPES
from xladev.hlo.attributes import ConvDims, WindowDim
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.codegen.products.kinds import (
    EDGED_PANEL_NBYTES,
    PANEL_NBYTES,
    VECTORS,
    WIDEST_NBYTES,
    ProductKind,
    vector_length,
)
from xladev.platforms.cpu.codegen.products.non_temporal import NON_TEMPORAL_NBYTES
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.panels import Panels, panels_of
from xladev.platforms.cpu.codegen.products.tables import AxisFacts, PixelFacts, window_facts
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

LEAST_FEATURES = WIDEST_NBYTES // 8
LEAST_CHANNELS = 4
"""Steps at a position below which going from one position to the next takes as long as they do."""
LEAST_DEPTHWISE = WIDEST_NBYTES // 4
"""Channels of a depthwise convolution, of 4 bytes each, that are worth vectors."""
MOST_RUN_CHANNELS = 16
MOST_ZEROS = 4096
"""Channels that padding can stand for."""
TABLE_NBYTES = 36 << 10
MOST_POSITIONS = TABLE_NBYTES // (8 * 48)
"""Positions that a table of the fewest rows has room for."""
MOST_ROWS = 480
MOST_TABLE_NBYTES = 4 * TABLE_NBYTES
"""Bytes of a table where a tactic says how many rows it has, or where it has few of the positions:
those that runs begin with."""
FETCHED_NBYTES = 2 << 20
"""Bytes of a base from which on the second cache does not hold it until it is read."""
FILTERS_NBYTES = 4 << 20
"""Most bytes of filters that are packed all at once, for blocks that then find them in a cache."""
_EVERYTHING = (1 << 62) - 1
"""Coordinates along an axis without padding, which need no check."""


class Packing(Enum):
    """Which filters are packed at once, if they are not in panels already."""

    PARTS = "parts"
    """Those of a panel in a part of the depth, as a block needs them."""
    PANEL = "panel"
    """Those of a panel, as a block needs them."""
    ALL = "all"
    """All of them, before the first block."""


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """A spatial dimension; strides in elements.

    Attributes:
        window: how the window goes along it.
        size: of the base.
        stride: from one element of the base to the next.
    """

    window: WindowDim
    size: int
    stride: int

    @property
    def is_padded(self) -> bool:
        """True if windows see what is not in the base."""
        w = self.window
        return w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1

    @property
    def shift(self) -> int:
        """Logarithm of the base's dilation."""
        return self.window.base_dilation.bit_length() - 1


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """A convolution as a product with a table of rows; strides in elements.

    Attributes:
        total: type of the sums.
        is_depthwise: true if each channel is a group, of one feature.
        groups, channels, features: how many, the last two in one group.
        pixels: sizes of the result's dimensions, features apart, as they are in memory.
        batch: which of them is the batch, and the base's stride along it.
        axes: the spatial dimensions as they are in the filters' memory, outermost first.
        places: which of the pixels' sizes belongs to each axis.
        channel: stride of the base's channels.
        right: strides of the filters along positions, channels and features.
        sides: types of the base and of the filters.
        tactic: how the blocks are cut and gone through.
        panels: where the filters are, if they are packed.
    """

    total: PrimitiveType
    is_depthwise: bool
    groups: int
    channels: int
    features: int
    pixels: tuple[int, ...]
    batch: tuple[int, int]
    axes: tuple[WindowAxis, ...]
    places: tuple[int, ...]
    channel: int
    right: tuple[int, int, int]
    sides: tuple[PrimitiveType, PrimitiveType]
    panels: Panels | None = None
    tactic: Tactic = DEFAULT

    @property
    def positions(self) -> int:
        """Elements of the window."""
        return prod(a.window.size for a in self.axes)

    @property
    def is_padded(self) -> bool:
        """True if there are rows of zeros."""
        return any(a.is_padded for a in self.axes)

    @property
    def block_rows(self) -> int:
        """Rows of a block: of as many there is room for addresses."""
        is_plain = self.tactic.block_rows is None and self.run == 1
        room = TABLE_NBYTES if is_plain else MOST_TABLE_NBYTES
        step, most = self.rows_step, self.tactic.block_rows or MOST_ROWS
        fitting = min(room // (8 * self.group_positions), most) // step * step
        return min(fitting, -(-prod(self.pixels) // step) * step)

    @property
    def rows_step(self) -> int:
        """What divides the rows of a block: tiles of all sizes."""
        return 42 if self.is_in_sevens else 48

    @property
    def is_in_sevens(self) -> bool:
        """True if tiles of 7 rows, where 8 fit the registers, end where lines of pixels do."""
        inner = self.pixels[-1]
        return self.has_edges and self.tactic.tile is None and inner % 7 == 0 and inner % 8 != 0

    @property
    def has_edges(self) -> bool:
        """True if tiles leave out products with padding."""
        return self.is_padded and not self.is_depthwise

    @property
    def group_positions(self) -> int:
        """Positions of a table."""
        return min(self.positions, MOST_POSITIONS)

    @property
    def run(self) -> int:
        """Positions of a line of the window that follow one another in memory; 1 if none do."""
        inner = self.axes[-1] if self.axes else None
        if inner is None or self.is_depthwise or self.channels > MOST_RUN_CHANNELS:
            return 1
        w, count = inner.window, self.positions
        is_line = w.size <= inner.size and (w.window_dilation, w.base_dilation, w.reversal) == (
            1,
            1,
            False,
        )
        is_dense = self.channel == 1 and inner.stride == self.channels and w.size <= inner.size
        fits = count * self.channels <= self.most_run_steps and count <= MOST_POSITIONS
        return w.size if is_line and is_dense and fits else 1

    @property
    def most_run_steps(self) -> int:
        """Steps in all of a convolution with runs: those of one panel."""
        vectors = VECTORS if self.tactic.tile is None else self.tactic.tile[1]
        return self.whole_panel_nbytes // (vectors * WIDEST_NBYTES)

    @property
    def runs_nbytes(self) -> int:
        """Bytes of the tiles' runs, of tiles of at least 4 rows."""
        return 2 * self.block_rows if self.run > 1 else 0

    @property
    def order(self) -> Order:
        """How the filters are laid out in memory."""
        if self.panels is not None:
            return Order.PANELS
        _, step, column = self.right
        return Order.ROWS if column == 1 else Order.COLUMNS if step == 1 else Order.APART

    @property
    def packing(self) -> Packing:
        """How filters are packed: by parts unless the window, or the channels, are innermost."""
        position, step, _ = self.right
        count = self.positions
        is_run = step == count and (position == 1 or count == 1) and count <= MOST_POSITIONS
        has_panels = self.tactic.tile is None or self.tactic.tile[1] == VECTORS
        if self.is_depthwise or self.panels is not None or not is_run or not has_panels:
            return Packing.PARTS
        if prod(self.pixels) > MOST_ROWS and self.all_panels_nbytes <= FILTERS_NBYTES:
            return Packing.ALL
        return Packing.PANEL

    @property
    def deep_panel_nbytes(self) -> int:
        """Bytes of a panel of all the depth, on the machine with the longest vectors."""
        return self.positions * self.channels * VECTORS * WIDEST_NBYTES

    @property
    def all_panels_nbytes(self) -> int:
        """Bytes of the panels of all groups; on other machines they take no more."""
        panels = -(-self.features * self.total.host_nbytes // (VECTORS * WIDEST_NBYTES))
        return self.groups * panels * self.deep_panel_nbytes

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the workspace that all threads share, after a thread's own."""
        return self.all_panels_nbytes if self.packing is Packing.ALL else 0

    @property
    def table_nbytes(self) -> int:
        """Bytes of the table of a block."""
        return 8 * self.block_rows * self.group_positions

    @property
    def starts_nbytes(self) -> int:
        """Bytes of where the windows of a block begin: addresses, and coordinates."""
        return 8 * self.block_rows * (1 + len(self.pixels))

    @property
    def zeros_nbytes(self) -> int:
        """Bytes of a row of zeros."""
        count = self.channels * (self.groups if self.is_depthwise else self.run)
        nbytes = count * self.sides[0].host_nbytes if self.is_padded else 0
        return -(-nbytes // 64) * 64

    @property
    def panel_nbytes(self) -> int:
        """Bytes of a panel that a block packs; none if filters are packed."""
        if self.is_depthwise or self.panels is not None or self.packing is Packing.ALL:
            return 0
        is_deep = self.packing is Packing.PANEL
        return self.deep_panel_nbytes if is_deep else self.whole_panel_nbytes

    @property
    def whole_panel_nbytes(self) -> int:
        """Bytes of a panel of filters, packed here or not."""
        default = EDGED_PANEL_NBYTES if self.has_edges else PANEL_NBYTES
        return self.tactic.panel_nbytes or default

    @property
    def is_non_temporal(self) -> bool:
        """True if what is read and written exceeds caches, and rows of each group are aligned."""
        size, row = self.total.host_nbytes, self.groups * self.features
        unbroken = row if self.is_depthwise else self.features
        read = prod(a.size for a in self.axes) * self.groups * self.channels
        batch = self.pixels[self.batch[0]]
        nbytes = (prod(self.pixels) * row + batch * read) * size
        return nbytes >= NON_TEMPORAL_NBYTES and unbroken * size % WIDEST_NBYTES == 0

    @property
    def base_nbytes(self) -> int:
        """Bytes of the base."""
        size, count = self.sides[0].host_nbytes, self.groups * self.channels
        return self.pixels[self.batch[0]] * prod(a.size for a in self.axes) * count * size

    @property
    def is_fetched(self) -> bool:
        """True if what windows see is fetched ahead: no near cache holds the base."""
        return self.base_nbytes >= FETCHED_NBYTES

    @property
    def new_positions(self) -> tuple[int, ...]:
        """Positions that see what windows of lesser pixels do not: their numbers.

        Along each axis, a lesser pixel sees the same where a number of strides leads from an
        element of the window to another one.
        """
        along = list[list[int]]()
        for w in (a.window for a in self.axes):
            seen = range(0, w.size * w.window_dilation, w.window_dilation)
            new = [
                n
                for n, x in enumerate(seen)
                if not any(later in seen for later in range(x + w.stride, seen.stop, w.stride))
            ]
            along.append([w.size - 1 - n if w.reversal else n for n in new])
        sizes = [a.window.size for a in self.axes]
        return tuple(_number(at, sizes) for at in product(*along))

    @property
    def private_nbytes(self) -> int:
        """What each thread needs: a panel, the table, starts, runs, zeros."""
        tables = self.table_nbytes + self.starts_nbytes + self.runs_nbytes
        return -(-(self.panel_nbytes + tables + self.zeros_nbytes) // 64) * 64

    @property
    def workspace_nbytes(self) -> int:
        """What each thread needs, and what they share."""
        return self.private_nbytes + self.shared_nbytes

    @property
    def facts(self) -> tuple[int, ...]:
        """What the microkernel that fills tables must know; see `window_facts`."""
        size = self.sides[0].host_nbytes
        pixels = [PixelFacts(n, 1, 0, self.batch[1] * size) for n in self.pixels]
        axes = list[AxisFacts]()
        for place, axis in zip(self.places, self.axes, strict=True):
            w, nbytes = axis.window, axis.stride * size
            along = 0 if axis.shift else nbytes
            pixels[place] = PixelFacts(self.pixels[place], w.stride, w.pad_low, along)
            extent = (axis.size - 1) * w.base_dilation + 1
            inside = extent if axis.is_padded else _EVERYTHING
            whole = inside - 1 - (w.size - 1) * w.window_dilation
            mask = w.base_dilation - 1
            axes.append(AxisFacts(place, inside, whole, axis.shift, mask, nbytes - along))
        most_unbroken = self.axes[-1].size - self.run if axes else 0
        return window_facts(pixels, axes, most_unbroken)

    @property
    def window_numbers(self) -> tuple[int, ...]:
        """Of each position: how far it is from the window's begin, in bytes and along axes."""
        size, numbers = self.sides[0].host_nbytes, list[int]()
        for at in product(*(range(a.window.size) for a in self.axes)):
            windows = [a.window for a in self.axes]
            offsets = [
                (w.size - 1 - x if w.reversal else x) * w.window_dilation
                for w, x in zip(windows, at, strict=True)
            ]
            known = sum(
                offset * a.stride * size
                for offset, a in zip(offsets, self.axes, strict=True)
                if not a.shift
            )
            numbers += [known, *offsets]
        return tuple(numbers)

    def fits(self, nbytes: int) -> bool:
        """False if the filters are in panels for vectors of another length."""
        return self.panels is None or self.panels.form.width == self.kind(nbytes).width

    def kind(self, nbytes: int) -> ProductKind:
        """The functions it needs, with vectors of some length."""
        kind = ProductKind(*self.sides, self.total, vector_length(nbytes, self.total))
        if self.is_depthwise:
            return kind
        kind = kind.by(self.tactic)
        if not self.has_edges:
            return kind
        return kind.with_edges(self.is_in_sevens, self.whole_panel_nbytes)


def window_plan(i: HloInstruction, tactic: Tactic = DEFAULT) -> WindowPlan | None:
    """How a convolution is computed by a table of rows; None if it is not."""
    total = accumulation_type(i.shape.element_type)
    shapes = [o.shape for o in (*i.operands, i)]
    if len(shapes) != 3 or i.operands[0].opcode != "parameter":
        return None
    panels = panels_of(i)
    if panels is None and i.operands[1].opcode != "parameter":
        return None
    if total is not i.shape.element_type or total not in SUM_TYPES:
        return None
    if any(not s.size or s.element_type is not total for s in shapes):
        return None
    dims = ConvolutionDims.of(i)
    if dims.batch_groups > 1:
        return None
    d, groups = dims.labels, dims.feature_groups
    base, filters, result = shapes
    features = result.dims[d.output_feature] // groups
    channels = filters.dims[d.kernel_input_feature]
    axes = filter_axes(i, d)
    position = position_stride(filters, [d.kernel_spatial[n] for n in axes])
    if position is None or not _is_feature_minor(result, d.output_feature):
        return None
    at = [x for x in reversed(result.minor_to_major) if x != d.output_feature]
    strides, right = element_strides(base), element_strides(filters)
    plan = WindowPlan(
        total=total,
        is_depthwise=features == channels == 1 and groups > 1,
        groups=groups,
        channels=channels,
        features=features,
        pixels=tuple(result.dims[x] for x in at),
        batch=(at.index(d.output_batch), strides[d.input_batch]),
        axes=tuple(
            WindowAxis(dims.window[n], base.dims[d.input_spatial[n]], strides[d.input_spatial[n]])
            for n in axes
        ),
        places=tuple(at.index(d.output_spatial[n]) for n in axes),
        channel=strides[d.input_feature],
        right=(position, right[d.kernel_input_feature], right[d.kernel_output_feature]),
        sides=(base.element_type, filters.element_type),
        panels=panels,
        tactic=tactic,
    )
    return plan if _is_fast(plan) else None


def _number(at: Sequence[int], sizes: Sequence[int]) -> int:
    """Of an element, in the order of memory."""
    number = 0
    for x, size in zip(at, sizes, strict=True):
        number = number * size + x
    return number


def filter_axes(i: HloInstruction, d: ConvDims) -> list[int]:
    """Numbers of the spatial dimensions as they are in the filters' memory, outermost first."""
    order = i.operands[1].shape.minor_to_major
    return sorted(range(len(d.kernel_spatial)), key=lambda n: -order.index(d.kernel_spatial[n]))


def position_stride(filters: Shape, dims: Sequence[int]) -> int | None:
    """Stride from one element of the window to the next; None if it is not always the same."""
    strides = element_strides(filters)
    kept = [x for x in dims if filters.dims[x] > 1]
    for outer, inner in zip(kept, kept[1:], strict=False):
        if strides[outer] != strides[inner] * filters.dims[inner]:
            return None
    return strides[kept[-1]] if kept else 0


def _is_feature_minor(result: Shape, feature: int) -> bool:
    """True if features are neighbours in memory."""
    return result.minor_to_major[0] == feature


def _is_fast(plan: WindowPlan) -> bool:
    """False for what other code is for."""
    if any(a.window.base_dilation.bit_count() > 1 for a in plan.axes):
        return False
    zeros = plan.channels * (plan.groups if plan.is_depthwise else 1)
    if plan.is_padded and (plan.channel != 1 or zeros > MOST_ZEROS):
        return False
    if plan.is_depthwise:
        fits = plan.positions <= MOST_POSITIONS and plan.groups >= LEAST_DEPTHWISE
        return fits and plan.channel == 1 and plan.right[2] == 1
    few = plan.channels * plan.run < LEAST_CHANNELS and plan.positions > 1
    return plan.features >= LEAST_FEATURES and not few
