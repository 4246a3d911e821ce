"""The entry of a plan: long runs of steps are split over functions, wherever they are."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import linker

N = 3 * linker.MOST_STEPS + 5


def chain(first: str) -> str:
    """N steps, each a kernel of its own since all of their values are used again."""
    lines = [f"a0 = f32[2] negate({first})"]
    lines += [f"a{i} = f32[2] cosine(a{i - 1})" for i in range(1, N)]
    return "\n  ".join(lines)


STATE = f"({', '.join(['f32[2]'] * N)})"
VALUES = ", ".join(f"a{i}" for i in range(N))
STRAIGHT = f"""HloModule m
ENTRY e {{ p = f32[2] parameter(0)
  {chain("p")}
  ROOT r = {STATE} tuple({VALUES}) }}"""
IN_A_LOOP = f"""HloModule m
c {{ s = (s32[], {STATE}) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)  ROOT t = pred[] compare(i, n), direction=LT }}
b {{ s = (s32[], {STATE}) parameter(0)  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(1)  j = s32[] add(i, k)  v = {STATE} get-tuple-element(s), index=1
  x = f32[2] get-tuple-element(v), index={N - 1}
  {chain("x")}
  w = {STATE} tuple({VALUES})  ROOT r = (s32[], {STATE}) tuple(j, w) }}
ENTRY e {{ q = f32[2] parameter(0)  z = s32[] constant(0)
  v = {STATE} tuple({", ".join(["q"] * N)})
  t = (s32[], {STATE}) tuple(z, v)
  l = (s32[], {STATE}) while(t), condition=c, body=b
  ROOT r = {STATE} get-tuple-element(l), index=1 }}"""


@pytest.mark.long
@pytest.mark.parametrize("text", [STRAIGHT, IN_A_LOOP], ids=["straight", "in a loop"])
@pytest.mark.parametrize("level", [0, 2])
def test_long_programs_give_what_the_evaluator_gives(text: str, level: int) -> None:
    module, options = parse_module(text), CompileOptions(optimization_level=level)
    x = np.array([0.5, -2], np.float32)
    got = compile_for(module, "cpu", options)(x)
    want = compile_for(module, "interpreter")(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5)


@pytest.mark.long
def test_no_function_has_more_steps_than_it_may(tmp_path: Path) -> None:
    options = CompileOptions(optimization_level=0, dump_to=str(tmp_path))
    compile_for(parse_module(IN_A_LOOP), "cpu", options)
    (text,) = [p.read_text() for p in tmp_path.glob("*.ll") if "optimized" not in p.name]
    for body in re.findall(r"define [^\n]*@xladev_entry.*?\n}", text, re.S):
        assert len(re.findall(r"call void @(?!xladev.mark)", body)) <= linker.MOST_STEPS + 8


SWAP = """HloModule m
c { s = (s32[], f32[3], f32[3], f32[3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)  ROOT t = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[3], f32[3], f32[3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(1)  j = s32[] add(i, k)  x = f32[3] get-tuple-element(s), index=1
  y = f32[3] get-tuple-element(s), index=2  z = f32[3] get-tuple-element(s), index=3
  ROOT r = (s32[], f32[3], f32[3], f32[3]) tuple(j, y, z, x) }
ENTRY e { p = f32[3] parameter(0)  q = f32[3] parameter(1)  u = f32[3] parameter(2)
  o = s32[] constant(0)  t = (s32[], f32[3], f32[3], f32[3]) tuple(o, p, q, u)
  ROOT l = (s32[], f32[3], f32[3], f32[3]) while(t), condition=c, body=b }"""


def test_copies_in_a_row_have_one_mark(tmp_path: Path) -> None:
    compiled = compile_for(parse_module(SWAP), "cpu", CompileOptions(dump_to=str(tmp_path)))
    (text,) = [p.read_text() for p in tmp_path.glob("*.ll") if "optimized" not in p.name]
    calls = re.findall(r"call void @(llvm.memcpy|xladev.mark)(?:.*i64 (-?\d+), ptr \S+\))?", text)
    kinds = ["copy" if name == "llvm.memcpy" else number for name, number in calls]
    assert kinds.count("copy") >= 3
    assert 0 < kinds.count("-3") < kinds.count("copy")
    given = [np.full(3, n, np.float32) for n in (1, 2, 3)]
    found = [np.asarray(a)[0] for a in compiled(*given)[1:]]
    assert found == [3, 1, 2]
