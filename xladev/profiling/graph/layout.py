"""Places the nodes of a graph in rows, operands above users, with few crossings.

The placing is that of the library fast-sugiyama (extra ``graph``). Without it, or for graphs too
large for it, nodes stand in rows by their longest way from a source, in the program's order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

MOST_PLACED = 6000
"""Nodes above which a placing with few crossings takes too long."""
_TRIES = tuple((ranking, step) for step in (1, -1) for ranking in ("minimize", "down", "up"))
"""The library's ways of choosing rows, with edges in either order, best first."""

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Where nodes and the bends of edges are.

    Attributes:
        rows: from top to bottom: items with their x, in node widths, from left to right. Items
            below the number of nodes are nodes; the others are bends of edges.
        routes: for each edge the bends that it goes through, from top to bottom.
    """

    rows: tuple[tuple[tuple[int, float], ...], ...]
    routes: tuple[tuple[int, ...], ...]


def layered(count: int, edges: Sequence[Edge]) -> GraphLayout:
    """The layout of a graph without circles.

    Args:
        count: number of nodes.
        edges: pairs (above, below) of nodes, each once.
    """
    library = _library() if edges and count <= MOST_PLACED else None
    for ranking, step in _TRIES if library is not None else ():
        placed = _placed(library, count, edges[::step], ranking)
        if _leads_down(placed, edges[::step]):
            return GraphLayout(placed.rows, placed.routes[::step])
    return _in_order(count, edges)


def _leads_down(layout: GraphLayout, edges: Sequence[Edge]) -> bool:
    """True if each edge does; the library turns some of a few graphs around."""
    row = {item: at for at, items in enumerate(layout.rows) for item, _ in items}
    ways = (
        (row[above], *(row[bend] for bend in route), row[below])
        for (above, below), route in zip(edges, layout.routes, strict=True)
    )
    return all(a < b for way in ways for a, b in zip(way, way[1:], strict=False))


def _library() -> Any:
    try:
        return import_module("fast_sugiyama")
    except ImportError:
        return None


def _in_order(count: int, edges: Sequence[Edge]) -> GraphLayout:
    """Rows by the longest way from a source; edges are straight."""
    depth = [0] * count
    for above, below in sorted(edges, key=lambda e: e[1]):
        depth[below] = max(depth[below], depth[above] + 1)
    rows: dict[int, list[int]] = defaultdict(list)
    for node, d in enumerate(depth):
        rows[d].append(node)
    placed = (
        tuple((node, at - (len(rows[d]) - 1) / 2) for at, node in enumerate(rows[d]))
        for d in sorted(rows)
    )
    return GraphLayout(tuple(placed), tuple(() for _ in edges))


def _placed(library: Any, count: int, edges: Sequence[Edge], ranking: str) -> GraphLayout:
    """The library's layouts of all parts that hang together, side by side."""
    joined = sorted({node for edge in edges for node in edge})
    rank = {node: at for at, node in enumerate(joined)}
    parts = library.from_edges(
        [(rank[a], rank[b]) for a, b in edges],
        vertex_spacing=1, dummy_vertices=True, transpose=False, check_layout=False,
        ranking_type=ranking,
    )  # fmt: skip
    rows: dict[int, list[tuple[int, float]]] = defaultdict(list)
    follows: dict[Edge, list[int]] = {}
    left, unused = 0.0, count
    for positions, _, _, drawn in parts:
        # what the library numbers beyond the nodes that it was given are bends
        bends = [item for item, _ in positions if item >= len(joined)]
        numbers = {bend: unused + at for at, bend in enumerate(bends)}
        unused += len(bends)
        numbers |= {item: joined[item] for item, _ in positions if item < len(joined)}
        first = min(x for _, (x, _) in positions)
        heights = {y: row for row, y in enumerate(sorted({y for _, (_, y) in positions}))}
        at = {numbers[i]: (x - first + left, heights[y]) for i, (x, y) in positions}
        left = max(x for x, _ in at.values()) + 1.5
        chains = [(numbers[a], numbers[b]) for a, b in drawn or ()]
        downward = sum(at[b][1] - at[a][1] for a, b in chains) > 0
        last = len(heights) - 1
        for item, (x, row) in at.items():
            rows[row if downward else last - row].append((item, x))
        _add_routes(follows, chains, count)
    lonely = sorted(set(range(count)) - rank.keys())
    rows[0].extend((node, left + at) for at, node in enumerate(lonely))
    ordered = tuple(tuple(sorted(rows[r], key=lambda item: item[1])) for r in sorted(rows))
    return GraphLayout(ordered, tuple(tuple(follows.get(e, ())) for e in edges))


def _add_routes(follows: dict[Edge, list[int]], chains: Sequence[Edge], count: int) -> None:
    """The bends between the two nodes of each edge; a bend has one edge in and one out."""
    after = {a: b for a, b in chains if a >= count}
    for above, item in chains:
        if above >= count:
            continue
        bends: list[int] = []
        while item >= count:
            bends.append(item)
            item = after[item]
        follows[above, item] = bends
