"""Matrix products in register tiles, operands in either order."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.elemental.contraction import accumulation_type
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import real_of
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LEAST_PRODUCTS, DotPlan, dot_plan
from xladev.platforms.cpu.codegen.products.few_rows import few_rows_plan, few_rows_workspace_nbytes
from xladev.platforms.cpu.codegen.products.narrow_kernel import narrow_workspace_nbytes
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_of
from xladev.platforms.cpu.codegen.products.row_sums import row_sums_plan
from xladev.platforms.cpu.codegen.products.row_wise import (
    is_row_wise,
    row_wise_workspace_nbytes,
)
from xladev.platforms.cpu.codegen.products.swapped import swapped_plan
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.codegen.tiles import (
    SUM_TYPES,
    WIDEST_NBYTES,
    PanelOffsets,
    TileLoops,
    TileSizes,
)

ROW_BLOCK = 256
"""Rows that are packed at once, where they are; columns are packed anew for each such block."""
LEAST_REUSE = 4
"""How often an element of a packed panel must be used to be worth packing."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand as a matrix.

    Attributes:
        operand: the instruction.
        batch: number of leading batch dimensions.
        depth_first: true if its dimension that is summed over comes before its free one.
    """

    operand: HloInstruction
    batch: int
    depth_first: bool

    @property
    def free(self) -> int:
        """Size of the dimension that the result keeps."""
        return self.operand.shape.dims[self.batch + self.depth_first]

    @property
    def depth(self) -> int:
        """Size of the dimension that is summed over."""
        return self.operand.shape.dims[self.batch + (not self.depth_first)]

    def index(self, outer: Index, free: Value, depth: Value) -> Index:
        """Where the element is."""
        return (*outer, *((depth, free) if self.depth_first else (free, depth)))


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """A product of two matrices for each batch index.

    Attributes:
        rows: the operand whose free dimension are the rows of tiles.
        columns: the one that is packed; its free dimension are the columns.
        is_swapped: true if rows of tiles are columns of the result.
        total: type of the sums.
    """

    rows: _Side
    columns: _Side
    is_swapped: bool
    total: PrimitiveType

    @property
    def sizes(self) -> TileSizes:
        """How large it is; rows that are in memory as they are used are not packed."""
        rows = self.rows
        straight = rows.operand.opcode == "parameter" and not rows.depth_first
        as_it_is = straight and rows.operand.shape.element_type is self.total
        block = 0 if as_it_is else min(rows.free, ROW_BLOCK)
        return TileSizes(self.total, rows.free, self.columns.free, rows.depth, block)


def product_of(i: HloInstruction) -> TiledProduct | None:
    """How a dot is computed in tiles; None if it is not."""
    dims = DotDims.of(i)
    batch = tuple(range(len(dims.lhs_batch)))
    summed = dims.lhs_contracting, dims.rhs_contracting
    sides = [_side(o, len(batch), s) for o, s in zip(i.operands[:2], summed, strict=True)]
    total = accumulation_type(i.shape.element_type)
    shapes: tuple[Shape, ...] = (i.shape, *(o.shape for o in i.operands[:2]))
    if (
        None in sides
        or len(i.operands) > 2
        or total not in SUM_TYPES
        or (dims.lhs_batch, dims.rhs_batch) != (batch, batch)
        or any(s.minor_to_major != tuple(range(s.rank - 1, -1, -1)) for s in shapes)
        or any(s.element_type.is_complex for s in shapes)
    ):
        return None
    lhs, rhs = (side for side in sides if side is not None)
    swapped = rhs.free < WIDEST_NBYTES // 8 and lhs.free > rhs.free
    rows, columns = (rhs, lhs) if swapped else (lhs, rhs)
    product = TiledProduct(rows, columns, swapped, total)
    return product if _is_worth_it(product, i) else None


def _side(operand: HloInstruction, batch: int, contracting: tuple[int, ...]) -> _Side | None:
    if operand.shape.rank != batch + 2 or len(contracting) != 1 or contracting[0] < batch:
        return None
    return _Side(operand, batch, contracting[0] == batch)


def _is_worth_it(p: TiledProduct, i: HloInstruction) -> bool:
    if p.rows.free * p.columns.free * p.rows.depth < LEAST_PRODUCTS:
        return False
    plain = all(o.shape.element_type is p.total for o in (i, *i.operands))
    return p.rows.free >= (LEAST_REUSE if plain and not p.is_swapped else 1)


def dot_way(i: HloInstruction, tactic: Tactic = DEFAULT) -> DotPlan | TiledProduct | None:
    """Blocks or else tiles, or the other way round by the tactic; None for loops."""
    plan, product = dot_plan(i, tactic), product_of(i)
    return product or plan if tactic.in_tiles else plan or product


def dot_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """What `TileSizes` says; 0 for a dot that is not done in tiles."""
    root = spec.computation.root
    if row_sums_plan(root) is not None:
        return 0
    weights = narrow_weights_of(root)
    if weights is not None:
        return narrow_workspace_nbytes(weights)
    swapped = swapped_plan(root)
    if swapped is not None:
        return swapped.workspace_nbytes
    few = few_rows_plan(root)
    if few is not None:
        return few_rows_workspace_nbytes(root, few)
    way = dot_way(root, tactic)
    if way is None:
        return row_wise_workspace_nbytes(root) if is_row_wise(root) else 0
    return way.workspace_nbytes if isinstance(way, DotPlan) else way.sizes.workspace_nbytes


def emit_tiled_dot(k: KernelBuild, product: TiledProduct) -> None:
    """Writes the kernel of a dot that `product_of` accepts."""
    _Tiles(k, product).emit(k.root.shape.dims[: product.rows.batch])


class _Tiles(TileLoops):
    """Packs matrices."""

    def __init__(self, k: KernelBuild, product: TiledProduct) -> None:
        super().__init__(k, product.sizes)
        self.p = product

    def pack_columns(self, outer: Index, first: Value, columns: int, width: int) -> None:
        """Along memory."""
        side, depth = self.p.columns, self.sizes.depth
        extents = (depth, columns) if side.depth_first else (columns, depth)
        with self.b.loop(0, extents[0]) as x, self.b.loop(0, extents[1]) as y, self.k.e.scope():
            d, c = (x, y) if side.depth_first else (y, x)
            value = self._element(side, outer, self.b.add(first, c), d)
            self.store_column(d, c, width, value)

    def pack_rows(self, outer: Index, base: Value, rows: int) -> None:
        """Along memory."""
        side, depth = self.p.rows, self.sizes.depth
        extents = (depth, rows) if side.depth_first else (rows, depth)
        with self.b.loop(0, extents[0]) as x, self.b.loop(0, extents[1]) as y, self.k.e.scope():
            d, r = (x, y) if side.depth_first else (y, x)
            self.store_row(r, d, self._element(side, outer, self.b.add(base, r), d))

    def left(self, place: PanelOffsets, row: Value, depth: Value) -> Value:
        """From memory where rows are not packed."""
        if self.sizes.block:
            return super().left(place, row, depth)
        return self._element(self.p.rows, place.outer, row, depth)

    def result_index(self, outer: Index, row: Value, column: Value) -> Index:
        """Rows are columns of the result where operands were swapped."""
        return (*outer, *((column, row) if self.p.is_swapped else (row, column)))

    @property
    def has_vectors(self) -> bool:
        """See `TileLoops.has_vectors`."""
        return not self.p.is_swapped

    def _element(self, side: _Side, outer: Index, free: Value, depth: Value) -> Value:
        """An element of an operand in the type of the sums."""
        element = self.k.e.element(side.operand, side.index(outer, free, depth))
        have = side.operand.shape.element_type
        if have is not self.p.total:
            element = emit_convert(self.b, element, have, self.p.total)
        return real_of(element, "a matrix product in tiles")
