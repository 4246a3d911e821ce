"""Reads plain values from JSON that may be damaged: numbers, texts and rows of numbers."""

from __future__ import annotations

import json
from typing import Any, Final

DAMAGE: Final = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""What reading a damaged description raises; readers of files make a FormatError of it."""


def parse_json(data: bytes) -> Any:
    """The value that UTF-8 JSON describes; one of `DAMAGE` if it is none, or nested too deep."""
    return json.loads(data)


def number(value: Any) -> int:
    """An integer from 0 to 2^63 - 1.

    Raises:
        ValueError: anything else, true and false included.
    """
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{shown(value)} is no number")
    return value


def text(value: Any) -> str:
    """A string.

    Raises:
        TypeError: anything else.
    """
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is no text")
    return value


def flag(value: Any) -> bool:
    """True or false.

    Raises:
        TypeError: anything else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{shown(value)} is neither true nor false")
    return value


def numbers(value: Any) -> tuple[int, ...]:
    """A list of numbers; a ValueError or TypeError if it is none."""
    return tuple(map(number, _row(value)))


def number_rows(value: Any) -> tuple[tuple[int, ...], ...]:
    """A list of lists of numbers; a ValueError or TypeError if it is none."""
    return tuple(map(numbers, _row(value)))


def _row(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{shown(value)} is no list")
    return value


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    whole = repr(value)
    return whole if len(whole) <= 80 else f"{whole[:80]}..."
