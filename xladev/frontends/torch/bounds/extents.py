"""How the dimensions of a tensor are filled up to a bound.

A dimension is a product of factors, the outermost first. A factor of a symbolic size is filled up
to the symbol's bound; so ``4 * s`` of a tensor [4, s] seen as one dimension has elements that do
not count after each of its four parts, and not at the end alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from xladev.frontends.torch import adapter
from xladev.frontends.torch.lower.table import NotLowered

Bounds = Mapping[Any, int]
"""The bound of each symbol."""


@dataclass(frozen=True, slots=True)
class Factor:
    """Part of a dimension.

    Attributes:
        size: how many elements it has, those that only fill it up included.
        symbol: what its true size is; None where it is ``size``.
    """

    size: int
    symbol: Any = None


Extent = tuple[Factor, ...]
"""The factors of one dimension; none for a dimension of size 1."""

Extents = tuple[Extent, ...]


def size_of(extent: Extent) -> int:
    """How many elements a dimension has, filled up."""
    return prod(factor.size for factor in extent)


def is_filled(extent: Extent) -> bool:
    """Whether some elements of a dimension do not count."""
    return any(factor.symbol is not None for factor in extent)


def plain(size: int) -> Extent:
    """A dimension of which all elements count."""
    return () if size == 1 else (Factor(size),)


def merged(factors: Iterable[Factor]) -> Extent:
    """Factors of one dimension, neighbours of known size being one."""
    made: list[Factor] = []
    for factor in factors:
        if factor.symbol is None and factor.size == 1:
            continue
        if made and factor.symbol is None and made[-1].symbol is None:
            made[-1] = Factor(made[-1].size * factor.size)
        else:
            made.append(factor)
    return tuple(made)


def extent_of(size: Any, bounds: Bounds, *, symbols_first: bool) -> Extent:
    """The factors of a traced size, whose order the size does not tell.

    Raises:
        NotLowered: it is no product of a number and symbols.
    """
    if isinstance(size, int):
        return plain(size)
    number, symbols = adapter.product_of(size)
    unknown = [each for each in symbols if each not in bounds]
    if number is None or unknown:
        raise NotLowered(f"a size of {size}", why="it is no product of a number and symbols")
    filled = [Factor(bounds[each], each) for each in symbols]
    return merged([*filled, Factor(number)] if symbols_first else [Factor(number), *filled])


def extents_of(tensor: torch.Tensor, bounds: Bounds, *, symbols_first: bool) -> Extents:
    """The dimensions of a traced tensor."""
    return tuple(extent_of(n, bounds, symbols_first=symbols_first) for n in tensor.shape)


def seen_as(extents: Extents, sizes: Sequence[int]) -> Extents:
    """The same elements in dimensions of other sizes, each of whole filled factors.

    Raises:
        NotLowered: a filled factor would be cut.
    """
    left = [factor for extent in extents for factor in extent]
    made = []
    for size in sizes:
        taken, missing = [], size
        while missing > 1:
            factor = left.pop(0) if left else Factor(0)
            if factor.size and missing % factor.size == 0:
                taken.append(factor)
                missing //= factor.size
            elif factor.symbol is None and factor.size and factor.size % missing == 0:
                left.insert(0, Factor(factor.size // missing))
                taken.append(Factor(missing))
                missing = 1
            else:
                raise NotLowered(f"a view as {list(sizes)}", why="it cuts a dimension that is open")
        made.append(merged(taken))
    return tuple(made)


def broadcast(every: Sequence[Extents]) -> Extents:
    """The dimensions that tensors have together.

    Raises:
        NotLowered: dimensions are filled in different ways.
    """
    rank = max(map(len, every), default=0)
    made = []
    for d in range(-rank, 0):
        found = {extents[d] for extents in every if len(extents) >= -d and extents[d] != ()}
        if len(found) > 1:
            raise NotLowered("operands whose open dimensions differ")
        made.append(found.pop() if found else ())
    return tuple(made)
