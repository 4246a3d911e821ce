"""Which loops of a kernel go in tiles: where an operand is in memory across the result.

A transpose that goes along the result's rows touches another cache line of its operand with every
element, and is back at the first when that has left the cache. In tiles as long as a line, each
line is used whole. Where the lines stay in the cache until then, long rows are faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import NamedTuple

from xladev.codegen.arrays import element_strides
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape

LINE_NBYTES = 64
"""Bytes of a cache line of all processors that code is made for."""

CACHE_SETS, CACHE_WAYS = 64, 8
"""What the L1 cache has at least: a line can be in one set alone, which holds 8 of them."""

ROWS = 8
"""Lines of an operand that are open at once in a tile: those of one set. Measured best of 4 to 16.
"""

LEAST_STRIDE_NBYTES = 1024
"""Lines nearer than this are fetched ahead, which is as good as tiles (measured)."""

_Axes = tuple[int | None, ...]
"""For each dimension of an instruction, the dimension of the result that it goes along."""

_KEEPING = frozenset({"reverse", "slice", "pad", "dynamic-slice"})
"""Opcodes, besides elementwise ones, whose first operand has the dimensions of their result."""


class LoopTile(NamedTuple):
    """Two dimensions of a result, and how many elements a tile has along each.

    Attributes:
        crossed: the one along which an operand is contiguously; a tile is as long as a line.
        inner: the result's innermost one: the operand's lines in a tile, `ROWS`.
    """

    crossed: int
    inner: int
    crossed_size: int
    inner_size: int


def tile_of(
    roots: Sequence[HloInstruction], result: Shape, *, always: bool = False
) -> LoopTile | None:
    """The tile for a loop nest that computes ``roots``, which have all dimensions of ``result``.

    None if every operand is read along its lines, or stays in the cache, unless ``always``.
    """
    inner = innermost(result)
    if inner is None:
        return None
    crossed: dict[int, int] = {}
    for parameter, axes in _read(roots, result.rank):
        minor = innermost(parameter.shape)
        along = None if minor is None else axes[minor]
        if along is None or along == inner or result.dims[along] < ROWS or inner not in axes:
            continue
        if always or _leaves_cache(parameter.shape, axes.index(inner)):
            crossed[along] = max(crossed.get(along, 0), parameter.shape.nbytes)
    if not crossed:
        return None
    line = max(LINE_NBYTES // result.element_type.host_nbytes, ROWS)
    return LoopTile(max(crossed, key=crossed.__getitem__), inner, line, ROWS)


def _leaves_cache(shape: Shape, dimension: int) -> bool:
    """True if the first line has left the cache at the end of a walk along a dimension."""
    stride = element_strides(shape)[dimension] * shape.element_type.host_nbytes
    if stride < LEAST_STRIDE_NBYTES:
        return False
    skipped = gcd(stride // LINE_NBYTES, CACHE_SETS) if stride % LINE_NBYTES == 0 else 1
    return shape.dims[dimension] > CACHE_SETS // skipped * CACHE_WAYS


def innermost(shape: Shape) -> int | None:
    """The dimension along which neighbours are side by side; None for a single element."""
    return next((d for d in shape.minor_to_major if shape.dims[d] != 1), None)


def _read(roots: Sequence[HloInstruction], rank: int) -> Iterator[tuple[HloInstruction, _Axes]]:
    """The parameters that are read at indices known from the result's, and along what."""
    pending: list[tuple[HloInstruction, _Axes]] = [(root, tuple(range(rank))) for root in roots]
    seen = set(pending)
    while pending:
        i, axes = pending.pop()
        if i.opcode == "parameter":
            yield i, axes
            continue
        for found in _operands(i, axes):
            if found not in seen:
                seen.add(found)
                pending.append(found)


def _operands(i: HloInstruction, axes: _Axes) -> Iterator[tuple[HloInstruction, _Axes]]:
    """The operands whose dimensions go along those of the result, and how."""
    if i.opcode == "transpose":
        position = {operand: result for result, operand in enumerate(i["dimensions"])}
        yield i.operands[0], tuple(axes[position[d]] for d in range(len(axes)))
    elif i.opcode == "broadcast":
        yield i.operands[0], tuple(axes[d] for d in i["dimensions"])
    elif i.op.elementwise or i.opcode in _KEEPING:
        for operand in i.operands if i.op.elementwise else i.operands[:1]:
            if operand.shape.is_array and operand.shape.rank == len(axes):
                yield operand, axes
