"""Tactics: how a kernel is computed where there are several ways, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from xladev.errors import FormatError


@dataclass(frozen=True, slots=True)
class Tactic:
    """What a kernel is told of how to compute; each None leaves it to the kernel's own rule.

    Attributes:
        in_tiles: true for sums of products in tiles written for the kernel (`tiles.py`), where
            they would be left to procedures that are given addresses of rows (`products/`).
        tile: rows and vectors of a register tile.
        block_rows: most rows of a block, a multiple of 48.
        panel_nbytes: bytes of a panel of packed columns.
        is_streamed: whether columns that could be read as they lie in memory are.
        part_ns: what the shortest part of work that threads share should take.
    """

    in_tiles: bool | None = None
    tile: tuple[int, int] | None = None
    block_rows: int | None = None
    panel_nbytes: int | None = None
    is_streamed: bool | None = None
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
        "panel_nbytes": int,
        "is_streamed": _truth,
        "part_ns": int,
    }
)
