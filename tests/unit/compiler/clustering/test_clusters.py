"""Clusters of graphs that were counted by hand, and of random ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Set

import pytest

from xladev.compiler.clustering.clusters import form_clusters
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import F32
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array

Graph = Mapping[str, str]
"""Names of the nodes needed, by name; a name's first letter is its kind, x is alone."""

COUNTED: dict[str, tuple[Graph, list[str]]] = {
    "one chain": ({"a1": "", "a2": "a1", "a3": "a2"}, ["a1 a2 a3"]),
    "a foreign one between": ({"a1": "", "x": "a1", "a2": "x"}, ["a1", "x", "a2"]),
    # a1 and a2 are joined by an edge, and by a way through x: one of them must run before x.
    "a cycle in wait": ({"a1": "", "x": "a1", "a2": "a1 x"}, ["a1", "x", "a2"]),
    "beside it": ({"a1": "", "x": "a1", "a2": "a1", "a3": "a2"}, ["a1 a2 a3", "x"]),
    # a2 may go with a1 or with a4: one cluster fewer either way.
    "either side": ({"a1": "", "x": "a1", "a2": "a1", "a4": "x a2"}, ["a1 a2", "x", "a4"]),
    # What enters a late cluster from the side joins it, though it could run at once.
    "late side": ({"a1": "", "x": "a1", "a2": "", "a3": "x a2"}, ["a1", "x", "a2 a3"]),
    "kinds": ({"a1": "", "b1": "a1", "a2": "b1", "b2": "a2"}, ["a1", "b1", "a2", "b2"]),
    # Contracting a1-a2 and b1-b2 both would close a cycle; one of the two is done.
    "crossed kinds": (
        {"a1": "", "b1": "", "a2": "a1 b1", "b2": "b1 a1"}, ["b1", "a1 a2", "b2"]
    ),
    "apart": ({"a1": "", "a2": ""}, ["a1", "a2"]),
    "two foreign ones": (
        {"a1": "", "x": "a1", "a2": "a1", "x2": "a2", "a3": "a2 x", "a4": "a3 x2"},
        ["a1 a2", "x", "x2", "a3 a4"],
    ),
}  # fmt: skip


def instructions(graph: Graph) -> dict[HloInstruction, set[HloInstruction]]:
    """An instruction for each node; what it needs is told beside it."""
    builder = HloBuilder("graph")
    x = builder.parameter(array(F32, ()))
    made = {name: builder.op("negate", x, name=name) for name in graph}
    return {made[name]: {made[n] for n in needed.split()} for name, needed in graph.items()}


def kind(i: HloInstruction) -> str | None:
    return None if i.name[0] == "x" else i.name[0]


@pytest.mark.parametrize("name", COUNTED)
def test_as_counted_by_hand(name: str) -> None:
    graph, wanted = COUNTED[name]
    found = form_clusters(instructions(graph), kind)
    assert len(found) == len(wanted)
    assert sorted(" ".join(i.name for i in cluster) for cluster in found) == sorted(wanted)


@pytest.mark.parametrize("round", range(20))
def test_random_graphs_run_in_order_and_leave_nothing_to_join(round: int, seed: int) -> None:
    chance = random.Random(f"{seed} {round}")
    names = [f"{chance.choice('aabx')}{n}" for n in range(chance.randint(2, 25))]
    graph = {
        name: " ".join(n for n in names[max(0, at - 6) : at] if chance.random() < 0.35)
        for at, name in enumerate(names)
    }
    needs = instructions(graph)
    found = form_clusters(needs, kind)
    home = {i: at for at, cluster in enumerate(found) for i in cluster}
    assert home.keys() == needs.keys()
    assert sum(map(len, found)) == len(needs)
    assert all(home[n] <= home[i] for i, needed in needs.items() for n in needed), graph
    assert all(len({kind(i) for i in cluster}) == 1 for cluster in found)
    assert all(len(cluster) == 1 for cluster in found if kind(cluster[0]) is None)
    for first, second in joined_edges(needs, home):
        if kind(found[first][0]) == kind(found[second][0]) is not None:
            assert has_another_way(needs, home, first, second), graph


def joined_edges(
    needs: Mapping[HloInstruction, Set[HloInstruction]], home: Mapping[HloInstruction, int]
) -> set[tuple[int, int]]:
    return {(home[n], home[i]) for i, needed in needs.items() for n in needed if home[n] != home[i]}


def has_another_way(
    needs: Mapping[HloInstruction, Set[HloInstruction]],
    home: Mapping[HloInstruction, int],
    first: int,
    second: int,
) -> bool:
    edges = joined_edges(needs, home) - {(first, second)}
    reached = {first}
    while True:
        more = {b for a, b in edges if a in reached} - reached
        if not more:
            return second in reached
        reached |= more
