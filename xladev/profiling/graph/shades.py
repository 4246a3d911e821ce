"""Colours of still pictures, the same as the page's: by opcode, size, time, device or kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from colorsys import hls_to_rgb
from math import sqrt
from typing import Any

COLOURS = ("opcode", "time", "flops", "bytes", "device", "fusion")
"""What boxes can be coloured by."""

_WORDS = ("device", "fusion")
_PLAIN = "#ffffff"

Node = Mapping[str, Any]


def shades(data: Mapping[str, Any], by: str) -> tuple[Callable[[Node], str], list[tuple[str, str]]]:
    """The colour of a node, and what the colours mean.

    Args:
        data: what `graph_data` gives.
        by: one of `COLOURS`.
    """
    nodes = [node for c in data["computations"] for node in c["nodes"]]
    if by == "opcode":
        families: dict[str, set[str]] = {}
        for node in nodes:
            families.setdefault(node.get("colour", _PLAIN), set()).add(node["family"])
        legend = [(", ".join(sorted(names)), colour) for colour, names in families.items()]
        return (lambda node: str(node.get("colour", _PLAIN))), legend
    if by in _WORDS:
        words = {word: hue(at) for at, word in enumerate(_known_words(nodes, by))}
        return (lambda node: words.get(node.get(by, ""), _PLAIN)), list(words.items())
    most = max((node.get(by, 0) for node in nodes), default=0) or 1
    steps = [(_amount(most * share, by), _heat(share)) for share in (0.0, 0.1, 0.5, 1.0)]
    return (lambda node: _heat(node.get(by, 0) / most)), steps


def _known_words(nodes: list[Node], by: str) -> list[str]:
    found = list(dict.fromkeys(node[by] for node in nodes if node.get(by)))
    return sorted(found) if by == "device" else found


def _amount(value: float, by: str) -> str:
    return f"{value * 1e6:,.3g} us" if by == "time" else f"{value:,.0f}"


def hue(at: int) -> str:
    """A light colour for a number; near numbers are told apart."""
    return _rgb((40 + at * 137.5) % 360, 0.70, 0.86 - at % 3 * 0.06)


def _heat(share: float) -> str:
    root = sqrt(share)
    return _rgb(50 - 45 * root, 0.95, 0.92 - 0.32 * root) if share else _PLAIN


def _rgb(hue: float, saturation: float, lightness: float) -> str:
    """As ``#rrggbb``: not all readers of pictures know ``hsl()``."""
    red, green, blue = hls_to_rgb(hue / 360, lightness, saturation)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
