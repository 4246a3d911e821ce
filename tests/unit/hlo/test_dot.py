"""Graphs name every instruction and edge, whatever characters names hold."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from xladev.hlo.dot import module_to_dot
from xladev.hlo.text import parse_module

TEXT = """HloModule m
add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q) }
ENTRY e { x = f32[4] parameter(0)
  c = f32[] constant(2.5)
  s = f32[] reduce(x, c), dimensions={0}, to_apply=add, metadata={source_file="a\\"b" source_line=7}
  ROOT t = (f32[], f32[4]) tuple(s, x), control-predecessors={c} }
"""


def test_nodes_and_edges() -> None:
    dot = module_to_dot(parse_module(TEXT))
    assert len(re.findall(r"^ +n\d+ \[label=", dot, re.MULTILINE)) == 7
    solid = [line for line in dot.splitlines() if "->" in line and "style" not in line]
    assert len(solid) == 2 + 2 + 2
    assert dot.count("style=dashed") == 1
    assert dot.count("style=dotted") == 1
    assert "2.5" in dot
    assert "ENTRY e" in dot


def test_quotes_are_escaped() -> None:
    dot = module_to_dot(parse_module(TEXT))
    for line in dot.splitlines():
        assert re.sub(r"\\.", "", line).count('"') % 2 == 0


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not installed")
def test_graphviz_accepts_it() -> None:
    dot = module_to_dot(parse_module(TEXT))
    subprocess.run(["dot", "-Tsvg"], input=dot.encode(), check=True, capture_output=True)
