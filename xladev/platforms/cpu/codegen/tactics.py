"""Tactics: how a kernel is computed where there are several ways, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from xladev.errors import FormatError


class SortWay(Enum):
    """Ways to sort a row."""

    NETWORK = "network"
    """In vectors, by comparisons that do not depend on the data; of rows that it is for."""
    RADIX = "radix"
    """By the bytes of a key, if there is one."""
    MERGE = "merge"
    """Sorted runs, of any elements."""


class Crossing(Enum):
    """Ways to go through an array that is across the result."""

    TILES = "tiles"
    """In tiles as long as a cache line, element by element."""
    ROWS = "rows"
    """Along the rows of the result."""


@dataclass(frozen=True, slots=True)
class Tactic:
    """What a kernel is told of how to compute; each None leaves it to the kernel's own rule.

    Attributes:
        in_tiles: true for sums of products in tiles written for the kernel (`tiles.py`), where
            they would be left to microkernels that are given addresses of rows (`products/`).
        tile: rows and vectors of a register tile.
        block_rows: most rows of a block, a multiple of 48.
        block_columns: most columns of one, a multiple of 128.
        panel_nbytes: bytes of a panel of packed columns.
        is_streamed: whether columns that could be read as they are in memory are.
        sort_way: how rows are sorted.
        crossing: how transposes go through memory.
        part_ns: what the shortest part of work that threads share should take.
    """

    in_tiles: bool | None = None
    tile: tuple[int, int] | None = None
    block_rows: int | None = None
    block_columns: int | None = None
    panel_nbytes: int | None = None
    is_streamed: bool | None = None
    sort_way: SortWay | None = None
    crossing: Crossing | None = None
    part_ns: int | None = None

    def __str__(self) -> str:
        """Such as ``tile=12x2,block_rows=480``; empty where all is left to the kernel."""
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ",".join(f"{name}={_spelled(x)}" for name, x in given if x is not None)

    def and_then(self, other: Tactic) -> Tactic:
        """Both; what the other one says counts more."""
        given = ((f.name, getattr(other, f.name)) for f in fields(other))
        return replace(self, **{name: x for name, x in given if x is not None})


DEFAULT = Tactic()
"""Everything by the kernels' own rules."""


def tactic_of(text: str) -> Tactic:
    """What ``str`` of a tactic spelled.

    Raises:
        FormatError: it did not.
    """
    given: dict[str, Any] = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        try:
            given[name] = _READERS[name](value)
        except (KeyError, ValueError) as error:
            raise FormatError(f"{word!r} is no part of a tactic", where=repr(text)) from error
    return Tactic(**given)


def _spelled(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def _truth(text: str) -> bool:
    return bool(int(text))


def _tile(text: str) -> tuple[int, int]:
    rows, vectors = map(int, text.split("x"))
    return rows, vectors


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "in_tiles": _truth,
        "tile": _tile,
        "block_rows": int,
        "block_columns": int,
        "panel_nbytes": int,
        "is_streamed": _truth,
        "sort_way": SortWay,
        "crossing": Crossing,
        "part_ns": int,
    }
)
