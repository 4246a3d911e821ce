"""Sums of products in register tiles: what matrix products and convolutions share.

A tile is some rows of the result times two vectors of its columns. For each panel of columns the
right operand is copied, as it is converted to the type of the sums, to where the tiles read it one
vector after the other; then all tiles of the panel run over the whole depth. Each element is summed
in the order of the depth, with products that are not rounded where the processor can do that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.index import Index
from xladev.codegen.llvm import I64, IrType, Value, vector
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element, compute_type
from xladev.errors import CompileError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.platforms.cpu.codegen.build import KernelBuild

VECTORS = 2
"""Vectors of columns in a tile."""
MOST_ROWS = 8
"""Rows of a tile: with 64-byte vectors, 16 registers of 32 hold sums."""
FEWER_ROWS = 6
"""Rows with shorter vectors, which come with 16 registers."""
LEAST_BLOCKS = 4
"""Blocks that keep threads busy."""
LEAST_BLOCK_ROWS = 64
"""Rows of a block such that packing columns anew for each costs little."""
WIDEST_NBYTES = 64
SUM_TYPES = frozenset({dt.F32, dt.F64, dt.S32, dt.U32})
"""Types of sums that tiles can hold."""


@dataclass(frozen=True, slots=True)
class TileSizes:
    """How large a product is.

    Attributes:
        total: type of the sums.
        rows: number of rows of the result.
        columns: number of its columns.
        depth: products in each sum.
        block: rows that are packed at once; 0 if their elements are in memory as they are used.
            Columns are packed anew for each block.
    """

    total: PrimitiveType
    rows: int
    columns: int
    depth: int
    block: int

    @property
    def line(self) -> int:
        """Elements from one packed row to the next: no multiple of a large power of two."""
        return self.depth + WIDEST_NBYTES // self.total.host_nbytes

    @property
    def most_columns(self) -> int:
        """Columns of the widest panel."""
        return VECTORS * WIDEST_NBYTES // self.total.host_nbytes

    @property
    def workspace_nbytes(self) -> int:
        """One packed panel, one tile, the packed rows."""
        panel_and_tile = (self.depth + MOST_ROWS) * self.most_columns
        return self.total.host_nbytes * (panel_and_tile + self.block * self.line)


@dataclass(frozen=True, slots=True)
class PanelOffsets:
    """Where the tiles of one panel are.

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


