"""Reductions in order: argmax and complex sums, of rows and columns, by blocks and in parts."""

import numpy as np
import pytest

from tests.unit.codegen.simt.reductions.test_row_reductions import reduction
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.random_inputs import random_arguments


def argmax(dims: str, kept: str, reduced: str, dtype: str = "f32", least: str = "-inf") -> str:
    """The greatest element and where it is; of equal ones, the first. NaN is greatest."""
    return f"""
f {{ a = {dtype}[] parameter(0)
  i = s32[] parameter(1)
  b = {dtype}[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT
  n = pred[] compare(a, a), direction=NE
  o = pred[] or(g, n)
  e = pred[] compare(a, b), direction=EQ
  f = pred[] compare(i, j), direction=LT
  t = pred[] and(e, f)
  p = pred[] or(o, t)
  v = {dtype}[] select(o, a, b)
  w = s32[] select(p, i, j)
  ROOT r = ({dtype}[], s32[]) tuple(v, w) }}
ENTRY e {{
  x = {dtype}[{dims}] parameter(0)
  y = s32[{dims}] iota(), iota_dimension={reduced[0]}
  z = {dtype}[] constant({least})
  k = s32[] constant(0)
  ROOT s = ({dtype}[{kept}], s32[{kept}]) reduce(x, y, z, k), dimensions={{{reduced}}}, to_apply=f
}}"""


LAST = """
last { a = s32[] parameter(0)
  i = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  v = s32[] copy(b)
  ROOT r = (s32[], s32[]) tuple(v, i) }
ENTRY e {
  x = s32[DIMS] parameter(0)
  y = s32[DIMS] parameter(1)
  z = s32[] constant(-1)
  ROOT s = (s32[KEPT], s32[KEPT]) reduce(x, y, z, z), dimensions={REDUCED}, to_apply=last
}"""


def last(dims: str, kept: str, reduced: str) -> str:
    """The last element of one array, and what the reduction began with of another."""
    return LAST.replace("DIMS", dims).replace("KEPT", kept).replace("REDUCED", reduced)


CASES = {
    "a block per row": (argmax("5,1000", "5", "1"), "general reduction"),
    "rows shorter than a block": (argmax("300,70", "300", "1"), "general reduction"),
    "rows of bf16": (argmax("3,300", "3", "1", "bf16"), "general reduction"),
    "parts of rows": (argmax("2,20001", "2", "1", "s32", "-5"), "general reduction in parts"),
    "all in parts": (argmax("65537", "", "0"), "general reduction in parts"),
    "columns in parts": (argmax("300,70", "70", "0"), "general column reduction"),
    "columns in the middle": (argmax("2,101,7", "2,7", "1", "f16"), "general column reduction"),
    "order of rows": (last("3,1000", "3", "1"), "general reduction"),
    "order of parts of rows": (last("2,20001", "2", "1"), "general reduction in parts"),
    "order of columns": (last("1000,3", "3", "0"), "general column reduction"),
    "complex sums": (reduction("add", "c64", "5,300", "5", "1", "(1, 0)"), "general reduction"),
    "complex columns": (
        reduction("multiply", "c128", "100,9", "9", "0", "(1, 0)"),
        "general column reduction",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_keep_their_order(name, emulated):
    text, kind = CASES[name]
    module = parse_module(text)
    assert kind_of(KernelSpec("kernel", module.entry)).name == kind
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


def test_of_equal_elements_the_first_is_found(emulated):
    x = np.zeros(65537, np.float32)
    x[[40000, 50000]] = 7
    most, where = run_on_platform(parse_module(CASES["all in parts"][0]), [x], emulated)
    assert (float(most), int(where)) == (7, 40000)
    x[60000] = np.nan
    most, where = run_on_platform(parse_module(CASES["all in parts"][0]), [x], emulated)
    assert np.isnan(most)
    assert int(where) == 60000


def test_what_may_not_be_associative_is_a_loop():
    text = reduction("subtract", "f32", "5,300", "5", "1")
    assert kind_of(KernelSpec("kernel", parse_module(text).entry)).name == "loop"


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("name", ["parts of rows", "columns in parts"])
def test_launches_assemble_without_spills(name, stage, assembled):
    found = assembled(CASES[name][0], stage=stage)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 64
