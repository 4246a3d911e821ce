"""Graphs: layouts keep the order of a program, pages hold all of it and load nothing else."""

from __future__ import annotations

import json
import random
import re
from importlib.util import find_spec

import pytest

from xladev.hlo.text import parse_module
from xladev.profiling.graph import layout
from xladev.profiling.graph.html import html_page
from xladev.profiling.graph.layout import Layout, layered
from xladev.profiling.graph.model import graph_data
from xladev.profiling.graph.svg import svg_picture

PROGRAM = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  zero = f32[] constant(0.5)
  p = f32[4,8] exponential(x), metadata={op_name="f/</script>" source_file="f.py" source_line=3}
  s = f32[4] reduce(p, zero), dimensions={1}, to_apply=add
  q = f32[4,8] broadcast(s), dimensions={0}
  ROOT r = f32[4,8] divide(p, q)
}
"""
needs_library = pytest.mark.skipif(
    find_spec("fast_sugiyama") is None, reason="fast-sugiyama is not installed"
)


def _random_edges(count: int, seed: int) -> list[tuple[int, int]]:
    chance = random.Random(seed)
    pairs = {(chance.randrange(b), b) for b in range(1, count) for _ in range(chance.randrange(3))}
    return sorted(pairs)


def _check(count: int, edges: list[tuple[int, int]], found: Layout, *, bends: bool) -> None:
    row = {item: at for at, items in enumerate(found.rows) for item, _ in items}
    assert set(range(count)) <= set(row)
    assert sum(len(items) for items in found.rows) == len(row)
    for (above, below), route in zip(edges, found.routes, strict=True):
        way = [row[above], *(row[bend] for bend in route), row[below]]
        assert way == sorted(set(way))
        assert bends or len(way) == 2
    for items in found.rows:
        xs = [x for _, x in items]
        assert all(b - a > 0.4 for a, b in zip(xs, xs[1:], strict=False))


@needs_library
@pytest.mark.parametrize("case", range(12))
def test_edges_lead_down(case: int, seed: int) -> None:
    count = (1, 2, 9, 60)[case % 4]
    edges = _random_edges(count, seed + case)
    _check(count, edges, layered(count, edges), bends=True)


def test_without_the_library_nodes_stand_by_their_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_library", lambda: None)
    edges = _random_edges(50, 1)
    _check(50, edges, layered(50, edges), bends=False)


def test_constants_stand_in_their_users() -> None:
    data = graph_data(parse_module(PROGRAM))
    entry = data["computations"][data["entry"]]
    assert [n["name"] for n in entry["nodes"]] == ["x", "p", "s", "q", "r"]
    reduce = entry["nodes"][2]
    assert reduce["given"] == ["", "0.5"]
    assert [data["computations"][n]["name"] for n in reduce["calls"]] == ["add"]
    assert entry["nodes"][1]["source"] == "f.py:3"
    assert data["flops"] == 64


def test_a_page_holds_its_data_and_refers_to_nothing() -> None:
    page = html_page([graph_data(parse_module(PROGRAM))], "a < b")
    assert "<title>a &lt; b</title>" in page
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    (data,) = json.loads(found[1])
    assert data["computations"][data["entry"]]["nodes"][1]["op"] == "f/</script>"
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)


def test_a_picture_has_every_instruction() -> None:
    picture = svg_picture(graph_data(parse_module(PROGRAM)))
    assert picture.count("<rect") == 1 + 5 + 3
    assert picture.count("<path") == 5 + 2
    assert "reduce (0.5)" in picture
