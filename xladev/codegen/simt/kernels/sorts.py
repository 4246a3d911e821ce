"""Sort: tiles of rows in shared memory, then runs twice as long with each launch.

Rows that fit into a tile are sorted by one launch, several of them in a block if they are short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import I64, Value
from xladev.codegen.simt.grids import each_thread
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.kernels.merges import Comparator, merged_place
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array

MOST_OF_TILE = 2048
_ALIGNMENT = 64
_PlaceBody = Callable[[Value, Value, Value], None]


@dataclass(frozen=True, slots=True)
class RowSort:
    """A sort of the rows of some arrays.

    Attributes:
        sort: the instruction.
        shared_nbytes: shared memory of a block.
    """

    sort: HloInstruction
    shared_nbytes: int

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the arrays that are sorted together, row-major."""
        operands = self.sort.operands
        return tuple(array(o.shape.element_type, o.shape.dims) for o in operands)

    @property
    def axis(self) -> int:
        """The dimension along which rows are."""
        (axis,) = self.sort["dimensions"]
        return int(axis)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.shapes[0].dims[self.axis]

    @property
    def outer(self) -> tuple[int, ...]:
        """Dimensions that count rows."""
        dims = self.shapes[0].dims
        return (*dims[: self.axis], *dims[self.axis + 1 :])

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return prod(self.outer)

    @property
    def tile(self) -> int:
        """Places of a tile in shared memory, which is held twice; a power of two."""
        fit = self.shared_nbytes // (2 * sum(_nbytes(s) for s in self.shapes))
        return int(min(MOST_OF_TILE, 1 << (fit.bit_length() - 1)))

    @property
    def tiles(self) -> int:
        """Tiles of one row."""
        return -(-self.length // self.tile)

    @property
    def rows_of_block(self) -> int:
        """Whole rows that one block sorts."""
        return max(1, self.tile // max(self.length, 1))

    @property
    def widths(self) -> list[int]:
        """Lengths of the runs that are merged after tiles were sorted."""
        found = [self.tile]
        while found[-1] < self.length:
            found.append(2 * found[-1])
        return found[:-1]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where copies of the arrays begin in the workspace, then its size; in bytes."""
        found = [0]
        for shape in self.shapes:
            found.append(found[-1] + -(-shape.size * _nbytes(shape) // _ALIGNMENT) * _ALIGNMENT)
        return tuple(found)

    def index(self, t: ThreadBuild, row: IndexValue, x: IndexValue) -> Index:
        """Coordinates of a place of a row."""
        outer = t.e.at.delinear(row, self.outer)
        return (*outer[: self.axis], x, *outer[self.axis :])


def _nbytes(shape: Shape) -> int:
    return max(1, shape.element_type.host_nbytes)


def sort_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that end with a sort."""
    if spec.computation.root.opcode != "sort":
        return None
    rows = RowSort(spec.computation.root, machine.shared_nbytes)
    widths = rows.widths if rows.rows else []
    tiles = Stage(partial(_sort_tiles, rows, len(widths)), _shared_nbytes(rows))
    merges = [Stage(partial(_merge, rows, w, len(widths) - n)) for n, w in enumerate(widths, 1)]
    return KernelKind("sort", (tiles, *merges), rows.offsets[-1] if widths else 0)


def _shared_nbytes(rows: RowSort) -> int:
    return 2 * rows.tile * sum(map(_nbytes, rows.shapes))


def _place_of(t: ThreadBuild, rows: RowSort, left: int) -> tuple[IrArray, ...]:
    """Where elements are when so many launches are left: the last one writes the results."""
    if left % 2 == 0:
        return t.results
    bases = [t.b.byte_address(t.scratch, n) for n in rows.offsets[:-1]]
    return tuple(map(IrArray, bases, rows.shapes))


# Tiles in shared memory


@dataclass(frozen=True, slots=True)
class _Tile:
    """The part of the rows that a block sorts.

    Attributes:
        t: the code of a thread.
        rows: of the arrays.
        first_row: the first row of it.
        start: its first place within that row.
        length: places of each row that are in it.
    """

    t: ThreadBuild
    rows: RowSort
    first_row: Value
    start: Value
    length: Value

    def buffers(self, offset: Value) -> tuple[IrArray, ...]:
        """Shared memory of each operand, in the half that begins at an offset."""
        base = self.t.b.byte_address(shared_memory(self.t.b), offset)
        made: list[IrArray] = []
        nbytes = 0
        for shape in self.rows.shapes:
            place = self.t.b.byte_address(base, nbytes)
            made.append(IrArray(place, array(shape.element_type, (self.rows.tile,))))
            nbytes += self.rows.tile * _nbytes(shape)
        return tuple(made)


def _sort_tiles(rows: RowSort, launches_left: int, t: ThreadBuild) -> LaunchDimensions:
    """A block for each tile, or for as many short rows as fit into one."""
    blocks = rows.tiles * -(-rows.rows // rows.rows_of_block)
    dimensions = LaunchDimensions((max(blocks, 1), 1, 1), (BLOCK, 1, 1))
    if not rows.rows or not rows.length:
        return dimensions
    b, tile = t.b, _tile_of_block(t, rows)
    half = _shared_nbytes(rows) // 2
    zero, one = b.const(I64, 0), b.const(I64, 1)
    for_each = partial(_each_place, tile)
    for_each(lambda row, x, slot: _read(tile, row, x, slot))
    barrier(b)

    def is_left(values: Sequence[Value]) -> Value:
        return b.icmp("slt", values[0], min(rows.tile, rows.length))

    def merge(values: Sequence[Value]) -> Sequence[Value]:
        width, source, target = values
        for_each(lambda row, x, slot: _move(tile, width, source, target, x, slot))
        barrier(b)
        return b.shl(width, 1), target, source

    _, source, _ = b.while_loop((one, zero, b.const(I64, half)), is_left, merge)
    goal = _place_of(t, rows, launches_left)
    for_each(lambda row, x, slot: _write(tile, source, goal, row, x, slot))
    return dimensions


def _tile_of_block(t: ThreadBuild, rows: RowSort) -> _Tile:
    b, number = t.b, block_number(t.b)
    if rows.tiles == 1:
        first = b.mul(number, rows.rows_of_block)
        return _Tile(t, rows, first, b.const(I64, 0), b.const(I64, rows.length))
    start = b.mul(b.urem(number, rows.tiles), rows.tile)
    length = b.intrinsic("smin", b.sub(rows.length, start), rows.tile)
    return _Tile(t, rows, b.udiv(number, rows.tiles), start, length)


def _each_place(tile: _Tile, body: _PlaceBody) -> None:
    """Runs ``body(row, place in the row's part, slot)`` for all places of the tile."""
    rows, t, b = tile.rows, tile.t, tile.t.b
    each = rows.length if rows.tiles == 1 else rows.tile
    slots = rows.rows_of_block * each
    with b.loop(thread_in_block(b), slots, BLOCK) as slot, t.e.scope():
        row = b.add(tile.first_row, b.udiv(slot, each))
        x = b.urem(slot, each)
        inside = b.and_(b.icmp("slt", row, rows.rows), b.icmp("slt", x, tile.length))
        with b.when(inside), t.e.scope():
            body(row, x, slot)


def _read(tile: _Tile, row: Value, x: Value, slot: Value) -> None:
    """Computes the elements at a place, into the first half."""
    t, rows = tile.t, tile.rows
    index = rows.index(t, row, t.b.add(tile.start, x))
    for operand, buffer in zip(rows.sort.operands, tile.buffers(t.b.const(I64, 0)), strict=True):
        buffer.store(t.b, (slot,), t.e.element(operand, index))


def _move(tile: _Tile, width: Value, source: Value, target: Value, x: Value, slot: Value) -> None:
    """Moves an element from one half to its place in the other, merging runs."""
    t, b = tile.t, tile.t.b
    old, new = tile.buffers(source), tile.buffers(target)
    start = b.sub(slot, x)
    comparator = Comparator(t.e, tile.rows.sort["to_apply"])
    place = merged_place(
        comparator, lambda n, at: old[n].load(b, (b.add(start, at),)), x, width, tile.length
    )
    for s, d in zip(old, new, strict=True):
        d.store(b, (b.add(start, place),), s.load(b, (slot,)))


def _write(
    tile: _Tile, source: Value, goal: Sequence[IrArray], row: Value, x: Value, slot: Value
) -> None:
    t = tile.t
    index = tile.rows.index(t, row, t.b.add(tile.start, x))
    for buffer, result in zip(tile.buffers(source), goal, strict=True):
        result.store(t.b, index, buffer.load(t.b, (slot,)))


# Longer runs


def _merge(rows: RowSort, width: int, launches_left: int, t: ThreadBuild) -> LaunchDimensions:
    """A thread for each element, which finds its place in two runs of ``width``."""
    b, e = t.b, t.e
    source, goal = _place_of(t, rows, launches_left + 1), _place_of(t, rows, launches_left)

    def one(position: Value) -> None:
        row, x = b.udiv(position, rows.length), b.urem(position, rows.length)
        place = merged_place(
            Comparator(e, rows.sort["to_apply"]),
            lambda n, at: source[n].load(b, rows.index(t, row, at)),
            x,
            b.const(I64, width),
            b.const(I64, rows.length),
        )
        for s, d in zip(source, goal, strict=True):
            d.store(b, rows.index(t, row, place), s.load(b, rows.index(t, row, x)))

    return each_thread(t, rows.rows * rows.length, one)
