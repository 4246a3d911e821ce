"""Convolutions in register tiles: rows are pixels of the result, columns its features.

The pixels of a block are copied to where their windows are one element after the other, zeros where
a window sees padding or the holes of a dilated base. Groups of features are products of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xladev.codegen.elemental.contraction import accumulation_type
from xladev.codegen.elemental.reduction import base_index
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import real_of
from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.loops import emit_loops
from xladev.platforms.cpu.codegen.products.convolution import emit_windows
from xladev.platforms.cpu.codegen.products.depthwise_kernel import emit_depthwise
from xladev.platforms.cpu.codegen.products.epilogue import BlockLoop, core_spec, rest_of
from xladev.platforms.cpu.codegen.products.filter_gradients import (
    FilterGradientPlan,
    filter_gradient_plan,
)
from xladev.platforms.cpu.codegen.products.filter_gradients_kernel import emit_filter_gradient
from xladev.platforms.cpu.codegen.products.padded_planes import PaddedPlan, padded_plan
from xladev.platforms.cpu.codegen.products.padded_planes_kernel import emit_padded_planes
from xladev.platforms.cpu.codegen.products.planar import PlanarPlan, planar_plan
from xladev.platforms.cpu.codegen.products.planar_kernel import emit_planar
from xladev.platforms.cpu.codegen.products.single_pixel import emit_single_pixel, is_single_pixel
from xladev.platforms.cpu.codegen.products.windows import WindowPlan, window_plan
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.codegen.tiles import MOST_ROWS, SUM_TYPES, TileLoops, TileSizes

BLOCK_NBYTES = 1 << 20
"""Bytes of packed pixels, about; at least `LEAST_BLOCK` of them."""
LEAST_BLOCK = 4 * MOST_ROWS
MOST_BLOCK = 1024
LEAST_FEATURES = 4
"""Features of a group below which tiles would be empty for the most part."""


@dataclass(frozen=True, slots=True)
class TiledConvolution:
    """A convolution as a product of matrices for each group of features.

    Attributes:
        instruction: the convolution.
        kind: its attributes; it has no groups of batches.
        features: of the result, in one group.
        channels: of the base, in one group.
    """

    instruction: HloInstruction
    kind: ConvolutionDims
    features: int
    channels: int

    @property
    def groups(self) -> int:
        """Number of groups of features."""
        return self.kind.feature_groups

    @property
    def dims(self) -> ConvDims:
        """Which dimension is what."""
        return self.kind.labels

    @property
    def pixels(self) -> tuple[int, ...]:
        """Sizes of the result's batch and spatial dimensions."""
        d, sizes = self.dims, self.instruction.shape.dims
        return (sizes[d.output_batch], *(sizes[x] for x in d.output_spatial))

    @property
    def window(self) -> tuple[int, ...]:
        """Sizes of the window."""
        return tuple(w.size for w in self.kind.window)

    @property
    def sizes(self) -> TileSizes:
        """How large the product of one group is."""
        total = accumulation_type(self.instruction.shape.element_type)
        depth, rows = prod(self.window) * self.channels, prod(self.pixels)
        fitting = BLOCK_NBYTES // (max(depth, 1) * total.host_nbytes) // MOST_ROWS * MOST_ROWS
        block = min(rows, max(LEAST_BLOCK, min(fitting, MOST_BLOCK)))
        return TileSizes(total, rows, self.features, depth, block)


def convolution_of(i: HloInstruction) -> TiledConvolution | None:
    """How a convolution is computed in tiles; None if it is not."""
    kind = ConvolutionDims.of(i)
    d = kind.labels
    total = accumulation_type(i.shape.element_type)
    shapes = (i.shape, *(o.shape for o in i.operands[:2]))
    features = i.shape.dims[d.output_feature] // kind.feature_groups
    channels = i.operands[1].shape.dims[d.kernel_input_feature]
    if (
        total not in SUM_TYPES
        or len(i.operands) > 2
        or kind.batch_groups > 1
        or features < LEAST_FEATURES
        or any(s.element_type.is_complex or not s.size for s in shapes)
    ):
        return None
    return TiledConvolution(i, kind, features, channels)


def convolution_way(
    i: HloInstruction, tactic: Tactic = DEFAULT
) -> WindowPlan | FilterGradientPlan | PlanarPlan | PaddedPlan | TiledConvolution | None:
    """Blocks or else tiles, or the other way round by the tactic; None for loops."""
    plan = filter_gradient_plan(i) or window_plan(i, tactic) or _plan_of_planes(i)
    tiles = convolution_of(i)
    return tiles or plan if tactic.in_tiles else plan or tiles


def _plan_of_planes(i: HloInstruction) -> PlanarPlan | PaddedPlan | None:
    plan = planar_plan(i)
    return plan and (padded_plan(plan) or plan)


def convolution_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """What `TileSizes` says; 0 for a convolution that is not done in tiles."""
    way = convolution_way(spec.computation.root, tactic)
    if way is None or (isinstance(way, WindowPlan) and is_single_pixel(way)):
        return 0
    return way.sizes.workspace_nbytes if isinstance(way, TiledConvolution) else way.workspace_nbytes


def emit_convolution(k: KernelBuild) -> None:
    """In tiles; or element by element."""
    way = convolution_way(k.root, k.tactic)
    if isinstance(way, WindowPlan) and is_single_pixel(way):
        emit_single_pixel(k, way)
    elif isinstance(way, WindowPlan):
        fits = way.fits(k.b.module.target.vector_nbytes)
        emit_windows(k, way) if fits else emit_loops(k)
    elif isinstance(way, FilterGradientPlan):
        fits = way.kind(k.b.module.target.vector_nbytes).lanes > 1
        emit_filter_gradient(k, way) if fits else emit_loops(k)
    elif isinstance(way, PlanarPlan):
        fits = way.kind(k.b.module.target.vector_nbytes).lanes > 1
        emit = emit_depthwise if way.is_depthwise else emit_planar
        emit(k, way) if fits else emit_loops(k)
    elif isinstance(way, PaddedPlan):
        fits = way.planar.kind(k.b.module.target.vector_nbytes).lanes > 1
        emit_padded_planes(k, way) if fits else emit_loops(k)
    elif way is not None:
        _Tiles(k, way).emit((way.groups,))
    else:
        emit_loops(k)


