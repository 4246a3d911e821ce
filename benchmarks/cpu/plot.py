"""Pictures in SVG: ratios as bars on a logarithmic axis, times against sizes as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.cpu.statistics import Ratio

_COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#4b5563")
_STYLE = "font-family='sans-serif' font-size='12'"


def bars(title: str, ratios: Mapping[str, Ratio]) -> str:
    """Ratios with intervals, one line each; left of the middle line the peer is faster."""
    left, width, line = 300, 420, 18
    height = 60 + line * len(ratios)

    def x(value: float) -> float:
        """From an eighth to eight times."""
        return left + width * (min(max(math.log2(max(value, 1e-9)), -3), 3) + 3) / 6

    parts = [_text(10, 20, title, weight="bold")]
    for power in range(-3, 4):
        at = x(2.0**power)
        parts += [_line(at, 34, at, height - 20, "#000" if power == 0 else "#ddd")]
        parts += [_text(at - 8, height - 6, f"{2.0**power:g}")]
    for number, (name, ratio) in enumerate(ratios.items()):
        y = 46 + line * number
        colour = _COLOURS[3] if ratio.is_behind else _COLOURS[2]
        start, end = sorted((x(1.0), x(ratio.value)))
        parts.append(_text(10, y + 4, name))
        parts.append(
            f"<rect x='{start:.1f}' y='{y - 5}' width='{end - start:.1f}' height='10' "
            f"fill='{colour}' fill-opacity='0.6'/>"
        )
        parts.append(_line(x(ratio.low), y, x(ratio.high), y, "#000"))
    return _document(left + width + 40, height, parts)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Points (size, seconds) of each peer, both axes logarithmic."""
    points = [p for some in series.values() for p in some]
    if not points:
        return _document(200, 40, [_text(10, 20, f"{title}: no data")])
    left, top, width, height = 70, 30, 480, 280
    (x0, x1), (y0, y1) = (_range([p[i] for p in points]) for i in (0, 1))

    def at(size: float, seconds: float) -> tuple[float, float]:
        across = (math.log10(size) - x0) / (x1 - x0)
        up = (math.log10(seconds) - y0) / (y1 - y0)
        return left + width * across, top + height * (1 - up)

    parts = [_text(10, 20, title, weight="bold")]
    for power in range(math.ceil(x0), math.floor(x1) + 1):
        x, _ = at(10.0**power, 10.0**y0)
        parts += [
            _line(x, top, x, top + height, "#ddd"),
            _text(x - 12, top + height + 16, f"1e{power}"),
        ]
    for power in range(math.ceil(y0), math.floor(y1) + 1):
        _, y = at(10.0**x0, 10.0**power)
        parts += [_line(left, y, left + width, y, "#ddd"), _text(10, y + 4, f"1e{power} s")]
    for number, (name, some) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*at(*p)) for p in sorted(some))
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts.append(_text(left + width + 12, top + 16 + 18 * number, name, colour=colour))
    return _document(left + width + 150, top + height + 30, parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Smallest and largest logarithm, never the same."""
    logs = [math.log10(v) for v in values]
    low, high = min(logs), max(logs)
    return (low - 0.5, high + 0.5) if high - low < 1e-9 else (low, high)


def _text(x: float, y: float, text: str, *, weight: str = "normal", colour: str = "#111") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}' font-weight='{weight}' {_STYLE}>"
        f"{escape(text)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}'/>"


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>",
        f"<rect width='{width}' height='{height}' fill='#fff'/>",
        *parts,
        "</svg>\n",
    ])  # fmt: skip
