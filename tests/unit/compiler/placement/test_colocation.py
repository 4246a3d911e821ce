"""What goes together."""

from xladev.compiler.placement.colocation import colocated, colocates
from xladev.hlo.text import parse_module

TEXT = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] sine(x), frontend_attributes={xladev_colocate="one"}
  b = f32[4] negate(a)
  s = (f32[4], f32[4], u32[]) copy-start(b)
  d = f32[4] copy-done(s)
  c = f32[4] cosine(d), frontend_attributes={xladev_colocate="one"}
  ROOT r = f32[4] add(c, d), frontend_attributes={xladev_colocate="two"} }"""


def test_pairs_and_words() -> None:
    entry = parse_module(TEXT).entry
    groups = [[i.name for i in group] for group in colocated(entry.instructions[1:])]
    assert groups == [["a", "c"], ["b"], ["s", "d"], ["r"]]
    assert colocates(entry.instructions)
    assert not colocates(entry.instructions[2:5])