def emit_with_epilogue(k: KernelBuild, core: HloInstruction) -> None:
    """A convolution, and what the kernel makes of its result: block by block, or after all."""
    alone, rest = replace(k, spec=core_spec(k.spec)), rest_of(k, core)
    way = convolution_way(core, k.tactic)
    in_blocks = isinstance(way, WindowPlan) and not is_single_pixel(way)
    if isinstance(way, WindowPlan) and in_blocks and way.fits(k.b.module.target.vector_nbytes):
        run = way.groups if way.is_depthwise else way.features
        loop = BlockLoop(rest, core.shape.dims[-1], run)
        emit_windows(alone, way, loop.emit)
        return
    emit_convolution(alone)
    emit_loops(rest)


class _Tiles(TileLoops):
    """Packs pixels and filters; the outer index is the number of the group."""

    def __init__(self, k: KernelBuild, convolution: TiledConvolution) -> None:
        super().__init__(k, convolution.sizes)
        self.c = convolution

    def pack_columns(self, outer: Index, first: Value, columns: int, width: int) -> None:
        """Filters: window by window, channel by channel."""

        def along(at: Index) -> None:
            depth = self._depth(at[:-1], at[-1])
            with self.b.loop(0, columns) as column, self.k.e.scope():
                feature = self._feature(outer, self.b.add(first, column))
                d, rhs = self.c.dims, self.c.instruction.operands[1]
                index = _placed(
                    rhs.shape.rank,
                    ((d.kernel_output_feature,), (feature,)),
                    ((d.kernel_input_feature,), at[-1:]),
                    (d.kernel_spatial, at[:-1]),
                )
                self.store_column(depth, column, width, self._element(rhs, index))

        self.k.nest((*self.c.window, self.c.channels), along)

    def pack_rows(self, outer: Index, base: Value, rows: int) -> None:
        """Pixels: what their windows see."""
        with self.b.loop(0, rows) as row, self.k.e.scope():
            pixel = self.k.e.at.delinear(self.b.add(base, row), self.c.pixels)
            self.k.nest(self.c.window, lambda at: self._pack_window(outer, row, pixel, at))

    def _pack_window(self, outer: Index, row: Value, pixel: Index, at: Index) -> None:
        """All channels at one position of a pixel's window."""
        i, d = self.c.instruction, self.c.dims
        sizes = [i.operands[0].shape.dims[x] for x in d.input_spatial]
        inside, base = base_index(self.k.e, self.c.kind.window, sizes, pixel[1:], at)

        def copy() -> None:
            with self.b.loop(0, self.c.channels) as channel, self.k.e.scope():
                index = _placed(
                    i.operands[0].shape.rank,
                    ((d.input_batch,), pixel[:1]),
                    ((d.input_feature,), (self._channel(outer, channel),)),
                    (d.input_spatial, base),
                )
                value = self._element(i.operands[0], index)
                self.store_row(row, self._depth(at, channel), value)

        def clear() -> None:
            with self.b.loop(0, self.c.channels) as channel:
                zero = self.b.const(self.element, 0)
                self.store_row(row, self._depth(at, channel), zero)

        if isinstance(inside, bool):
            (copy if inside else clear)()
            return
        with self.b.when(inside), self.k.e.scope():
            copy()
        with self.b.when(self.b.not_(inside)), self.k.e.scope():
            clear()

    def result_index(self, outer: Index, row: Value, column: Value) -> Index:
        """Pixel and feature."""
        d = self.c.dims
        pixel = self.k.e.at.delinear(row, self.c.pixels)
        return _placed(
            self.c.instruction.shape.rank,
            ((d.output_batch,), pixel[:1]),
            ((d.output_feature,), (self._feature(outer, column),)),
            (d.output_spatial, pixel[1:]),
        )

    @property
    def has_vectors(self) -> bool:
        """True if features are the result's innermost dimension."""
        return self.c.instruction.shape.minor_to_major[0] == self.c.dims.output_feature

    def _depth(self, at: Index, channel: IndexValue) -> Value:
        """Number of a window element and channel in the order of the sum."""
        math = self.k.e.at
        sizes = (*self.c.window, self.c.channels)
        return math.value(math.linear((*at, channel), sizes))

    def _feature(self, outer: Index, column: Value) -> IndexValue:
        math = self.k.e.at
        return math.add(math.mul(outer[0], self.c.features), column)

    def _channel(self, outer: Index, channel: Value) -> IndexValue:
        math = self.k.e.at
        return math.add(math.mul(outer[0], self.c.channels), channel)

    def _element(self, operand: HloInstruction, index: Index) -> Value:
        """An element of an operand in the type of the sums."""
        element = self.k.e.element(operand, index)
        have = operand.shape.element_type
        if have is not self.sizes.total:
            element = emit_convert(self.b, element, have, self.sizes.total)
        return real_of(element, "a convolution in tiles")


def _placed(rank: int, *groups: tuple[Sequence[int], Index]) -> Index:
    """Coordinates assembled from groups of (dimensions, coordinates)."""
    placed: list[IndexValue] = [0] * rank
    for dims, coordinates in groups:
        for d, x in zip(dims, coordinates, strict=True):
            placed[d] = x
    return tuple(placed)
