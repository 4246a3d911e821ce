"""Cuts against all cuts there are, and against SciPy's flows on larger graphs."""

import itertools
import random

import pytest

from tests.tools.profiled_calls import calls
from xladev.compiler.placement.min_cut import CutGraph

Edge = tuple[int, int, int, int]


def cost(sides: list[bool], ends: list[tuple[int, int]], edges: list[Edge]) -> int:
    total = sum(sink if side else source for side, (source, sink) in zip(sides, ends, strict=True))
    for tail, head, there, back in edges:
        if sides[tail] and not sides[head]:
            total += there
        if sides[head] and not sides[tail]:
            total += back
    return total


def random_graph(
    seed: int, nodes: int, edges: int
) -> tuple[CutGraph, list[tuple[int, int]], list[Edge]]:
    rng, graph = random.Random(seed), CutGraph()
    ends = [(rng.randrange(12), rng.randrange(12)) for _ in range(nodes)]
    between = [
        (*rng.sample(range(nodes), 2), rng.randrange(9), rng.randrange(9)) for _ in range(edges)
    ]
    for source, sink in ends:
        graph.terminals(graph.node(), source, sink)
    for edge in between:
        graph.edge(*edge)
    return graph, ends, between


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_cheaper(seed: int) -> None:
    nodes = 2 + seed % 7
    graph, ends, edges = random_graph(seed, nodes, 3 * nodes)
    found = cost(graph.cut(), ends, edges)
    every = itertools.product([False, True], repeat=nodes)
    assert found == min(cost(list(sides), ends, edges) for sides in every)


@pytest.mark.parametrize("seed", range(5))
def test_as_scipy_has_it(seed: int) -> None:
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    sparse = pytest.importorskip("scipy.sparse")
    nodes = 300
    graph, ends, edges = random_graph(seed, nodes, 900)
    matrix = sparse.lil_matrix((nodes + 2, nodes + 2), dtype="int32")
    for node, (source, sink) in enumerate(ends):
        matrix[nodes, node] += source
        matrix[node, nodes + 1] += sink
    for tail, head, there, back in edges:
        matrix[tail, head] += there
        matrix[head, tail] += back
    want = csgraph.maximum_flow(matrix.tocsr(), nodes, nodes + 1).flow_value
    assert cost(graph.cut(), ends, edges) == want


def test_an_empty_graph() -> None:
    assert CutGraph().cut() == []


def test_a_long_chain_is_no_matter_of_depth() -> None:
    graph, count = CutGraph(), 20_000
    nodes = [graph.node() for _ in range(count)]
    graph.terminals(nodes[0], 5, 0)
    graph.terminals(nodes[-1], 0, 5)
    for tail, head in itertools.pairwise(nodes):
        graph.edge(tail, head, 3 if tail == 11_000 else 4)
    sides: list[bool] = []
    work = calls(lambda: sides.extend(graph.cut()))
    assert sides == [node <= 11_000 for node in nodes]
    assert work < 50 * count
