"""Events of a trace that nobody vouches for: damaged ones go, what is left has plain fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LATEST_US = 9e15
"""Times from here on are damage: as nanoseconds they fit 64 bits."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_TIMED = frozenset("XCsf")
_PLACES = ("pid", "tid", "id")
_TEXTS = ("name", "cat")

Place = int | str | None


def sound_events(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events whose times and places can be used, with text and args that can.

    An event without a time or a length is at 0 or has none. Args that are no numbers and no text
    are shown as text, as integers beyond 64 bits are.

    Args:
        document: as `read_trace` gives it.
    """
    return list(_sound(document["traceEvents"]))


def in_order(place: tuple[Place, ...]) -> tuple[tuple[bool, Place], ...]:
    """A key that sorts numbers of processes and rows, also where some are names."""
    return tuple((isinstance(part, str), 0 if part is None else part) for part in place)


def _sound(events: Any) -> Iterator[dict[str, Any]]:
    for event in events:
        if not isinstance(event, Mapping) or not isinstance(event.get("ph"), str):
            continue
        made = dict(event)
        if event["ph"] in _TIMED:
            made["ts"], made["dur"] = event.get("ts", 0), event.get("dur", 0)
            if not (_is_time(made["ts"]) and _is_time(made["dur"])):
                continue
        if not all(_is_place(made.get(name)) for name in _PLACES):
            continue
        for name in _TEXTS:
            if name in made:
                made[name] = _text(made[name])
        args = event.get("args")
        made["args"] = (
            {_text(k): _plain(v) for k, v in args.items()} if isinstance(args, Mapping) else {}
        )
        yield made


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and -LATEST_US < value < LATEST_US


def _is_place(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii()
    return value is None or (isinstance(value, int) and _LEAST <= value <= _MOST)


def _plain(value: Any) -> int | float | str | None:
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int) and _LEAST <= value <= _MOST:
        return value
    return _text(value)


def _text(value: Any) -> str:
    """Text without halves of characters, which neither SQLite nor a file takes."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
