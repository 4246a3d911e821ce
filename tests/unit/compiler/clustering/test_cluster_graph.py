"""Contraction of edges against a search of the whole graph."""

from __future__ import annotations

import random

import pytest

from xladev.compiler.clustering.cluster_graph import ClusterGraph


class Plain:
    """The same graph, in which every question is answered by looking at all of it."""

    def __init__(self, before: dict[int, set[int]]) -> None:
        self.before = {node: set(found) for node, found in before.items()}

    def contract(self, first: int, second: int) -> bool:
        merged: dict[int, set[int]] = {}
        for node, found in self.before.items():
            home = first if node == second else node
            kept = {first if n == second else n for n in found}
            merged.setdefault(home, set()).update(kept - {home})
        if not is_acyclic(merged):
            return False
        self.before = merged
        return True


def is_acyclic(before: dict[int, set[int]]) -> bool:
    left = dict(before)
    while left:
        ready = [node for node, found in left.items() if not found & left.keys()]
        if not ready:
            return False
        for node in ready:
            del left[node]
    return True


@pytest.mark.parametrize("round", range(20))
def test_contracts_what_closes_no_cycle(round: int, seed: int) -> None:
    chance = random.Random(f"{seed} {round}")
    size = chance.randint(3, 14)
    before = {
        node: {n for n in range(node) if chance.random() < chance.choice([0.15, 0.5])}
        for node in range(size)
    }
    graph, plain = ClusterGraph(before), Plain(before)
    for _ in range(60):
        edges = [(first, node) for node in graph.ordered() for first in graph.before(node)]
        if not edges:
            break
        first, second = chance.choice(edges)
        assert graph.contract(first, second) == plain.contract(first, second), (before, edges)
        place = {node: at for at, node in enumerate(graph.ordered())}
        assert {node: set(graph.before(node)) for node in place} == plain.before
        assert all(place[n] < place[node] for node in place for n in graph.before(node))


def test_gives_up_a_search_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xladev.compiler.clustering.cluster_graph._BUDGET", 3)
    wide = {0: set[int](), **{n: {0} for n in range(1, 9)}, 9: {0}}
    assert not ClusterGraph(wide).contract(0, 9)
    monkeypatch.setattr("xladev.compiler.clustering.cluster_graph._BUDGET", 30)
    assert ClusterGraph(wide).contract(0, 9)


def test_what_is_around_a_node_is_gone_with_it() -> None:
    graph = ClusterGraph({0: set(), 1: {0}, 2: {1}})
    assert graph.around(0) == [0, 1]
    assert graph.contract(0, 1)
    assert (graph.around(0), graph.around(1), graph.ordered()) == ([0, 2], [], [0, 2])
