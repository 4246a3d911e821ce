"""The CPU's own passes: what its matrix product and its windows are fast at."""

import numpy as np
import pytest

import xladev
from tests.unit.passes.checks import opcodes
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.expansions.dot import is_canonical
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


def test_accumulations_need_no_windows(seed: int) -> None:
    """Along rows there is a kernel for them; along other dimensions they are rewritten."""
    assert opcodes(prepared(SUM)) == opcodes(parse_module(SUM))
    down = SUM.replace("3,200", "200,3").replace("1x200", "200x1").replace("0_0x199_0", "199_0x0_0")
    assert "reduce-window" not in opcodes(prepared(down))
    x = np.random.default_rng(seed).standard_normal((3, 200), np.float32)
    got = xladev.compile(parse_module(SUM), "cpu")(x)
    np.testing.assert_allclose(np.asarray(got), x.cumsum(1), rtol=1e-4, atol=1e-4)


def test_level_zero_has_no_passes() -> None:
    assert CpuCompiler().pipeline(CompileOptions(optimization_level=0)) is None
