"""A graph of clusters without cycles, whose edges are contracted while it stays so.

The order of nodes is kept as Pearce and Kelly do for added edges ("A dynamic topological sort
algorithm for directed acyclic graphs", 2006): a contraction moves only nodes between its two ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

_BUDGET = 4096
"""Nodes that one search for another way may visit; beyond, the edge is not contracted."""


class ClusterGraph:
    """Nodes are numbers from 0, whose order is one in which edges lead forward.

    Args:
        before: for each node, those that must run before it; all have lower numbers.
    """

    def __init__(self, before: Mapping[int, Set[int]]) -> None:
        self._before = {node: set(found) for node, found in before.items()}
        self._after: dict[int, set[int]] = {node: set() for node in before}
        for node, found in before.items():
            for earlier in found:
                self._after[earlier].add(node)
        self._position = {node: node for node in before}

    def before(self, node: int) -> list[int]:
        """Nodes with an edge to this one, the latest first."""
        return sorted(self._before[node], key=self._position.__getitem__, reverse=True)

    def around(self, node: int) -> list[int]:
        """The node, if it is left, and those with an edge from it."""
        return [node, *self._after[node]] if node in self._after else []

    def ordered(self) -> list[int]:
        """The nodes that are left, each behind those before it."""
        return sorted(self._before, key=self._position.__getitem__)

    def contract(self, first: int, second: int) -> bool:
        """Makes ``second`` part of ``first``, unless that closes a cycle or takes long to tell.

        Args:
            first: a node with an edge to ``second``.
            second: gone afterwards if True is returned.
        """
        low, high = self._position[first], self._position[second]
        behind = self._search(first, self._after, second, low, high)
        if behind is None or any(second in self._after[node] for node in behind):
            return False
        ahead = self._search(second, self._before, first, low, high)
        if ahead is None:
            return False
        self._reorder(ahead, first, behind, second)
        self._merge(first, second)
        return True

    def _search(
        self, start: int, ways: Mapping[int, Set[int]], other: int, low: int, high: int
    ) -> set[int] | None:
        """What is reached from ``start``, other than ``other``, between two positions.

        None if that is too much to visit.
        """
        found: set[int] = set()
        pending = [start]
        while pending:
            for node in ways[pending.pop()]:
                if node != other and node not in found and low < self._position[node] < high:
                    found.add(node)
                    pending.append(node)
            if len(found) > _BUDGET:
                return None
        return found

    def _reorder(self, ahead: set[int], first: int, behind: set[int], second: int) -> None:
        """Puts what the contracted node needs before it, and what needs it behind it."""
        places = sorted(self._position[n] for n in (*ahead, first, *behind, second))
        order = (*self._in_order(ahead), first, *self._in_order(behind))
        self._position.update(zip(order, places, strict=False))

    def _in_order(self, nodes: set[int]) -> list[int]:
        return sorted(nodes, key=self._position.__getitem__)

    def _merge(self, first: int, second: int) -> None:
        for node, end in self._neighbours(second):
            ways, back = (self._before, self._after) if end else (self._after, self._before)
            back[node].discard(second)
            if node != first:
                back[node].add(first)
                ways[first].add(node)
        for ways in (self._before, self._after):
            del ways[second]
        del self._position[second]

    def _neighbours(self, node: int) -> Iterator[tuple[int, bool]]:
        """Each neighbour, and whether it is before the node."""
        yield from ((n, True) for n in tuple(self._before[node]))
        yield from ((n, False) for n in tuple(self._after[node]))
