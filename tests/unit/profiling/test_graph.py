"""Graphs: layouts keep the order of a program, pages hold all of it and load nothing else."""

from __future__ import annotations

import json
import random
import re
from importlib.util import find_spec
from typing import Any
from xml.etree import ElementTree

import pytest

from xladev.errors import ArgumentError
from xladev.hlo.text import parse_module
from xladev.profiling.graph import layout
from xladev.profiling.graph.colours import with_times
from xladev.profiling.graph.html import html_page
from xladev.profiling.graph.layout import GraphLayout, layered
from xladev.profiling.graph.model import Colouring, MeasuredNode, graph_data
from xladev.profiling.graph.shades import COLOURS, shades
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


def _check(count: int, edges: list[tuple[int, int]], found: GraphLayout, *, bends: bool) -> None:
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
    (data,) = json.loads(found[1])["programs"]
    assert data["computations"][data["entry"]]["nodes"][1]["op"] == "f/</script>"
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)


def test_a_picture_has_every_instruction() -> None:
    picture = svg_picture(graph_data(parse_module(PROGRAM)))
    meanings = 3  # by colour: elementwise; reduce; parameter, broadcast
    assert picture.count("<rect") == 1 + 5 + 3 + meanings
    assert picture.count("<path") == 5 + 2
    assert "reduce (0.5)" in picture


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "<!--<script>", "@DATA@", "\x01\u2028 ü 漢 ]]>"]
)
def test_names_cannot_break_a_page_or_a_picture(name: str) -> None:
    module = parse_module(PROGRAM)
    data = graph_data(module)
    data["computations"][data["entry"]]["nodes"][1] |= {"name": name, "op": name}
    page = html_page([data], name)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert "<" not in found[1]
    (read,) = json.loads(found[1])["programs"]
    assert read["computations"][read["entry"]]["nodes"][1]["op"] == name
    assert page.count("<script") == 2
    root = ElementTree.fromstring(svg_picture(data))
    assert len(root) > 10


def _trace(*slices: dict[str, Any]) -> dict[str, Any]:
    return {"traceEvents": [{"ph": "X", "dur": 2.0, "ts": 0, **each} for each in slices]}


def test_times_of_a_trace() -> None:
    module = parse_module(PROGRAM)
    of_p = {"args": {"hlo_op": "p", "hlo_module": "m"}}
    fused = {"args": {"hlo_op": "s.fusion", "hlo_module": "m", "fused": "s q zero"}}
    other = {"args": {"hlo_op": "r", "hlo_module": "other"}}
    damaged = [{"args": []}, {"args": {"hlo_op": 3}}, {"name": "r", "dur": "x", "cat": "kernel"}]
    document = _trace(of_p, of_p, fused, other, *damaged)
    document["traceEvents"] += [None, 7]
    known = with_times(Colouring(), document, module)
    times = {name: (round(m.seconds * 1e6), m.count) for name, m in known.times.items()}
    assert times == {"p": (4, 2), "s": (2, 1), "q": (2, 1), "zero": (2, 1)}
    assert known.fusions["q"] == "s.fusion"
    (entry,) = (c for c in graph_data(module, known)["computations"] if c["name"] == "e")
    assert [node.get("runs") for node in entry["nodes"]] == [None, 2, 1, 1, None]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (_trace({"args": {"hlo_op": "p", "hlo_module": "other"}}), "of other\n.*record one of m"),
        (_trace({"args": {"hlo_op": "fusion.9", "hlo_module": "m"}}), "other ones.*\n.*--platform"),
        ({"traceEvents": []}, "no kernels"),
        ({"traceEvents": {}}, "no kernels"),
    ],
)
def test_the_trace_of_another_program(document: dict[str, Any], why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        with_times(Colouring(), document, parse_module(PROGRAM))


def test_each_way_of_colouring_has_a_legend() -> None:
    known = Colouring(
        {"p": MeasuredNode(2e-6, 1)},
        devices={"p": "npu", "r": "cpu"},
        fusions={"p": "k1", "s": "k2"},
    )
    data = graph_data(parse_module(PROGRAM), known)
    expected = {"device": {"npu", "cpu"}, "fusion": {"k1", "k2"}}
    for by in COLOURS:
        colour, meanings = shades(data, by)
        assert {name for name, _ in meanings} >= expected.get(by, set())
        nodes = data["computations"][data["entry"]]["nodes"]
        assert len({colour(node) for node in nodes}) > 1
        if by in ("opcode", "device", "fusion"):
            assert colour(nodes[1]) in {shade for _, shade in meanings}
        assert f"colour by {by}:" in svg_picture(data, by)
    assert dict(shades(data, "time")[1])["2 us"] == shades(data, "time")[0]({"time": 2e-6})
