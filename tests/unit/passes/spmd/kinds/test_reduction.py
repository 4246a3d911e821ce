"""Reductions of several arrays along a dimension that is cut."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

REDUCERS = {
    "argmax": """pick {
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT  n = pred[] compare(a, a), direction=NE
  p = pred[] or(g, n)  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT  t = pred[] and(e, l)  q = pred[] or(p, t)
  v = f32[] select(p, a, b)  k = s32[] select(q, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }""",
    "sums": """pick {
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  v = f32[] add(a, b)  k = s32[] maximum(j, i)  ROOT r = (f32[], s32[]) tuple(v, k) }""",
    "unknown": """pick {
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  v = f32[] add(a, b)  k = s32[] add(i, j)  m = s32[] negate(k)  o = s32[] negate(m)
  ROOT r = (f32[], s32[]) tuple(v, o) }""",
}


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry.instructions]


def program(
    name: str, size: int, dims: str = "1", inits: tuple[str, str] = ("-inf", "0")
) -> HloModule:
    rows = "3" if dims == "1" else ""
    cut = "sharding={devices=[1,4]<=[4]}" if dims == "1" else "sharding={devices=[2,2]<=[4]}"
    return parse_module(f"""HloModule m, num_partitions=4
{REDUCERS[name]}
ENTRY e {{
  x = f32[3,{size}] parameter(0), {cut}
  i = s32[3,{size}] iota(), iota_dimension=1
  z = f32[] constant({inits[0]})  o = s32[] constant({inits[1]})
  ROOT r = (f32[{rows}], s32[{rows}]) reduce(x, i, z, o), dimensions={{{dims}}}, to_apply=pick
}}""")


def values(size: int) -> np.ndarray:  # type: ignore[type-arg]
    rows = np.random.default_rng(3).integers(-4, 5, (3, size)).astype(np.float32)
    rows[1, size // 2 :: 2] = np.nan
    rows[2] = -np.inf
    return rows


@pytest.mark.parametrize("size", [8, 11, 5, 64])
@pytest.mark.parametrize("name", ["argmax", "sums"])
def test_pairs(name: str, size: int) -> None:
    """Parts are reduced where they lie; five elements leave the last device none."""
    made = check(program(name, size), [values(size)], 4).module
    gathered = [i for i in made.entry.instructions if i.opcode == "all-gather"]
    assert [i.shape.dims for i in gathered] == [(4, 3), (4, 3)]


@pytest.mark.parametrize("inits", [("2", "77"), ("nan", "-1"), ("-inf", "5")])
def test_initial_values_take_part(inits: tuple[str, str]) -> None:
    check(program("argmax", 11, inits=inits), [values(11)], 4)
    finite = np.nan_to_num(values(11), neginf=-9)
    check(program("sums", 11, inits=inits), [finite], 4)


@pytest.mark.parametrize("name", ["argmax", "sums"])
def test_over_two_dimensions(name: str) -> None:
    rows = np.random.default_rng(4).permutation(33).reshape(3, 11).astype(np.float32)
    made = check(program(name, 11, "0,1"), [rows], 4).module
    assert opcodes(made).count("all-gather") == 2


def test_unknown_reducers_get_the_whole() -> None:
    made = check(program("unknown", 8, inits=("0", "0")), [values(8)], 4).module
    assert (4, 3) not in [i.shape.dims for i in made.entry.instructions]
