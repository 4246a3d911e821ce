"""The products of one block: matrix instructions for its tiles, or vector instructions.

What a vendor replaces: the matrix instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xladev.platforms.template_npu.codegen.access_map import merged
from xladev.platforms.template_npu.codegen.tiles import TileEmitter, TileValue
from xladev.platforms.template_npu.device import isa

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockProduct:
    """A block to be multiplied, all of it in the scratchpad.

    Attributes:
        type: number of the type in which it multiplies.
        total_type: of the sums.
        rows, columns, depth: sizes of the block's loops.
        total: the sums, strides over rows and columns; dense.
        left: strides over rows and depth; on the vector unit dense.
        right: strides over depth and columns; dense.
        accumulate: whether to add to what the sums hold.
    """

    type: int
    total_type: int
    rows: Extents
    columns: Extents
    depth: Extents
    total: TileValue
    left: TileValue
    right: TileValue
    accumulate: bool


Loop = tuple[int, int, int]
"""Size, and the strides of two operands in bytes."""


def emit_on_matrix(tiles: TileEmitter, p: BlockProduct) -> None:
    """Matrix instructions for whole tiles and for edges, once an iteration of outer loops.

    Rows, columns and depth are one loop each, where strides allow; a window that slides over the
    left side leaves outer loops.
    """
    if tiles.commands is None:
        return
    r, d = len(p.rows), len(p.depth)
    outer_rows, rows = _loops(p.rows, p.total.strides[:r], p.left.strides[:r])
    _, columns = _loops(p.columns, p.total.strides[r:], p.right.strides[d:])
    outer_depth, depth = _loops(p.depth, p.left.strides[r:], p.right.strides[:d])
    for total_at, left_at in _iterations(outer_rows):
        for number, (left_more, right_at) in enumerate(_iterations(outer_depth)):
            starts = (
                p.total.address + total_at,
                p.left.address + left_at + left_more,
                p.right.address + right_at,
            )
            _matmul(tiles, p, starts, (rows, columns, depth), p.accumulate or number > 0)


def _loops(
    sizes: Extents, first: tuple[int, ...], second: tuple[int, ...]
) -> tuple[Sequence[Loop], Loop]:
    """Outer loops, and the innermost."""
    counts, (one, other) = merged(sizes, (first, second))
    loops = list(zip(counts, one, other, strict=True)) or [(1, 0, 0)]
    return loops[:-1], loops[-1]


def _iterations(loops: Sequence[Loop]) -> Iterator[tuple[int, int]]:
    """What each iteration of some loops adds to the addresses of their two operands."""
    for at in product(*(range(size) for size, _, _ in loops)):
        pairs = list(zip(at, loops, strict=True))
        yield sum(i * one for i, (_, one, _) in pairs), sum(i * two for i, (_, _, two) in pairs)


def _segments(size: int) -> list[tuple[int, int, int]]:
    """(start, number of tiles, size of a tile): whole tiles, then the rest."""
    tiles, rest = divmod(size, isa.TILE)
    found = [(0, tiles, isa.TILE)] if tiles else []
    return [*found, (size - rest, 1, rest)] if rest else found


def _matmul(
    tiles: TileEmitter,
    p: BlockProduct,
    starts: tuple[int, int, int],
    loops: tuple[Loop, Loop, Loop],
    accumulate: bool,
) -> None:
    """Up to eight instructions for one loop each over rows, columns and depth."""
    if tiles.commands is None:
        return
    (m, total_m, left_m), (n, total_n, right_n), (k, left_k, right_k) = loops
    total, left, right = starts
    t = isa.TILE
    writes, reads = (p.total.buffer,), (p.total.buffer, p.left.buffer, p.right.buffer)
    cuts = product(_segments(m), _segments(n), _segments(k))
    for (m_at, m_tiles, m_size), (n_at, n_tiles, n_size), (k_at, k_tiles, k_size) in cuts:
        operands = (
            (total + m_at * total_m + n_at * total_n,
             (total_m * t, total_n * t, 0, total_m, total_n)),
            (left + m_at * left_m + k_at * left_k, (left_m * t, 0, left_k * t, left_m, left_k)),
            (right + k_at * right_k + n_at * right_n,
             (0, right_n * t, right_k * t, right_k, right_n)),
        )  # fmt: skip
        tiles.commands.emit(
            isa.BY_NAME["matmul"], 0, (p.type, p.total_type), (m_tiles, n_tiles, k_tiles, 1),
            operands, (m_size, n_size, k_size, int(accumulate or k_at > 0)), reads, writes,
        )  # fmt: skip


def emit_on_vector(tiles: TileEmitter, p: BlockProduct) -> None:
    """All products of some rows of the block at once, then a sum over lanes.

    A row's products fit into a slot, for the right side of the block is as large.
    """
    m, n, k = prod(p.rows), prod(p.columns), prod(p.depth)
    types = (p.type, p.type)
    rows = max(1, min(m, tiles.slots.elements // (n * k)))
    for at in range(0, m, rows):
        part = (min(rows, m - at), n, k)
        left = TileValue(p.left.buffer, p.left.address + at * k * 4, (k * 4, 0, 4))
        right = TileValue(p.right.buffer, p.right.address, (0, 4, n * 4))
        out = TileValue(p.total.buffer, p.total.address + at * n * 4, (n * 4, 4))
        products = tiles.dense(part, (True,) * 3, 4)
        sums = tiles.dense(part[:2], (True,) * 2, 4)
        tiles.vector("binary", "mul", types, part, products, (left, right))
        flat = TileValue(products.buffer, products.address, (n * k * 4, k * 4, 4))
        tiles.reduce("add", p.type, part, sums if p.accumulate else out, flat)
        if p.accumulate:
            tiles.vector("binary", "add", types, part[:2], out, (out, sums))
        tiles.slots.give(products.buffer)
        tiles.slots.give(sums.buffer)
