"""How a convolution with features last is cut into blocks of pixels and features.

Each block of pixels goes through all filters once more, and each block of features through all
pixels. Which is cut depends on which of them is larger: 7 by 7 pixels of a deep layer are one
block, those of a first layer many. Blocks that threads share are about equal, and even in number if
that takes no more: one pixel left of a whole number of tiles would read all filters by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import NamedTuple

from xladev.platforms.cpu.codegen.products.dot import BLOCK_COLUMNS, COLUMNS_STEP, cut
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.windows import WindowPlan

PRODUCT_NS = 0.0085
"""One product and its sum, in a tile. This and what follows are times of one thread on AMD EPYC
(Zen 4), about; only proportions matter."""
PACKED_NS, READ_NS = 0.2, 0.05
"""An element of the filters that a block packs, or reads where they are packed."""
PIXEL_NS = 0.5
"""An address in the table of a block."""
BASE_NS = 0.03
"""An element of the base that a block reads."""
BLOCK_NS = 300.0
"""A block apart from all that."""
THREADS = 2, 4, 8
"""Numbers of threads that blocks are meant for, in equal parts: the code is for any number."""
NEAR_NBYTES = 128 << 10
"""A block of a depthwise convolution that is read once more stays in the second cache."""
MOST_PARTS = 8
"""Ways to cut an extent that are looked at, from the fewest parts on."""


class BlockSizes(NamedTuple):
    """Pixels and features of a block."""

    rows: int
    columns: int


class _Facts(NamedTuple):
    """What sizes depend on.

    Attributes:
        groups: how many.
        pixels, features, channels, positions: sizes of one group.
        most: of a block.
        tile: rows of a tile.
        lanes: columns of a vector.
        filter_ns: an element of the filters, in a block.
    """

    groups: int
    pixels: int
    features: int
    channels: int
    positions: int
    most: BlockSizes
    tile: int
    lanes: int
    filter_ns: float


def block_sizes(
    plan: WindowPlan, kind: ProductKind, is_shared: bool, *, goes_on: bool = False
) -> BlockSizes:
    """Rows and columns of a block; of shared ones, those with which threads take least, about.

    A block of a depthwise convolution has all channels, as its columns.

    Args:
        plan: the convolution.
        kind: its functions.
        is_shared: whether several threads take blocks.
        goes_on: whether a block is read once more when it has been summed.
    """
    step, pixels = plan.rows_step, prod(plan.pixels)
    if plan.is_depthwise:
        most_rows = plan.block_rows
        if goes_on:
            near = NEAR_NBYTES // (plan.groups * kind.size) // step * step
            most_rows = min(most_rows, max(step, near))
        return BlockSizes(_depthwise_rows(plan, kind, is_shared, most_rows), plan.groups)
    most = BlockSizes(plan.block_rows, plan.tactic.block_columns or BLOCK_COLUMNS)
    if not is_shared:
        rows = cut(pixels, 1, step, step, most.rows)
        return BlockSizes(rows, cut(plan.features, 1, COLUMNS_STEP, COLUMNS_STEP, most.columns))
    filter_ns = PACKED_NS if plan.panels is None else READ_NS
    return _shared_sizes(
        _Facts(
            plan.groups, pixels, plan.features, plan.channels, plan.positions,
            most, kind.rows, kind.lanes, filter_ns,
        )
    )  # fmt: skip


def _depthwise_rows(plan: WindowPlan, kind: ProductKind, is_shared: bool, most: int) -> int:
    """Rows of a block, of all channels."""
    pixels = prod(plan.pixels)
    if not is_shared:
        return cut(pixels, 1, plan.rows_step, plan.rows_step, most)
    whole = BlockSizes(most, plan.groups)
    facts = _Facts(1, pixels, plan.groups, 1, plan.positions, whole, kind.rows, kind.lanes, READ_NS)
    sizes = (BlockSizes(rows, plan.groups) for rows in _parts(pixels, kind.rows, most))
    return min(sizes, key=lambda each: _ns(facts, each)).rows


@cache
def _shared_sizes(facts: _Facts) -> BlockSizes:
    return min(_sizes(facts), key=lambda sizes: _ns(facts, sizes))


def _sizes(facts: _Facts) -> Iterator[BlockSizes]:
    columns = dict.fromkeys(_parts(facts.features, COLUMNS_STEP, facts.most.columns))
    for rows in dict.fromkeys(_parts(facts.pixels, facts.tile, facts.most.rows)):
        yield from (BlockSizes(rows, number) for number in columns)


def _parts(extent: int, step: int, most: int) -> Iterator[int]:
    """Sizes of parts, from as few parts as can be on."""
    fewest = -(-extent // most)
    for count in range(fewest, fewest + MOST_PARTS):
        yield cut(extent, count, step, step, most)


def _ns(facts: _Facts, sizes: BlockSizes) -> float:
    """What threads take in the mean over `THREADS`, times their number."""
    blocks = [
        (BlockSizes(rows, columns), number * times * facts.groups)
        for rows, number in _cuts(facts.pixels, sizes.rows)
        for columns, times in _cuts(facts.features, sizes.columns)
    ]
    times = [(_block_ns(facts, block), number) for block, number in blocks]
    total, (whole, number) = sum(ns * number for ns, number in times), times[0]
    longest = (max(-(-number // n) * whole * n, total) for n in THREADS)
    return sum(longest) / len(THREADS)


def _cuts(extent: int, size: int) -> list[tuple[int, int]]:
    """Sizes of the parts of an extent, and how many there are of each."""
    whole, rest = divmod(extent, size)
    return [pair for pair in ((size, whole), (rest, 1)) if all(pair)]


def _block_ns(facts: _Facts, sizes: BlockSizes) -> float:
    """One block: tiles, filters, table, base."""
    depth = facts.positions * facts.channels
    lanes = -(-sizes.columns // facts.lanes) * facts.lanes
    return (
        BLOCK_NS
        + PRODUCT_NS * lanes * _tile_rows(sizes.rows, facts.tile) * depth
        + facts.filter_ns * sizes.columns * depth
        + PIXEL_NS * sizes.rows * facts.positions
        + BASE_NS * sizes.rows * facts.channels
    )


def _tile_rows(rows: int, tile: int) -> int:
    """Rows that tiles compute: whole ones, and the smallest that has room for what is left."""
    whole, rest = divmod(rows, tile)
    return whole * tile + next(size for size in (0, 1, tile // 2, tile) if rest <= size)
