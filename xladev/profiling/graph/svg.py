"""A still picture of a program: its computations one below the other, the entry first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any
from xml.sax.saxutils import escape

from xladev.errors import UnsupportedError

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 190, 46, 26, 36
_MARGIN, _TITLE, _LETTERS = 20, 28, 27
_STYLE = "font-family:system-ui,Helvetica,Arial,sans-serif;font-size:11px"

Point = tuple[float, float]


def svg_picture(data: Mapping[str, Any]) -> str:
    """The picture of what `graph_data` gives."""
    computations = data["computations"]
    numbers = [data["entry"], *(n for n in range(len(computations)) if n != data["entry"])]
    parts: list[str] = []
    right, top = 0.0, float(_MARGIN)
    for number in numbers:
        computation = computations[number]
        places = _places(computation, top + _TITLE)
        parts.append(_text(_MARGIN, top + 14, computation["name"], bold=True))
        parts.extend(_edges(computation, places))
        parts.extend(_nodes(computation, places))
        right = max(right, *(x for x, _ in places.values()), 0.0)
        top = max(y for _, y in places.values()) + _HEIGHT + 2 * _MARGIN
    width, height = right + _WIDTH + _MARGIN, top
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" style="{_STYLE}">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>"])


def png_picture(data: Mapping[str, Any]) -> bytes:
    """The same as PNG.

    Raises:
        UnsupportedError: the library that draws it is not installed.
    """
    try:
        library: Any = import_module("resvg_py")
    except ImportError as error:
        raise UnsupportedError(
            "a PNG cannot be drawn here",
            why="the package resvg-py is not installed",
            hint="pip install 'xladev[graph]', or take --format svg",
        ) from error
    return bytes(library.svg_to_bytes(svg_string=svg_picture(data)))


def _places(computation: Mapping[str, Any], top: float) -> dict[int, Point]:
    """Left upper corner of each node, and of each bend."""
    lowest = min((x for row in computation["rows"] for _, x in row), default=0.0)
    return {
        item: (_MARGIN + (x - lowest) * (_WIDTH + _GAP_X), top + at * (_HEIGHT + _GAP_Y))
        for at, row in enumerate(computation["rows"])
        for item, x in row
    }


def _edges(computation: Mapping[str, Any], places: Mapping[int, Point]) -> Iterator[str]:
    for above, below, bends in computation["edges"]:
        x, y = places[above]
        points = [(x + _WIDTH / 2, y + _HEIGHT)]
        points += [(places[b][0] + _WIDTH / 2, places[b][1] + _HEIGHT / 2) for b in bends]
        points.append((places[below][0] + _WIDTH / 2, places[below][1]))
        yield f'<path d="{_curve(points)}" fill="none" stroke="#adb5bd"/>'


def _curve(points: list[Point]) -> str:
    path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (ax, ay), (bx, by) in zip(points, points[1:], strict=False):
        middle = (ay + by) / 2
        path += f"C{ax:.0f} {middle:.0f} {bx:.0f} {middle:.0f} {bx:.0f} {by:.0f}"
    return path


def _nodes(computation: Mapping[str, Any], places: Mapping[int, Point]) -> Iterator[str]:
    for number, node in enumerate(computation["nodes"]):
        x, y = places[number]
        border = 2.5 if node.get("root") else 1
        yield (
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
            f'fill="{node.get("colour", "#ffffff")}" stroke="#495057" stroke-width="{border}"/>'
        )
        given = [value for value in node.get("given", []) if value]
        opcode = node["opcode"] + (f" ({', '.join(given)})" if given else "")
        yield _text(x + 8, y + 15, opcode, bold=True)
        yield _text(x + 8, y + 28, node["name"])
        yield _text(x + 8, y + 41, node["shape"])


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    short = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#212529"{weight}>{escape(short)}</text>'
