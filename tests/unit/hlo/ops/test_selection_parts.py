"""What select-and-scatter selects, and where it adds."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.selection_parts import SelectionParts
from xladev.hlo.text import parse_module

HEAD = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
larger { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=GE }
"""


def root(text: str) -> HloInstruction:
    return parse_module(f"{HEAD}ENTRY e {{ {text} }}").entry.root


def test_a_select_and_scatter() -> None:
    i = root(
        """x = f32[4,6] parameter(0)  s = f32[4,5] parameter(1)  z = f32[] constant(0)
        ROOT r = f32[4,6] select-and-scatter(x, s, z), window={size=1x2}, select=larger,
          scatter=add"""
    )
    parts = SelectionParts.of(i)
    assert (parts.operand, parts.source, parts.init) == i.operands
    assert (parts.select.name, parts.scatter.name) == ("larger", "add")
    assert parts.extents == (1, 2)
