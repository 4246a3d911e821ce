"""What reduce and reduce-window combine."""

from __future__ import annotations

from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reduction_parts import ReductionParts
from xladev.hlo.text import parse_module

HEAD = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
both { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)
  j = s32[] parameter(3)  c = f32[] add(a, b)  k = s32[] add(i, j)
  ROOT t = (f32[], s32[]) tuple(c, k) }
"""


def root(text: str) -> HloInstruction:
    return parse_module(f"{HEAD}ENTRY e {{ {text} }}").entry.root


def test_a_reduce_of_two_arrays() -> None:
    i = root(
        """x = f32[2,3,4] parameter(0)  n = s32[2,3,4] parameter(1)  z = f32[] constant(0)
        m = s32[] constant(0)  ROOT r = (f32[3], s32[3]) reduce(x, n, z, m), dimensions={2,0},
          to_apply=both"""
    )
    parts = ReductionParts.of(i)
    assert [a.name for a in parts.arrays] == ["x", "n"]
    assert [a.name for a in parts.inits] == ["z", "m"]
    assert (parts.dims, parts.kept, parts.window) == ((2, 0), (1,), ())
    assert parts.reducer.name == "both"


def test_a_reduce_window() -> None:
    i = root(
        """x = f32[4,6] parameter(0)  z = f32[] constant(0)
        ROOT r = f32[4,5] reduce-window(x, z), window={size=1x2}, to_apply=add"""
    )
    parts = ReductionParts.of(i)
    assert (parts.dims, parts.window) == ((), (WindowDim(1), WindowDim(2)))
    assert parts.arrays == i.operands[:1] and parts.inits == i.operands[1:]
