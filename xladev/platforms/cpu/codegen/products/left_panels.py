"""Left operands that lie depth first, packed tile by tile, in parts of the depth.

The gradient of weights is such a product: what is summed over are the rows of its left operand. A
tile reads a few neighbours in each of them, rows apart: with rows of a power of two bytes all these
lines are in the same few sets of the caches, and come from memory again for each panel of columns.
Packed, they follow one another.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I8, I16, I32, I64, FunctionBuilder, Value, vector

_WORDS = {1: I8, 2: I16, 4: I32, 8: I64}
LEAST_ROWS, LEAST_COLUMNS = 17, 64
"""From which on it pays: so many panels of columns go through what is packed."""
LEAST_NBYTES = 64 << 10
"""Smaller left operands stay near."""
PACKED_STEPS = 512
"""Steps of a part: about as many as a panel of columns has lines."""
BETWEEN_NBYTES = 64
"""Between tiles, so that their lines are not in the same sets of a cache."""


class LeftArguments(NamedTuple):
    """What a part of the depth is packed with; strides in bytes.

    Attributes:
        table: addresses of rows to fill, tile by tile; the last one is repeated to the end of its
            tile.
        packed: where to write: tile by tile, in it step by step its rows.
        tile: from one tile to the next there.
        source: first row of the first step.
        step: from one step to the next there.
        rows: how many.
        steps: how many.
    """

    table: Value
    packed: Value
    tile: Value
    source: Value
    step: Value
    rows: Value
    steps: Value


def pays_to_pack_left(rows: int, columns: int, nbytes: int) -> bool:
    """Whether an operand of so many bytes is worth packing for a product of these sizes."""
    return rows >= LEAST_ROWS and columns >= LEAST_COLUMNS and nbytes >= LEAST_NBYTES


def packed_left_nbytes(rows: int, depth: int, size: int) -> int:
    """Memory for a packed part, of tiles of at most 24 rows that divide them.

    Args:
        rows: of a block, in whole tiles.
        depth: of the product.
        size: bytes of an element, at most.
    """
    return rows * (min(depth, PACKED_STEPS) * size + BETWEEN_NBYTES)


def call_pack_left(b: FunctionBuilder, tile: int, size: int, arguments: LeftArguments) -> None:
    """Packs rows for tiles of so many, of elements of so many bytes."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _pack(inner, tile, size, LeftArguments(*values))

    b.call_microkernel(f"left.{tile}.{size}", arguments, emit)


def _pack(b: FunctionBuilder, tile: int, size: int, a: LeftArguments) -> None:
    """Reads along memory, all tiles beside one another."""
    word = _WORDS[size]
    whole = b.udiv(a.rows, tile)
    first_left = b.mul(whole, tile)
    with b.loop(0, a.steps) as step:
        read = b.byte_address(a.source, b.mul(step, a.step))
        written = b.byte_address(a.packed, b.mul(step, tile * size))
        with b.loop(0, whole) as n:
            piece = b.load(vector(word, tile), b.byte_address(read, b.mul(n, tile * size)),
                           align=size)  # fmt: skip
            b.store(piece, b.byte_address(written, b.mul(n, a.tile)), align=size)
        last = b.byte_address(written, b.mul(whole, a.tile))
        with b.loop(first_left, a.rows) as row:
            held = b.load(word, b.element_address(read, row, word))
            b.store(held, b.element_address(last, b.sub(row, first_left), word))
    most = b.sub(a.rows, 1)
    count = b.mul(b.udiv(b.add(a.rows, tile - 1), tile), tile)
    with b.loop(0, count) as r:
        row = b.intrinsic("smin", most, r)
        place = b.mul(b.udiv(row, tile), a.tile)
        place = b.add(place, b.mul(b.urem(row, tile), size))
        b.store(b.byte_address(a.packed, place), b.element_address(a.table, r, I64))
