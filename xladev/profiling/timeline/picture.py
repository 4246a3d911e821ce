"""A still picture of a timeline: its rows of slices, without a viewer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xladev.errors import ArgumentError
from xladev.profiling.graph.shades import hue
from xladev.profiling.graph.svg import xml_text
from xladev.profiling.timeline.sound import in_order, sound_events

_LABEL, _ROW, _GAP, _TOP, _MARGIN = 170, 17, 6, 26, 10
_LETTER = 5.6
_TICKS = 5
_STYLE = "font-family:system-ui,Helvetica,Arial,sans-serif;font-size:10px"

Slice = Mapping[str, Any]
Rows = dict[tuple[int, int], list[Slice]]


def timeline_picture(
    document: Mapping[str, Any], width: int = 1000, span: tuple[float, float] | None = None
) -> str:
    """The picture, as SVG.

    Args:
        document: a Chrome trace.
        width: in pixels.
        span: microseconds of the first and the last moment shown; default: from the first slice on
            a device to the last, or all if there is none.

    Raises:
        ArgumentError: nothing happens then.
    """
    events = sound_events(document)
    slices = [e for e in events if e["ph"] == "X" and e["ts"] >= 0 and e["dur"] >= 0]
    names = _names(events)
    begin, end = span or _busy(slices, names)
    shown = [e for e in slices if e["ts"] < end and e["ts"] + e["dur"] > begin]
    if not shown or end <= begin:
        raise ArgumentError(
            f"nothing happens from {begin} to {end} us",
            why="the trace has no slice then",
            hint="`xladev trace query` says when things happen",
        )
    scale = (width - _LABEL - _MARGIN) / (end - begin)
    parts = list(_axis(begin, end, scale))
    top = _TOP
    for key, row in sorted(_rows(shown).items(), key=lambda each: in_order(each[0])):
        depths = _depths(row)
        parts.append(_text(_MARGIN, top + 12, _shortened(names.get(key, str(key)), _LABEL - 14)))
        for each, depth in zip(row, depths, strict=True):
            left = _LABEL + max(0.0, each["ts"] - begin) * scale
            right = _LABEL + (min(end, each["ts"] + each["dur"]) - begin) * scale
            parts.append(_slice(each, left, max(right - left, 0.6), top + depth * _ROW))
        top += (max(depths) + 1) * _ROW + _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" '
        f'viewBox="0 0 {width} {top}" style="{_STYLE}">'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"])


def _names(events: Sequence[Slice]) -> dict[tuple[int, int], str]:
    """Process and row, by their numbers."""
    found: dict[tuple[str, int, int], str] = {}
    for event in events:
        if event["ph"] == "M" and "name" in event["args"]:
            key = (str(event.get("name")), event.get("pid", 0), event.get("tid", 0))
            found[key] = str(event["args"]["name"])
    processes = {pid: name for (kind, pid, _), name in found.items() if kind == "process_name"}
    return {
        (pid, tid): f"{processes.get(pid, pid)}  {name}"
        for (kind, pid, tid), name in found.items()
        if kind == "thread_name"
    }


def _busy(slices: Sequence[Slice], names: Mapping[tuple[int, int], str]) -> tuple[float, float]:
    """From the first slice that is not the host's to the last."""
    on_devices = [e for e in slices if not names.get(_key(e), "").startswith("host")]
    some = on_devices or slices
    begin = min((e["ts"] for e in some), default=0.0)
    return begin, max((e["ts"] + e["dur"] for e in some), default=0.0)


def _key(event: Slice) -> tuple[int, int]:
    return event.get("pid", 0), event.get("tid", 0)


def _rows(slices: Sequence[Slice]) -> Rows:
    rows: Rows = {}
    for each in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
        rows.setdefault(_key(each), []).append(each)
    return rows


def _depths(row: Sequence[Slice]) -> list[int]:
    """How many slices each is within."""
    depths: list[int] = []
    ends: list[float] = []
    for each in row:
        while ends and ends[-1] <= each["ts"] + 1e-6:
            ends.pop()
        depths.append(len(ends))
        ends.append(each["ts"] + each["dur"])
    return depths


def _axis(begin: float, end: float, scale: float) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        time = (end - begin) * tick / _TICKS
        x = _LABEL + time * scale
        yield f'<path d="M{x:.1f} 18V10000" stroke="#e9ecef"/>'
        yield _text(x, 12, _micros(time), "end" if tick == _TICKS else "start")


def _micros(time: float) -> str:
    return f"{time:,.0f} us" if time >= 100 else f"{time:.3g} us"


def _slice(each: Slice, left: float, width: float, top: float) -> str:
    name = str(each.get("name", ""))
    category = str(each.get("cat", ""))
    box = (
        f'<rect x="{left:.1f}" y="{top:.0f}" width="{width:.1f}" height="{_ROW - 2}" rx="2" '
        f'fill="{_colour(category)}" stroke="#868e96" stroke-width="0.4">'
        f"<title>{xml_text(name)}: {each['dur']:,.3f} us</title></rect>"
    )
    if width < 4 * _LETTER:
        return box
    return box + _text(left + 3, top + 11, _shortened(name, width - 6))


_CATEGORIES = ("kernel", "cluster", "region", "launch", "transfer", "enqueue", "compile", "pass")


def _colour(category: str) -> str:
    at = _CATEGORIES.index(category) if category in _CATEGORIES else len(_CATEGORIES)
    return hue(at)


def _shortened(text: str, width: float) -> str:
    letters = max(1, int(width / _LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.0f}" fill="#212529"{end}>{xml_text(text)}</text>'
