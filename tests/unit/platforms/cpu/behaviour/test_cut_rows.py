"""Rows that are cut where a condition changes, so that pieces of them go in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.sharing import PARALLEL
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

PROGRAMS = {
    "a row rolled": """x = f32[7,100] parameter(0)
      a = f32[7,97] slice(x), slice={[0:7],[3:100]}  b = f32[7,3] slice(x), slice={[0:7],[0:3]}
      c = f32[7,100] concatenate(a, b), dimensions={1}  ROOT r = f32[7,100] negate(c)""",
    "one row rolled": """x = f32[5000] parameter(0)
      a = f32[4990] slice(x), slice={[10:5000]}  b = f32[10] slice(x), slice={[0:10]}
      c = f32[5000] concatenate(a, b), dimensions={0}  ROOT r = f32[5000] negate(c)""",
    "three arrays": """x = f32[7,33] parameter(0)  z = f32[7,50] parameter(1)
      y = f32[7,50] negate(z)
      ROOT c = f32[7,116] concatenate(x, y, x), dimensions={1}""",
    "padding": """x = f32[9,70] parameter(0)  v = f32[] constant(3)
      p = f32[9,90] pad(x, v), padding=0_0x7_13  ROOT r = f32[9,90] negate(p)""",
    "padding that takes away": """x = f32[9,70] parameter(0)  v = f32[] constant(3)
      p = f32[9,80] pad(x, v), padding=0_0x-5_15  ROOT r = f32[9,80] negate(p)""",
    "padding between": """x = f32[9,70] parameter(0)  v = f32[] constant(3)
      p = f32[9,141] pad(x, v), padding=0_0x1_1_1  ROOT r = f32[9,141] negate(p)""",
    "joined twice": """x = f32[3,40] parameter(0)  y = f32[3,21] parameter(1)
      c = f32[3,61] concatenate(x, y), dimensions={1}
      d = f32[3,101] concatenate(c, x), dimensions={1}  ROOT r = f32[3,101] negate(d)""",
    "many pieces": "x = f32[3,9] parameter(0)  ROOT c = f32[3,180] concatenate("
    + ", ".join(["x"] * 20)
    + "), dimensions={1}",
}


@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, nbytes: int, seed: int) -> None:
    module = parse_module(f"HloModule m\nENTRY e {{ {PROGRAMS[name]} }}")
    rng = np.random.default_rng(seed)
    arguments = [rng.random(p.shape.dims, np.float32) for p in module.entry.parameters]
    (got,) = run_kernel(module, *arguments, nbytes=nbytes)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *arguments))
    for threads in (1, 3):
        made = xladev.compile(module, "cpu", CompileOptions(threads=threads))(*arguments)
        np.testing.assert_array_equal(np.asarray(made), got)


def test_one_long_row_is_shared() -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[50000] parameter(0)  y = f32[100] parameter(1)
      c = f32[50100] concatenate(y, x), dimensions={0}  ROOT r = f32[50100] exponential(c) }""")
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", module.entry), threads=2)
    assert PARALLEL in str(builder)
    x, y = np.arange(50000, dtype=np.float32) / 1e4, np.arange(100, dtype=np.float32) / 10
    one, many = (
        np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=n))(x, y)) for n in (1, 3)
    )
    assert one.tobytes() == many.tobytes()
    np.testing.assert_allclose(one, np.exp(np.concatenate([y, x])), rtol=1e-6)
