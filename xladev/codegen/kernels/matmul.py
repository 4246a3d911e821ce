"""Matrix products in register tiles: one operand packed panel by panel, sums in vector registers.

A tile is some rows of the result times two vectors of its columns. For each panel of columns the
right operand is copied, as it is converted to the type of the sums, to where the tiles read it one
vector after the other; then all tiles of the panel run over the whole depth. Each element is summed
in the order of the depth, with products that are not rounded where the processor can do that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.elemental.contraction import accumulation_type
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.kernels.build import KernelBuild
from xladev.codegen.llvm import I64, IrType, Value, vector
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element, compute_type, real_of
from xladev.errors import CompileError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape

VECTORS = 2
"""Vectors of columns in a tile."""
MOST_ROWS = 8
"""Rows of a tile: with 64-byte vectors, 16 registers of 32 hold sums."""
FEWER_ROWS = 6
"""Rows with shorter vectors, which come with 16 registers."""
WIDEST_NBYTES = 64
LEAST_PRODUCTS = 2048
"""Multiplications below which a plain loop is as fast."""
ROW_BLOCK = 256
"""Rows that are packed at once, where they are; columns are packed anew for each such block."""
LEAST_REUSE = 4
"""How often an element of a packed panel must be used to be worth packing."""
_SUMS = frozenset({dt.F32, dt.F64, dt.S32, dt.U32})


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
        """Where the element lies."""
        return (*outer, *((depth, free) if self.depth_first else (free, depth)))


@dataclass(frozen=True, slots=True)
class _Product:
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


def product_of(i: HloInstruction) -> _Product | None:
    """How a dot is computed in tiles; None if it is not."""
    batch = tuple(range(len(i["lhs_batch_dims"])))
    sides = [_side(o, len(batch), i[f"{name}_contracting_dims"])
             for o, name in zip(i.operands[:2], ("lhs", "rhs"), strict=True)]  # fmt: skip
    total = accumulation_type(i.shape.element_type)
    shapes: tuple[Shape, ...] = (i.shape, *(o.shape for o in i.operands[:2]))
    if (
        None in sides
        or len(i.operands) > 2
        or total not in _SUMS
        or (i["lhs_batch_dims"], i["rhs_batch_dims"]) != (batch, batch)
        or any(s.minor_to_major != tuple(range(s.rank - 1, -1, -1)) for s in shapes)
        or any(s.element_type.is_complex for s in shapes)
    ):
        return None
    lhs, rhs = (side for side in sides if side is not None)
    swapped = rhs.free < WIDEST_NBYTES // 8 and lhs.free > rhs.free
    rows, columns = (rhs, lhs) if swapped else (lhs, rhs)
    product = _Product(rows, columns, swapped, total)
    return product if _is_worth_it(product, i) else None


def _side(operand: HloInstruction, batch: int, contracting: tuple[int, ...]) -> _Side | None:
    if operand.shape.rank != batch + 2 or len(contracting) != 1 or contracting[0] < batch:
        return None
    return _Side(operand, batch, contracting[0] == batch)


def _is_worth_it(p: _Product, i: HloInstruction) -> bool:
    if p.rows.free * p.columns.free * p.rows.depth < LEAST_PRODUCTS:
        return False
    plain = all(o.shape.element_type is p.total for o in (i, *i.operands))
    return p.rows.free >= (LEAST_REUSE if plain and not p.is_swapped else 1)


def dot_workspace_nbytes(spec: KernelSpec) -> int:
    """One packed panel, the packed rows where they need it, and one tile."""
    p = product_of(spec.computation.root)
    if p is None:
        return 0
    size = p.total.host_nbytes
    columns = VECTORS * WIDEST_NBYTES // size
    rows = _packed_rows(p) * _line(p)
    return size * (p.rows.depth * columns + rows + MOST_ROWS * columns)


def _packed_rows(p: _Product) -> int:
    """Rows that are packed at once; 0 if their elements lie in memory as they are used."""
    rows = p.rows
    straight = rows.operand.opcode == "parameter" and not rows.depth_first
    if straight and rows.operand.shape.element_type is p.total:
        return 0
    return min(rows.free, ROW_BLOCK)


def _line(p: _Product) -> int:
    """Elements from one packed row to the next: never a multiple of a large power of two."""
    return p.rows.depth + WIDEST_NBYTES // p.total.host_nbytes


def emit_tiled_dot(k: KernelBuild, product: _Product) -> None:
    """Writes the kernel of a dot that `product_of` accepts."""
    k.nest(k.root.shape.dims[: product.rows.batch], _Tiles(k, product).emit)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the tiles of one panel lie.

    Attributes:
        outer: batch index.
        base: first row of the block.
        first: first column of the panel.
        columns: number of columns, fewer than vectors have lanes at the edge.
    """

    outer: Index
    base: Value
    first: Value
    columns: int


