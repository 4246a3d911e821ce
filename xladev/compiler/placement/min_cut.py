"""Minimum cuts of graphs with two terminals, by augmenting flows along shortest paths.

Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation",
Soviet Mathematics Doklady 11, 1970. Capacities are integers, so that results are exact.
"""

from __future__ import annotations

ENDLESS = 1 << 62
"""The capacity of what must not be cut."""


class CutGraph:
    """A graph of nodes 0, 1, ... between a source and a sink.

    Nodes that stay on the source's side after `cut` are those that the source still reaches.
    """

    def __init__(self) -> None:
        self._heads: list[int] = []
        self._capacities: list[int] = []
        self._arcs: list[list[int]] = [[], []]  # of source and sink, then of the nodes

    def node(self) -> int:
        """A new node."""
        self._arcs.append([])
        return len(self._arcs) - 3

    def edge(self, tail: int, head: int, capacity: int, back: int = 0) -> None:
        """Cutting with ``tail`` on the source's side and ``head`` on the sink's costs this much.

        Args:
            tail: a node.
            head: another.
            capacity: from tail to head.
            back: from head to tail.
        """
        self._add(tail + 2, head + 2, capacity, back)

    def terminals(self, node: int, source: int, sink: int) -> None:
        """What it costs to have a node on the sink's side (``source``), or on the source's."""
        shared = min(source, sink)
        if source > shared:
            self._add(0, node + 2, source - shared, 0)
        elif sink > shared:
            self._add(node + 2, 1, sink - shared, 0)

    def _add(self, tail: int, head: int, capacity: int, back: int) -> None:
        number = len(self._heads)
        self._heads += (head, tail)
        self._capacities += (capacity, back)
        self._arcs[tail].append(number)
        self._arcs[head].append(number + 1)

    def cut(self) -> list[bool]:
        """For each node, whether it is on the source's side of a minimum cut."""
        while True:
            levels = self._levels()
            if levels[1] < 0:
                return [level >= 0 for level in levels[2:]]
            self._augment(levels)

    def _levels(self) -> list[int]:
        """Distances from the source over arcs with room; -1 where there is no way."""
        arcs, heads, capacities = self._arcs, self._heads, self._capacities
        levels = [-1] * len(arcs)
        levels[0], front, distance = 0, [0], 0
        while front:
            distance += 1
            reached: list[int] = []
            for node in front:
                for arc in arcs[node]:
                    if capacities[arc] and levels[heads[arc]] < 0:
                        levels[heads[arc]] = distance
                        reached.append(heads[arc])
            front = reached
        return levels

    def _augment(self, levels: list[int]) -> None:
        """Fills the arcs of all shortest ways."""
        arcs, heads, capacities = self._arcs, self._heads, self._capacities
        following = [0] * len(arcs)
        path: list[int] = []
        node = 0
        while True:
            if node == 1:
                node = self._fill(path)
                continue
            mine, at, wanted = arcs[node], following[node], levels[node] + 1
            while at < len(mine):
                arc = mine[at]
                if capacities[arc] and levels[heads[arc]] == wanted:
                    break
                at += 1
            following[node] = at
            if at < len(mine):
                path.append(mine[at])
                node = heads[mine[at]]
            elif node:
                arc = path.pop()
                node = heads[arc ^ 1]
                following[node] += 1
            else:
                return

    def _fill(self, path: list[int]) -> int:
        """Sends what the way has room for; gives the node before the first arc that is full."""
        capacities = self._capacities
        room = min(capacities[arc] for arc in path)
        full = -1
        for at, arc in enumerate(path):
            capacities[arc] -= room
            capacities[arc ^ 1] += room
            if full < 0 and not capacities[arc]:
                full = at
        node = self._heads[path[full] ^ 1]
        del path[full:]
        return node
