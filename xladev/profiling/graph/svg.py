"""A still picture of a program: its computations one below the other, the entry first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any
from xml.sax.saxutils import escape

from xladev.errors import UnsupportedError, printable
from xladev.profiling.graph.shades import shades

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 190, 46, 26, 36
_MARGIN, _TITLE, _LETTERS = 20, 28, 27
_MOST_MEANINGS = 10
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold."""
_STYLE = "font-family:system-ui,Helvetica,Arial,sans-serif;font-size:11px"

Point = tuple[float, float]


def svg_picture(data: Mapping[str, Any], by: str = "opcode", *, entry_only: bool = False) -> str:
    """The picture of what `graph_data` gives.

    Args:
        data: of one program.
        by: what boxes are coloured by: one of `COLOURS`.
        entry_only: without the computations that it calls.
    """
    colour, meanings = shades(data, by)
    computations = data["computations"]
    others = () if entry_only else range(len(computations))
    numbers = [data["entry"], *(n for n in others if n != data["entry"])]
    parts: list[str] = []
    legend, right = _legend(by, meanings)
    parts.extend(legend)
    top = 2.0 * _MARGIN
    for number in numbers:
        computation = computations[number]
        places = _places(computation, top + _TITLE)
        parts.append(_text(_MARGIN, top + 14, computation["name"], bold=True))
        parts.extend(_edges(computation, places))
        parts.extend(_nodes(computation, places, colour))
        right = max(right, *(x for x, _ in places.values()), 0.0)
        top = max(y for _, y in places.values()) + _HEIGHT + 2 * _MARGIN
    width, height = right + _WIDTH + _MARGIN, top
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" style="{_STYLE}">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>"])


def png_picture(data: Mapping[str, Any], by: str = "opcode", *, entry_only: bool = False) -> bytes:
    """The same as PNG.

    Raises:
        UnsupportedError: the library that draws it is not installed.
    """
    return svg_to_png(svg_picture(data, by, entry_only=entry_only))


def svg_to_png(picture: str) -> bytes:
    """An SVG as PNG.

    Raises:
        UnsupportedError: the library that draws it is not installed.
    """
    try:
        library: Any = import_module("resvg_py")
    except ImportError as error:
        raise UnsupportedError(
            "a PNG cannot be drawn here",
            why="the package resvg-py is not installed",
            hint="pip install 'xladev[graph]', or draw an SVG: -o FILE.svg",
        ) from error
    return bytes(library.svg_to_bytes(svg_string=picture))


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


def _legend(by: str, meanings: Sequence[tuple[str, str]]) -> tuple[list[str], float]:
    """What the colours mean, in one line, and where it ends."""
    parts = [_text(_MARGIN, 16, f"colour by {by}:")]
    x = _MARGIN + 6.5 * len(f"colour by {by}:")
    for name, colour in meanings[:_MOST_MEANINGS]:
        short = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
        width = 6.5 * len(short) + 12
        parts.append(
            f'<rect x="{x:.0f}" y="4" width="{width:.0f}" height="17" rx="4" fill="{colour}" '
            f'stroke="#dee2e6"/>'
        )
        parts.append(_text(x + 6, 16, short))
        x += width + 5
    return parts, x - _WIDTH


def _nodes(
    computation: Mapping[str, Any], places: Mapping[int, Point], colour: Callable[[Any], str]
) -> Iterator[str]:
    for number, node in enumerate(computation["nodes"]):
        x, y = places[number]
        border = 2.5 if node.get("root") else 1
        yield (
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
            f'fill="{colour(node)}" stroke="#495057" stroke-width="{border}"/>'
        )
        given = [value for value in node.get("given", []) if value]
        opcode = node["opcode"] + (f" ({', '.join(given)})" if given else "")
        yield _text(x + 8, y + 15, opcode, bold=True)
        yield _text(x + 8, y + 28, node["name"])
        yield _text(x + 8, y + 41, node["shape"])


def xml_text(text: str) -> str:
    """Text for an XML document, with a mark for each other character that none may hold."""
    return escape(_NO_XML.sub("�", printable(text)))


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    text = printable(text)
    short = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#212529"{weight}>{xml_text(short)}</text>'
