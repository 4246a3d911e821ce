"""Forms clusters: instructions of one kind that are joined by edges, without cycles between them.

First by the number of borders on the longest way to an instruction, which takes linear time; then
edges between what was found are contracted, as long as no way leads out of a cluster and back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Set

from xladev.compiler.clustering.cluster_graph import ClusterGraph
from xladev.hlo.ir import HloInstruction

Needs = Mapping[HloInstruction, Set[HloInstruction]]
"""Instructions, operands first, with those that must run before each."""
Kind = Callable[[HloInstruction], Hashable]
"""What instructions of one cluster have in common; None for one that stays alone."""
Cluster = tuple[HloInstruction, ...]


def form_clusters(needs: Needs, kind: Kind) -> list[Cluster]:
    """Clusters, and instructions alone, in an order in which they can run.

    No two clusters of one kind that an edge joins could be one, unless it takes long to tell.

    Args:
        needs: what to cluster.
        kind: of each instruction.
    """
    kinds = {i: kind(i) for i in needs}
    groups = _groups(needs, kinds, _levels(needs, kinds))
    number = {i: at for at, group in enumerate(groups) for i in group}
    before = {
        at: {number[n] for i in group for n in needs[i]} - {at} for at, group in enumerate(groups)
    }
    members = {at: list(group) for at, group in enumerate(groups)}
    graph = ClusterGraph(before)
    _contract(graph, members, {at: kinds[group[0]] for at, group in members.items()})
    place = {i: at for at, i in enumerate(needs)}
    return [tuple(sorted(members[at], key=place.__getitem__)) for at in graph.ordered()]


def _levels(needs: Needs, kinds: Mapping[HloInstruction, Hashable]) -> dict[HloInstruction, int]:
    """How many borders between kinds the longest way to an instruction crosses.

    An edge within a level joins instructions of one kind, so levels have no cycles.
    """
    levels: dict[HloInstruction, int] = {}
    for i, needed in needs.items():
        border = (levels[n] + (kinds[i] is None or kinds[n] != kinds[i]) for n in needed)
        levels[i] = max(border, default=0)
    return levels


def _groups(
    needs: Needs, kinds: Mapping[HloInstruction, Hashable], levels: Mapping[HloInstruction, int]
) -> list[Cluster]:
    """What edges join within a level, in the order of levels."""
    leader: dict[HloInstruction, HloInstruction] = {}

    def find(i: HloInstruction) -> HloInstruction:
        while leader[i] is not i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for i, needed in needs.items():
        leader[i] = i
        for n in needed:
            if levels[n] == levels[i]:
                leader[find(n)] = i
    found: dict[HloInstruction, list[HloInstruction]] = {}
    for i in sorted(needs, key=levels.__getitem__):
        found.setdefault(find(i), []).append(i)
    return [tuple(group) for group in found.values()]


def _contract(
    graph: ClusterGraph, members: dict[int, list[HloInstruction]], kinds: Mapping[int, Hashable]
) -> None:
    """Contracts edges between clusters of one kind until none is left that may be."""
    pending: Iterable[int] = graph.ordered()
    while pending:
        changed: dict[int, None] = {}
        for node in pending:
            earlier = _joined(graph, node, kinds) if node in members else None
            if earlier is not None:
                members[earlier] += members.pop(node)
                changed[earlier] = None
        pending = dict.fromkeys(n for at in changed for n in graph.around(at))


def _joined(graph: ClusterGraph, node: int, kinds: Mapping[int, Hashable]) -> int | None:
    """The node that this one became part of, if any could take it."""
    if kinds[node] is None:
        return None
    alike = (n for n in graph.before(node) if kinds[n] == kinds[node])
    return next((n for n in alike if graph.contract(n, node)), None)