class TileLoops(ABC):
    """Writes the loops over blocks, panels and tiles of one product."""

    def __init__(self, k: KernelBuild, sizes: TileSizes) -> None:
        if k.workspace is None:
            raise CompileError("a product in tiles has no workspace", where=k.spec.name)
        self.k, self.b, self.sizes = k, k.b, sizes
        nbytes = min(k.b.module.target.vector_nbytes, WIDEST_NBYTES)
        self.most_rows = MOST_ROWS if nbytes == WIDEST_NBYTES else FEWER_ROWS
        self.element: IrType = compute_type(sizes.total)
        size = sizes.total.host_nbytes
        self.lanes = max(nbytes // size, 1)
        self.panel = k.workspace
        self._divide_workspace()

    def _divide_workspace(self) -> None:
        size, most_columns = self.sizes.total.host_nbytes, self.sizes.most_columns
        self.tile = self.b.byte_address(self.panel, self.sizes.depth * most_columns * size)
        self.packed = self.b.byte_address(self.tile, MOST_ROWS * most_columns * size)

    # What a product says of itself

    @abstractmethod
    def pack_rows(self, outer: Index, base: Value, rows: int) -> None:
        """Stores rows from ``base`` on with `store_row`."""

    @abstractmethod
    def pack_columns(self, outer: Index, first: Value, columns: int, width: int) -> None:
        """Stores columns from ``first`` on with `store_column`."""

    @abstractmethod
    def result_index(self, outer: Index, row: Value, column: Value) -> Index:
        """Where an element of the result is."""

    @property
    @abstractmethod
    def has_vectors(self) -> bool:
        """True if columns of the result are neighbours in memory."""

    def left(self, position: PanelOffsets, row: Value, depth: Value) -> Value:
        """An element of a row, counted from the block's first."""
        at = self.b.add(self.b.mul(row, self.sizes.line), depth)
        return self.b.load(self.element, self.at(self.packed, at))

    # What it may use

    def at(self, base: Value, index: Value) -> Value:
        """Address of an element of a packed array."""
        return self.b.element_address(base, index, self.element)

    def store_row(self, row: Value, depth: Value, value: Value) -> None:
        """Stores an element of the packed rows."""
        position = self.b.add(self.b.mul(row, self.sizes.line), depth)
        self.b.store(value, self.at(self.packed, position))

    def store_column(self, depth: Value, column: Value, width: int, value: Value) -> None:
        """Stores an element of the packed panel."""
        self.b.store(value, self.at(self.panel, self.b.add(self.b.mul(depth, width), column)))

    # Loops

    def emit(self, batch: Sequence[int]) -> None:
        """The products at all batch indices."""
        block, nbytes = self._block_size(prod(batch)), self.sizes.workspace_nbytes
        blocks = -(-self.sizes.rows // block)
        self.k.split_nest(
            (*batch, blocks), lambda at: self._block(at, block), private_nbytes=nbytes
        )

    def _block_size(self, products: int) -> int:
        """Rows of a block: fewer than could be where threads would have too few of them."""
        rows, block = self.sizes.rows, self.sizes.block
        if not block:
            return rows
        wanted = -(-rows * products // LEAST_BLOCKS)
        wanted = max(LEAST_BLOCK_ROWS, -(-wanted // MOST_ROWS) * MOST_ROWS)
        return min(block, wanted) if self.k.is_shared else block

    def _block(self, positions: Index, block: int) -> None:
        """Some rows of the product at one batch index; the last block may have fewer."""
        *outer, number = positions
        self._divide_workspace()
        base = self.k.e.at.value(self.k.e.at.mul(number, block))
        rest = self.sizes.rows % block
        if not rest:
            self._rows(tuple(outer), base, block)
            return
        is_whole = self.b.icmp("sle", base, self.sizes.rows - block)
        with self.b.when(is_whole), self.k.e.scope():
            self._rows(tuple(outer), base, block)
        with self.b.when(self.b.not_(is_whole)), self.k.e.scope():
            self._rows(tuple(outer), base, rest)

    def _rows(self, outer: Index, base: Value, rows: int) -> None:
        if self.sizes.block:
            self.pack_rows(outer, base, rows)
        self._panels(outer, base, rows)

    def _panels(self, outer: Index, base: Value, rows: int) -> None:
        """All columns of some rows."""
        width = self.lanes * VECTORS
        whole = self.sizes.columns // width * width
        if whole:
            with self.b.loop(0, whole, width) as first, self.k.e.scope():
                self._panel(outer, (base, rows), first, width)
        if whole < self.sizes.columns:
            left = self.sizes.columns - whole
            self._panel(outer, (base, rows), self.b.const(I64, whole), left)

    def _panel(self, outer: Index, rows: tuple[Value, int], first: Value, columns: int) -> None:
        """Packs some columns over the whole depth, then runs their tiles."""
        vectors = -(-columns // self.lanes)
        width = vectors * self.lanes
        self.pack_columns(outer, first, columns, width)
        if columns < width:
            zero = self.b.const(self.element, 0)
            with self.b.loop(0, self.sizes.depth) as d, self.b.loop(columns, width) as c:
                self.store_column(d, c, width, zero)
        base, count = rows
        whole = count // self.most_rows * self.most_rows
        position = PanelOffsets(outer, base, first, columns)
        if whole:
            with self.b.loop(0, whole, self.most_rows) as row, self.k.e.scope():
                self._tile(position, row, self.most_rows, vectors)
        if whole < count:
            self._tile(position, self.b.const(I64, whole), count - whole, vectors)

    def _tile(self, position: PanelOffsets, row: Value, rows: int, vectors: int) -> None:
        """Sums one tile in registers and stores it; ``row`` counts from the block's first."""
        type_ = vector(self.element, self.lanes)
        zeros = [self.b.const(type_, 0)] * (rows * vectors)
        numbers = [self.b.add(row, r) for r in range(rows)]
        with self.b.carried_loop(0, self.sizes.depth, initial=zeros) as loop, self.k.e.scope():
            line = self.at(self.panel, self.b.mul(loop.index, vectors * self.lanes))
            right = [
                self.b.load(type_, self.b.element_address(line, v * self.lanes, self.element))
                for v in range(vectors)
            ]
            sums: list[Value] = []
            for r, number in enumerate(numbers):
                left = self.b.splat(self.left(position, number, loop.index), self.lanes)
                held = loop.values[r * vectors : (r + 1) * vectors]
                sums += [self._multiply_add(left, x, t) for x, t in zip(right, held, strict=True)]
            loop.carry(*sums)
        self._store(position, [self.b.add(position.base, n) for n in numbers], loop.values)

    def _multiply_add(self, left: Value, right: Value, total: Value) -> Value:
        if self.element.is_float:
            return self.b.multiply_add(left, right, total)
        return self.b.add(total, self.b.mul(left, right))

    def _store(self, position: PanelOffsets, rows: Sequence[Value], sums: Sequence[Value]) -> None:
        """Stores a tile: whole vectors where the result has them, else element by element."""
        vectors = len(sums) // len(rows)
        is_whole = position.columns == vectors * self.lanes
        same = self.k.root.shape.element_type is self.sizes.total
        if is_whole and same and self.has_vectors:
            self._store_vectors(position, rows, sums)
            return
        for n, value in enumerate(sums):
            self.b.store(value, self.at(self.tile, self.b.const(I64, n * self.lanes)))
        for r, row in enumerate(rows):
            with self.b.loop(0, position.columns) as c, self.k.e.scope():
                at = self.b.add(c, r * vectors * self.lanes)
                self._store_element(position, row, c, at)

    def _store_vectors(
        self, position: PanelOffsets, rows: Sequence[Value], sums: Sequence[Value]
    ) -> None:
        result, vectors = self.k.results[0], len(sums) // len(rows)
        for n, value in enumerate(sums):
            column = self.b.add(position.first, n % vectors * self.lanes)
            index = self.result_index(position.outer, rows[n // vectors], column)
            offset = self.k.e.at.value(result.offset(self.b, index))
            self.b.store(value, self.b.element_address(result.base, offset, self.element))

    def _store_element(self, position: PanelOffsets, row: Value, c: Value, at: Value) -> None:
        """Converts and stores one element of the tile in memory."""
        element: Element = self.b.load(self.element, self.at(self.tile, at))
        dtype = self.k.root.shape.element_type
        if dtype is not self.sizes.total:
            element = emit_convert(self.b, element, self.sizes.total, dtype)
        index = self.result_index(position.outer, row, self.b.add(position.first, c))
        self.k.results[0].store(self.b, index, element)
