"""Transposes in registers: the evaluator's results, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits
from xladev.testing.random_inputs import random_arguments

PROGRAMS = {
    "even": """x = f32[64,48] parameter(0)
  ROOT r = f32[48,64] transpose(x), dimensions={1,0}""",
    "odd": """x = f32[37,51] parameter(0)
  ROOT r = f32[51,37] transpose(x), dimensions={1,0}""",
    "integers": """x = s32[16,100] parameter(0)
  ROOT r = s32[100,16] transpose(x), dimensions={1,0}""",
    "narrow": """x = bf16[64,80] parameter(0)
  ROOT r = bf16[80,64] transpose(x), dimensions={1,0}""",
    "short": """x = f32[9,80] parameter(0)
  ROOT r = f32[80,9] transpose(x), dimensions={1,0}""",
    "three planes": """x = f32[2,3,100,90] parameter(0)
  ROOT r = f32[2,100,90,3] transpose(x), dimensions={0,2,3,1}""",
    "two planes": """x = s32[2,37] parameter(0)
  ROOT r = s32[37,2] transpose(x), dimensions={1,0}""",
    "fifteen planes": """x = f32[15,16] parameter(0)
  ROOT r = f32[16,15] transpose(x), dimensions={1,0}""",
    "planes that are scaled": """x = f32[3,5,70] parameter(0)  s = f32[3] parameter(1)
  b = f32[5,70,3] broadcast(s), dimensions={2}  t = f32[5,70,3] transpose(x), dimensions={1,2,0}
  ROOT r = f32[5,70,3] multiply(t, b)""",
    "planes of lines apart": """x = f32[3,40,5] parameter(0)
  ROOT r = f32[40,5,3] transpose(x), dimensions={1,2,0}""",
    "lines between planes": """x = f32[3,4,50] parameter(0)
  ROOT r = f32[50,4,3] transpose(x), dimensions={2,1,0}""",
    "narrow planes": """x = bf16[3,90] parameter(0)
  ROOT r = bf16[90,3] transpose(x), dimensions={1,0}""",
    "inner dimensions": """x = f32[3,40,5,33] parameter(0)
  ROOT r = f32[33,3,5,40] transpose(x), dimensions={3,0,2,1}""",
    "reshaped": """x = f32[4,20,70] parameter(0)
  t = f32[70,4,20] transpose(x), dimensions={2,0,1}
  ROOT r = f32[70,80] reshape(t)""",
    "narrow and reshaped": """x = bf16[4,20,70] parameter(0)
  t = bf16[70,4,20] transpose(x), dimensions={2,0,1}
  ROOT r = bf16[70,80] reshape(t)""",
    "reshaped columns": """x = f32[64,40]{0,1} parameter(0)
  ROOT r = f32[32,80] reshape(x)""",
    "columns": """x = f32[50,40]{0,1} parameter(0)
  ROOT r = f32[50,40] negate(x)""",
    "with a row": """x = f32[48,40] parameter(0)
  b = f32[48] parameter(1)
  t = f32[40,48] transpose(x), dimensions={1,0}
  w = f32[40,48] broadcast(b), dimensions={1}
  ROOT r = f32[40,48] add(t, w)""",
    "with a column": """x = f32[48,40] parameter(0)
  b = f32[40] parameter(1)
  t = f32[40,48] transpose(x), dimensions={1,0}
  w = f32[40,48] broadcast(b), dimensions={0}
  ROOT r = f32[40,48] multiply(t, w)""",
    "with what is along it": """x = f32[48,40] parameter(0)
  y = f32[40,48] parameter(1)
  t = f32[40,48] transpose(x), dimensions={1,0}
  ROOT r = f32[40,48] subtract(t, y)""",
    "large": """x = f32[700,530] parameter(0)
  ROOT r = f32[530,700] transpose(x), dimensions={1,0}""",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("threads", [1, 3])
def test_transposes_agree_with_the_evaluator(name: str, threads: int) -> None:
    module = parse_module(f"HloModule m\nENTRY e {{ {PROGRAMS[name]} }}")
    arguments = random_arguments(module, 5)
    options = CompileOptions(strict=True, threads=threads)
    found = np.asarray(compile(module, "cpu", options)(*arguments))
    assert found.tobytes() == np.asarray(HloEvaluator().run(module, *arguments)).tobytes()


@pytest.mark.parametrize("dtype", [
    "pred", "s8", "u16", "s64", "f64", "bf16", "f16", "f8e4m3fn", "f8e5m2", "s4", "c64", "c128",
])  # fmt: skip
@pytest.mark.parametrize("body", [
    "ROOT r = {t}[37,70] transpose(x), dimensions={{1,0}}",
    "y = {t}[37,70] transpose(x), dimensions={{1,0}}  ROOT r = pred[37,70] compare(y, y), "
    "direction=NE",
    "y = {t}[37,70] transpose(x), dimensions={{1,0}}  ROOT r = {t}[37,70] add(y, y)",
    "y = {t}[37,70] transpose(x), dimensions={{1,0}}  ROOT r = c64[37,70] convert(y)",
])  # fmt: skip
def test_elements_of_all_sizes_are_transposed(dtype: str, body: str) -> None:
    if dtype == "pred" and "add" in body:
        body = body.replace("add", "xor")
    text = f"x = {dtype}[70,37] parameter(0)  {body.format(t=dtype)}"
    module = parse_module(f"HloModule m\nENTRY e {{ {text} }}")
    arguments = random_arguments(module, 5)
    found = np.asarray(compile(module, "cpu", CompileOptions(strict=True))(*arguments))
    assert found.tobytes() == np.asarray(HloEvaluator().run(module, *arguments)).tobytes()


@pytest.mark.parametrize(("planes", "is_interleaved"), [(3, True), (15, True), (1, False)])
def test_few_planes_are_interleaved_in_registers(planes: int, is_interleaved: bool) -> None:
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{planes},900] parameter(0)
      ROOT r = f32[900,{planes}] transpose(x), dimensions={{1,0}} }}""")
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    assert ("shufflevector" in str(builder)) == is_interleaved
