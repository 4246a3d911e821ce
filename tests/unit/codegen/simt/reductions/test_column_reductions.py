"""Reductions of columns, and several reductions in one kernel: right, wide accesses, no spills."""

import pytest

from tests.unit.codegen.simt.reductions.test_row_reductions import reduction
from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.compiler import CudaCompiler
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

CASES = {
    "a warp of vectors": reduction("add", "f32", "70,256", "256", "0", "2"),
    "more blocks side by side": reduction("maximum", "f32", "33,700", "700", "0"),
    "few columns": reduction("add", "f32", "500,12", "12", "0"),
    "one odd column": reduction("add", "f32", "3,500,5", "3,5", "1"),
    "sums of bf16": reduction("add", "bf16", "40,264", "264", "0"),
    "f16, of odd width": reduction("maximum", "f16", "33,33", "33", "0", "-1"),
    "f64": reduction("add", "f64", "100,64", "64", "0"),
    "s8": reduction("multiply", "s8", "9,80", "80", "0", "1"),
    "pred": reduction("or", "pred", "30,50", "50", "0", "false"),
    "s4": reduction("add", "s4", "24,96", "96", "0"),
    "batch normalisation": reduction("add", "f32", "2,9,10,24", "24", "0,1,2"),
    "between dimensions that stay": reduction("add", "f32", "5,11,3,13,8", "5,3,8", "1,3"),
    "tall ones in parts": reduction("add", "f32", "9000,40", "40", "0", "1"),
    "tall ones in many parts": reduction("minimum", "s32", "20000,3", "3", "0", "5"),
}

TOGETHER = """
plus { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
most { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y) }
ENTRY e {
  x = f32[DIMS] parameter(0)
  z = f32[] constant(0)
  n = f32[] constant(-inf)
  q = f32[DIMS] multiply(x, x)
  s = f32[KEPT] reduce(x, z), dimensions={REDUCED}, to_apply=plus
  t = f32[KEPT] reduce(q, z), dimensions={REDUCED}, to_apply=plus
  m = f32[KEPT] reduce(x, n), dimensions={REDUCED}, to_apply=most
  ROOT r = (f32[KEPT], f32[KEPT], f32[KEPT]) tuple(s, t, m)
}"""

STORING = """
plus { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
ENTRY e {
  x = f32[DIMS] parameter(0)
  z = f32[] constant(0)
  q = f32[DIMS] exponential(x)
  s = f32[KEPT] reduce(q, z), dimensions={REDUCED}, to_apply=plus
  ROOT r = (f32[DIMS], f32[KEPT]) tuple(q, s)
}"""


def together(dims: str, kept: str, reduced: str, text: str = TOGETHER) -> str:
    """Several results from the same elements."""
    return text.replace("DIMS", dims).replace("KEPT", kept).replace("REDUCED", reduced)


SEVERAL = {
    "rows": (together("20,300", "20", "1"), "row reduction"),
    "columns": (together("300,20", "20", "0"), "column reduction"),
    "parts of columns": (together("9000,20", "20", "0"), "column reduction"),
    "all in parts": (together("99,177", "", "0,1"), "row reduction"),
    "rows that are stored": (together("20,300", "20", "1", STORING), "row reduction"),
    "parts of rows that are stored": (together("2,9999", "2", "1", STORING), "row reduction"),
}


def strictly(text: str, emulated: str) -> None:
    """Compares with the evaluator; nothing may run elsewhere."""
    module = parse_module(text)
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize("name", CASES)
def test_columns_are_reduced(name, emulated):
    spec = KernelSpec("kernel", parse_module(CASES[name]).entry)
    assert kind_of(spec).name == "column reduction"
    strictly(CASES[name], emulated)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results_are_one_kernel(name, emulated):
    text, kind = SEVERAL[name]
    formed = CudaCompiler().form_kernels(parse_module(text))
    kernels = [i for i in formed.entry.instructions if i.opcode == "fusion"]
    assert [kind_of(KernelSpec("kernel", k["calls"])).name for k in kernels] == [kind]
    strictly(text, emulated)


def test_reductions_in_order_have_kernels_of_their_own(emulated):
    text = together("20,300", "20", "1").replace("maximum(x, y)", "subtract(x, y)")
    formed = CudaCompiler().form_kernels(parse_module(text))
    assert sum(i.opcode in ("fusion", "reduce") for i in formed.entry.instructions) == 2


def test_tall_columns_are_two_launches():
    def launches(name: str) -> int:
        return len(kind_of(KernelSpec("kernel", parse_module(CASES[name]).entry)).stages)

    assert launches("a warp of vectors") == 1
    assert launches("tall ones in parts") == launches("tall ones in many parts") == 2


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("name", ["tall ones in parts", "tall ones in many parts"])
def test_they_assemble_without_spills(name, stage, assembled):
    found = assembled(CASES[name], stage=stage)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 48


def test_neighbouring_columns_are_read_together():
    ptx = ptx_of(CASES["a warp of vectors"])
    assert "ld.global.nc.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx
    assert "st.shared.v4.b32" in ptx or "st.shared.v4.f32" in ptx
