"""Placed graphs are printed and read back, by the reader and by one of a few lines."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xladev.compiler.placement.notation import PlacedNode, parse_placed, print_placed
from xladev.errors import ParseError

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
INPUTS = st.tuples(NAMES, st.sampled_from(["", ":0", ":12", ":1.0"])).map("".join)
TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(["f32", "npu:0", "8x4", "", 'a"b', "x, y"]))
NODES = st.builds(
    PlacedNode,
    NAMES,
    NAMES,
    st.lists(st.tuples(NAMES, TEXTS), max_size=4).map(tuple),
    st.lists(INPUTS, max_size=4).map(tuple),
    st.lists(NAMES, max_size=3).map(tuple),
)


@given(st.lists(NODES, max_size=5))
def test_what_is_printed_is_read_back(nodes: list[PlacedNode]) -> None:
    text = print_placed(nodes)
    assert parse_placed(text) == tuple(nodes)
    assert [independent(line) for line in text.split("\n") if line] == nodes


ATTRIBUTE = re.compile(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|[^,\]]*)')


def independent(line: str) -> PlacedNode:
    """Written from the grammar alone."""
    name, _, rest = line.partition(" = ")
    op = re.split(r"[\[(]", rest)[0]
    rest, attributes = rest[len(op) :], list[tuple[str, str]]()
    while rest[0] in "[,":
        found = ATTRIBUTE.match(rest, 2 if rest[0] == "," else 1)
        assert found is not None
        value = found[2]
        attributes.append((found[1], json.loads(value) if value.startswith('"') else value))
        rest = rest[found.end() :]
    inputs, _, after = rest.lstrip("]")[1:].partition(")")
    controls = after.removeprefix(" @ ")
    split = [tuple(each.split(", ")) if each else () for each in (inputs, controls)]
    return PlacedNode(name, op, tuple(attributes), *split)


def test_the_line_that_everybody_knows() -> None:
    line = "n121 = Identity[T=f32, device=npu:0](n98) @ n119"
    (node,) = parse_placed(line)
    assert node == PlacedNode(
        "n121", "Identity", (("T", "f32"), ("device", "npu:0")), ("n98",), ("n119",)
    )
    assert str(node) == line


@pytest.mark.parametrize("line", [
    "n1", "n1 = ", "n1 = Op", "n1 = Op(", "n1 = Op(a,b)", "n1 = Op[](a)", "n1 = Op[T](a)",
    "n1 = Op[T=](a)", 'n1 = Op[T="x](a)', 'n1 = Op[T="\\q"](a)', "n1 = Op(a) @", "n1 = Op(a) b",
    "1n = Op(a)", "n1 = Op(a:)",
])  # fmt: skip
def test_lines_that_are_none(line: str) -> None:
    with pytest.raises(ParseError, match="is missing in a placed graph") as caught:
        parse_placed(f"# fine\n{line}\n")
    assert "line 2" in str(caught.value)