class _Tiles:
    """Writes the loops over panels and tiles of one product."""

    def __init__(self, k: KernelBuild, product: _Product) -> None:
        if k.workspace is None:
            raise CompileError("a matrix product has no workspace", where=k.spec.name)
        self.k, self.b, self.p = k, k.b, product
        nbytes = min(k.b.module.target.vector_nbytes, WIDEST_NBYTES)
        self.most_rows = MOST_ROWS if nbytes == WIDEST_NBYTES else FEWER_ROWS
        self.element: IrType = compute_type(product.total)
        self.size = product.total.host_nbytes
        self.lanes = max(nbytes // self.size, 1)
        self.depth = product.rows.depth
        self.panel = k.workspace
        columns = VECTORS * WIDEST_NBYTES // self.size
        self.tile = self.b.byte_address(self.panel, self.depth * columns * self.size)
        self.packed = self.b.byte_address(self.tile, MOST_ROWS * columns * self.size)
        self.block = _packed_rows(product)

    def emit(self, outer: Index) -> None:
        """The product at one batch index."""
        rows = self.p.rows.free
        if not self.block:
            self._panels(outer, self.b.const(I64, 0), rows)
            return
        whole = rows // self.block * self.block
        with self.b.loop(0, whole, self.block) as base, self.k.e.scope():
            self._pack_rows(outer, base, self.block)
            self._panels(outer, base, self.block)
        if whole < rows:
            self._pack_rows(outer, self.b.const(I64, whole), rows - whole)
            self._panels(outer, self.b.const(I64, whole), rows - whole)

    def _panels(self, outer: Index, base: Value, rows: int) -> None:
        """All columns of some rows."""
        width = self.lanes * VECTORS
        whole = self.p.columns.free // width * width
        if whole:
            with self.b.loop(0, whole, width) as first, self.k.e.scope():
                self._panel(outer, (base, rows), first, width)
        if whole < self.p.columns.free:
            left = self.p.columns.free - whole
            self._panel(outer, (base, rows), self.b.const(I64, whole), left)

    def _panel(self, outer: Index, rows: tuple[Value, int], first: Value, columns: int) -> None:
        """Packs some columns over the whole depth, then runs their tiles."""
        vectors = -(-columns // self.lanes)
        self._pack_columns(outer, first, columns, vectors * self.lanes)
        base, count = rows
        whole = count // self.most_rows * self.most_rows
        place = _Place(outer, base, first, columns)
        if whole:
            with self.b.loop(0, whole, self.most_rows) as row, self.k.e.scope():
                self._tile(place, row, self.most_rows, vectors)
        if whole < count:
            self._tile(place, self.b.const(I64, whole), count - whole, vectors)

    # Packing

    def _pack_columns(self, outer: Index, first: Value, columns: int, width: int) -> None:
        """Copies columns so that those of one depth are contiguous, with zeros up to ``width``."""
        side = self.p.columns
        extents = (self.depth, columns) if side.depth_first else (columns, self.depth)
        with self.b.loop(0, extents[0]) as x, self.b.loop(0, extents[1]) as y, self.k.e.scope():
            d, c = (x, y) if side.depth_first else (y, x)
            value = self._element(side, outer, self.b.add(first, c), d)
            self.b.store(value, self._at(self.panel, self.b.add(self.b.mul(d, width), c)))
        if columns < width:
            zero = self.b.const(self.element, 0)
            with self.b.loop(0, self.depth) as d, self.b.loop(columns, width) as c:
                self.b.store(zero, self._at(self.panel, self.b.add(self.b.mul(d, width), c)))

    def _pack_rows(self, outer: Index, base: Value, rows: int) -> None:
        """Copies rows, so that the depth is contiguous and rows do not share sets of a cache."""
        side, line = self.p.rows, _line(self.p)
        extents = (self.depth, rows) if side.depth_first else (rows, self.depth)
        with self.b.loop(0, extents[0]) as x, self.b.loop(0, extents[1]) as y, self.k.e.scope():
            d, r = (x, y) if side.depth_first else (y, x)
            value = self._element(side, outer, self.b.add(base, r), d)
            self.b.store(value, self._at(self.packed, self.b.add(self.b.mul(r, line), d)))

    def _element(self, side: _Side, outer: Index, free: Value, depth: Value) -> Value:
        """An element of an operand in the type of the sums."""
        element = self.k.e.element(side.operand, side.index(outer, free, depth))
        have = side.operand.shape.element_type
        if have is not self.p.total:
            element = emit_convert(self.b, element, have, self.p.total)
        return real_of(element, "a matrix product in tiles")

    def _at(self, base: Value, index: Value) -> Value:
        return self.b.element_address(base, index, self.element)

    # Tiles

    def _tile(self, place: _Place, row: Value, rows: int, vectors: int) -> None:
        """Sums one tile in registers and stores it; ``row`` counts from the block's first."""
        type_ = vector(self.element, self.lanes)
        zeros = [self.b.const(type_, 0)] * (rows * vectors)
        numbers = [self.b.add(row, r) for r in range(rows)]
        with self.b.carried_loop(0, self.depth, initial=zeros) as loop, self.k.e.scope():
            line = self._at(self.panel, self.b.mul(loop.index, vectors * self.lanes))
            right = [
                self.b.load(type_, self.b.element_address(line, v * self.lanes, self.element))
                for v in range(vectors)
            ]
            sums: list[Value] = []
            for r, number in enumerate(numbers):
                left = self.b.splat(self._left(place, number, loop.index), self.lanes)
                held = loop.values[r * vectors : (r + 1) * vectors]
                sums += [self._multiply_add(left, x, t) for x, t in zip(right, held, strict=True)]
            loop.carry(*sums)
        self._store(place, [self.b.add(place.base, n) for n in numbers], loop.values)

    def _left(self, place: _Place, row: Value, depth: Value) -> Value:
        if not self.block:
            return self._element(self.p.rows, place.outer, row, depth)
        at = self.b.add(self.b.mul(row, _line(self.p)), depth)
        return self.b.load(self.element, self._at(self.packed, at))

    def _multiply_add(self, left: Value, right: Value, total: Value) -> Value:
        if self.element.is_float:
            return self.b.fma(left, right, total)
        return self.b.add(total, self.b.mul(left, right))

    def _store(self, place: _Place, rows: Sequence[Value], sums: Sequence[Value]) -> None:
        """Stores a tile: whole vectors where the result has them, else element by element."""
        vectors = len(sums) // len(rows)
        is_whole = place.columns == vectors * self.lanes
        if is_whole and not self.p.is_swapped and self.k.root.shape.element_type is self.p.total:
            self._store_vectors(place, rows, sums)
            return
        for n, value in enumerate(sums):
            self.b.store(value, self._at(self.tile, self.b.const(I64, n * self.lanes)))
        for r, row in enumerate(rows):
            with self.b.loop(0, place.columns) as c, self.k.e.scope():
                at = self.b.add(c, r * vectors * self.lanes)
                self._store_element(place, row, c, at)

    def _store_vectors(self, place: _Place, rows: Sequence[Value], sums: Sequence[Value]) -> None:
        result, vectors = self.k.results[0], len(sums) // len(rows)
        for n, value in enumerate(sums):
            column = self.b.add(place.first, n % vectors * self.lanes)
            offset = result.offset(self.b, (*place.outer, rows[n // vectors], column))
            self.b.store(value, self.b.element_address(result.base, offset, self.element))

    def _store_element(self, place: _Place, row: Value, c: Value, at: Value) -> None:
        """Converts and stores one element of the tile in memory."""
        element: Element = self.b.load(self.element, self._at(self.tile, at))
        dtype = self.k.root.shape.element_type
        if dtype is not self.p.total:
            element = emit_convert(self.b, element, self.p.total, dtype)
        column = self.b.add(place.first, c)
        index = (column, row) if self.p.is_swapped else (row, column)
        self.k.results[0].store(self.b, (*place.outer, *index), element)
