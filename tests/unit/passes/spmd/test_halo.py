"""Halos: ranges that reach into neighbours' parts, and beyond the ends of the array."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.spmd.halo import Ranges

CUT = "sharding={devices=[4]<=[4]}"
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def test_who_needs_what() -> None:
    ranges = Ranges((-1, 1, 3, 5), 4, 2, 8)  # parts of two, and one more on either side
    assert list(ranges.distances) == [-1, 0, 1]
    assert ranges.sources(-1) == [(0, 1), (1, 2), (2, 3)]
    assert ranges.sources(1) == [(1, 0), (2, 1), (3, 2)]
    assert ranges.window(-1) == (1, 2) and ranges.window(1) == (0, 1)
    assert (ranges.sent, ranges.joined) == (6, 24) and not ranges.are_inside
    assert Ranges((0, 2), 2, 2, 4).are_inside
    assert list(Ranges((0, 2), 2, 2, 4).distances) == [0]


def test_only_what_is_of_use_is_sent() -> None:
    """The first place needs what the second one has; what the others would get is padding."""
    ranges = Ranges((2, 4, 6, 8), 2, 2, 8, used=(1, 0, 0, 0))
    assert ranges.sent == 1 and ranges.pieces == 1
    assert Ranges((2, 4, 6, 8), 2, 2, 8).sent == 6


def opcodes(module: HloModule) -> set[str]:
    return {i.opcode for i in module.entry.instructions}


@pytest.mark.parametrize("size", [8, 10, 11])
@pytest.mark.parametrize(
    ("lines", "result"),
    [
        ("ROOT r = f32[{r}] slice(x), slice={{[1:{n}]}}", -1),
        ("ROOT r = f32[{r}] pad(x, z), padding=1_0", 1),
        ("ROOT r = f32[{r}] pad(x, z), padding=2_1", 3),
        ("ROOT r = f32[{r}] pad(x, z), padding=-1_1", 0),
        ("ROOT r = f32[{r}] reduce-window(x, z), window={{size=3 pad=1_1}}, to_apply=add", 0),
        ("ROOT r = f32[{r}] reduce-window(x, z), window={{size=2 pad=1_0}}, to_apply=add", 0),
        ("ROOT r = f32[{r}] reduce-window(x, z), window={{size=2 rhs_dilate=2 pad=2_0}}, "
         "to_apply=add", 0),
    ],
)  # fmt: skip
def test_neighbours_are_enough(lines: str, result: int, size: int) -> None:
    text = lines.format(n=size, r=size + result)
    module = parse_module(f"""HloModule m, num_partitions=4
{ADD}
ENTRY e {{
  x = f32[{size}] parameter(0), {CUT}
  z = f32[] constant(7)
  {text}, {CUT}
}}""")
    program = check(module, [np.arange(1, size + 1, dtype=np.float32)], 4)
    made = opcodes(program.module)
    assert "collective-permute" in made and "all-gather" not in made


@pytest.mark.parametrize(("size", "wanted"), [(16, True), (14, False)])
def test_reverse(size: int, wanted: bool) -> None:
    module = parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[{size}] parameter(0), {CUT}
  ROOT r = f32[{size}] reverse(x), dimensions={{0}}, {CUT}
}}""")
    made = check(module, [np.arange(size, dtype=np.float32)], 4).module
    permutes = [i for i in made.entry.instructions if i.opcode == "collective-permute"]
    assert (len(permutes) == 1) == wanted


@pytest.mark.parametrize("second", [1, 3, 8])
def test_concatenate(second: int) -> None:
    module = parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[16] parameter(0), {CUT}
  y = f32[{second}] parameter(1), {CUT}
  ROOT r = f32[{16 + second}] concatenate(x, y), dimensions={{0}}, {CUT}
}}""")
    whole = np.arange(16 + second, dtype=np.float32)
    check(module, [whole[:16], whole[16:]], 4)


@pytest.mark.parametrize(
    "window",
    ["size=3 pad=1_1", "size=5 pad=2_2", "size=3 stride=2 pad=1_1", "size=3 pad=2_0 rhs_reversal=1",
     "size=3 pad=1_1 lhs_dilate=2"],
)  # fmt: skip
def test_convolution(window: str) -> None:
    place = "sharding={devices=[1,1,4]<=[4]}"
    size = {"stride": 8, "lhs_dilate": 31}.get(
        next((word for word in ("stride", "lhs_dilate") if word in window), ""), 16
    )
    module = parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[2,3,16] parameter(0), {place}
  k = f32[4,3,{window[5]}] parameter(1)
  ROOT r = f32[2,4,{size}] convolution(x, k), window={{{window}}}, dim_labels=bf0_oi0->bf0, {place}
}}""")
    rng = np.random.default_rng(0)
    shapes = [(2, 3, 16), (4, 3, int(window[5]))]
    program = check(module, [rng.standard_normal(s).astype(np.float32) for s in shapes], 4)
    assert "all-gather" not in opcodes(program.module)


def test_where_most_is_needed_the_dimension_is_joined() -> None:
    module = parse_module(f"""HloModule m, num_partitions=4
{ADD}
ENTRY e {{
  x = f32[16] parameter(0), {CUT}
  z = f32[] constant(0)
  ROOT r = f32[16] reduce-window(x, z), window={{size=16 pad=15_0}}, to_apply=add, {CUT}
}}""")
    made = opcodes(check(module, [np.ones(16, np.float32)], 4).module)
    assert "all-gather" in made and "collective-permute" not in made
