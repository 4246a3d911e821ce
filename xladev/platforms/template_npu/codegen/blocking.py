"""Which blocks a sum of products is cut into: those that fit and cost least.

The block of sums stays in the scratchpad while panels of both sides pass by, so it should be large
and the panels thin: r x c sums take r + c elements for each step of depth. All panels and
temporaries are in slots of one size; the sums have places of their own, one, or two if stores and
epilogue are to overlap with the next block.

What a vendor replaces: the costs, by those of their hardware.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from xladev.errors import CompileError
from xladev.platforms.template_npu.codegen.contraction import Contraction, Extents
from xladev.platforms.template_npu.codegen.tiles import ALIGNMENT, MAX_TILE, SLOT_ROOM, box_sizes
from xladev.platforms.template_npu.device import isa

_SIDES = (1, 16, 32, 64, 96, 128, 160, 192, 256, 384, 512, 1024)
"""Rows or columns that are tried."""
_DEPTHS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Blocks:
    """A choice.

    Attributes:
        rows, columns, depth: sizes of a block's loops.
        totals: places for sums.
    """

    rows: Extents
    columns: Extents
    depth: Extents
    totals: int

    @property
    def total_nbytes(self) -> int:
        """Size of one place for sums."""
        return _aligned(4 * prod(self.rows) * prod(self.columns))


def best_blocks(c: Contraction, slot_count: int, buffering: int, epilogue: int) -> Blocks:
    """The cheapest blocks that fit.

    Args:
        c: the sum of products.
        slot_count: slots that its panels and temporaries take.
        buffering: most places for sums.
        epilogue: instructions on each element of the result.

    Raises:
        CompileError: nothing fits: the expressions around it are too large.
    """
    fitting = (b for b in _choices(c, buffering) if _fits(c, b, slot_count))
    found = min(fitting, key=lambda b: _cycles(c, b, epilogue), default=None)
    if found is None:
        raise CompileError(f"{slot_count} values of a tile do not fit into the scratchpad")
    return found


def _choices(c: Contraction, buffering: int) -> Iterator[Blocks]:
    rows, columns = _cuts(c.rows, _SIDES), _cuts(c.columns, _SIDES)
    for r, n, k in product(rows, columns, _depths(c)):
        for totals in range(1, buffering + 1):
            yield Blocks(r, n, k, totals)


def _cuts(extents: Extents, limits: Iterable[int]) -> list[Extents]:
    return list(dict.fromkeys(box_sizes(extents, limit) for limit in limits))


def _depths(c: Contraction) -> list[Extents]:
    """Cuts of the depth; those in which all of a window is read at once among them."""
    whole = {w.depth for w in c.windows}
    rest = tuple(1 if n in whole else size for n, size in enumerate(c.depth))
    windows = [
        tuple(c.depth[n] if n in whole else size for n, size in enumerate(cut))
        for cut in _cuts(rest, _DEPTHS)
    ]
    return list(dict.fromkeys([*windows, *_cuts(c.depth, _DEPTHS)]))


def _fits(c: Contraction, b: Blocks, slot_count: int) -> bool:
    panel = max(prod(c.left_extents(b.rows, b.depth)), prod(b.depth) * prod(b.columns))
    if panel > MAX_TILE or prod(b.depth) > isa.MAX_LANES:
        return False
    return slot_count * _aligned(4 * panel) + b.totals * b.total_nbytes <= SLOT_ROOM


def _cycles(c: Contraction, b: Blocks, epilogue: int) -> float:
    """A rough cost: engines are taken as if they ran one after the other."""
    element = isa.TYPES[c.type]
    left, right = c.left_extents(b.rows, b.depth), (*b.depth, *b.columns)
    load = _dma(left, element.nbytes) + _dma(right, element.nbytes)
    tiles = _tiles(b.rows) * _tiles(b.columns) * _tiles(b.depth)
    multiply = tiles * isa.TILE * (2 if element.name == "f32" else 1)
    results = (*b.rows, *b.columns)
    store = _dma(results, 4) + epilogue * prod(results) / 128 if b.totals == 1 else 0.0
    iterations = _iterations(c.depth, b.depth)
    blocks = prod(c.batch) * _iterations(c.rows, b.rows) * _iterations(c.columns, b.columns)
    return blocks * (iterations * (load + multiply) + store)


def _dma(extents: Extents, nbytes: int) -> float:
    count = prod(extents)
    return 64 + count * nbytes / 64 + count / max(extents[-1] if extents else 1, 1)


def _tiles(extents: Extents) -> int:
    return -(-prod(extents) // isa.TILE)


def _iterations(extents: Extents, sizes: Extents) -> float:
    return prod(n / max(size, 1) for n, size in zip(extents, sizes, strict=True))


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
