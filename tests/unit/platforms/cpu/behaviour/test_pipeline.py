"""The CPU's own passes: what its matrix product and its windows are fast at."""

import numpy as np
import pytest

import xladev
from tests.unit.passes.checks import opcodes
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.expansions.dot import is_canonical
from xladev.platforms.cpu.codegen.scan import is_scan
from xladev.platforms.cpu.compiler import LEAST_REUSE, CpuCompiler

SUM = """
HloModule m
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
ENTRY main { a = f32[3,200] parameter(0)  c = f32[] constant(0)
  ROOT d = f32[3,200] reduce-window(a, c), window={size=1x200 pad=0_0x199_0}, to_apply=add }
"""


def product(rows: int, summed: str) -> str:
    return f"""
    HloModule m
    ENTRY main {{ x = f32[{rows},2,8] parameter(0)  y = f32[24,2,8] parameter(1)
      ROOT d = f32[{rows},24] dot(x, y),
        lhs_contracting_dims={summed},
         rhs_contracting_dims={summed}
    }}"""


MATRICES = """
HloModule m
ENTRY main { x = f32[16,40] parameter(0)  y = f32[24,16] parameter(1)
  ROOT d = f32[40,24] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1} }
"""


def prepared(text: str) -> HloModule:
    pipeline = CpuCompiler().pipeline(CompileOptions())
    assert pipeline is not None
    return pipeline.run(parse_module(text))


@pytest.mark.parametrize("rows", [1, LEAST_REUSE - 1, LEAST_REUSE, 40])
def test_products_are_canonical_where_that_pays(rows: int, seed: int) -> None:
    turned = product(rows, "{2,1}")
    (dot,) = (i for i in prepared(turned).entry.instructions if i.opcode == "dot")
    assert is_canonical(dot) == (rows >= LEAST_REUSE)
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((n, 2, 8), np.float32) for n in (rows, 24))
    run = xladev.compile(parse_module(turned), "cpu")
    wanted = x.reshape(rows, 16) @ y.reshape(24, 16).T
    np.testing.assert_allclose(np.asarray(run(x, y)), wanted, rtol=1e-4, atol=1e-5)


def test_products_stay_where_dimensions_follow_each_other_in_memory() -> None:
    text = product(40, "{1,2}")
    assert opcodes(prepared(text)) == opcodes(parse_module(text))


def test_matrices_are_not_transposed() -> None:
    assert opcodes(prepared(MATRICES)) == opcodes(parse_module(MATRICES))


@pytest.mark.parametrize(
    ("dims", "size", "pad", "axis"),
    [
        ("3,200", "1x200", "0_0x199_0", 1),
        ("200,3", "200x1", "199_0x0_0", 0),
        ("200,48", "200x1", "199_0x0_0", 0),
    ],
)
def test_accumulations_have_kernels(dims: str, size: str, pad: str, axis: int, seed: int) -> None:
    """Along rows, and columns that lie side by side; few columns are made rows."""
    text = SUM.replace("3,200", dims).replace("1x200", size).replace("0_0x199_0", pad)
    windows = [i for i in prepared(text).entry.instructions if i.opcode == "reduce-window"]
    assert len(windows) == 1
    assert is_scan(windows[0])
    shape = tuple(map(int, dims.split(",")))
    x = np.random.default_rng(seed).standard_normal(shape, np.float32)
    got = xladev.compile(parse_module(text), "cpu")(x)
    np.testing.assert_allclose(np.asarray(got), x.cumsum(axis), rtol=1e-4, atol=1e-4)


def test_level_zero_has_no_passes() -> None:
    assert CpuCompiler().pipeline(CompileOptions(optimization_level=0)) is None
