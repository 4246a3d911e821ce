"""Arrays without elements are evaluated without memory, whatever their other sizes are."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module

N = 10**12
M = 10**8
COMPARE = """{ a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }"""
ADD = "{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }"
CASES = {
    "reduce-window": f"""p = f32[0,{N}] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[0,{N}] reduce-window(p, z), window={{size=1x{N} pad=0_0x{N - 1}_0}},
      to_apply={ADD}""",
    "cholesky": f"""p = f32[0,{M},{M}] parameter(0)
      ROOT r = f32[0,{M},{M}] cholesky(p), lower=true""",
    "triangular-solve": f"""p = f32[0,{M},{M}] parameter(0)
      ROOT r = f32[0,{M},{M}] triangular-solve(p, p), left_side=true, lower=true,
      unit_diagonal=false, transpose_a=NO_TRANSPOSE""",
    "select-and-scatter": f"""p = f32[0,{N}] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[0,{N}] select-and-scatter(p, p, z), window={{size=1x1}}, select={COMPARE},
      scatter={ADD}""",
    "iota": f"p = f32[0,{N}] parameter(0)  ROOT r = f32[0,{N}] iota(), iota_dimension=1",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_no_memory_for_nothing(text: str) -> None:
    module = parse_module(f"HloModule m\nENTRY e {{ {text} }}")
    (parameter,) = module.entry.parameters
    value = HloEvaluator().run(module, np.zeros(parameter.shape.dims, np.float32))
    assert value.shape == module.entry.root.shape.dims
    assert value.dtype == np.float32
