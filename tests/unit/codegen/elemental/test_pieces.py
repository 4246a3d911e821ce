"""Groups of a few elements beside one another, in loops of vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module

PROGRAMS = {
    "4 bits of a byte": """p = u8[6,128] parameter(0)  b = s4[6,128,2] bitcast-convert(p)
      c = s8[6,128,2] convert(b)  r = s8[6,256] reshape(c)  ROOT f = f32[6,256] convert(r)""",
    "2 bits of a byte": """p = u8[6,64] parameter(0)  b = u2[6,64,4] bitcast-convert(p)
      c = u8[6,64,4] convert(b)  r = u8[6,256] reshape(c)  ROOT f = f32[6,256] convert(r)""",
    "4 bits of a word": """p = u32[6,32] parameter(0)  b = u4[6,32,8] bitcast-convert(p)
      c = u8[6,32,8] convert(b)  r = u8[6,256] reshape(c)  ROOT f = f32[6,256] convert(r)""",
    "bytes of a number": """p = s16[6,128] parameter(0)  b = s8[6,128,2] bitcast-convert(p)
      r = s8[6,256] reshape(b)  ROOT f = f32[6,256] convert(r)""",
    "two arrays in turn": """p = u8[6,128] parameter(0)  q = u8[6,128] parameter(1)
      e = u8[6,128,1] reshape(p)  g = u8[6,128,1] reshape(q)
      s = u8[6,128,2] concatenate(e, g), dimensions={2}
      r = u8[6,256] reshape(s)  ROOT f = f32[6,256] convert(r)""",
    "four arrays in turn": """p = u8[6,64] parameter(0)  q = u8[6,64] parameter(1)
      n = u8[6,64] negate(p)  o = u8[6,64] not(q)
      e = u8[6,64,1] reshape(p)  g = u8[6,64,1] reshape(q)  h = u8[6,64,1] reshape(n)
      i = u8[6,64,1] reshape(o)
      s = u8[6,64,4] concatenate(e, g, h, i), dimensions={2}
      r = u8[6,256] reshape(s)  ROOT f = f32[6,256] convert(r)""",
    "what is in memory beside what is not": """p = s8[6,128,2] parameter(0)
      q = s8[6,128] parameter(1)  b = s8[6,128,2] broadcast(q), dimensions={0,1}
      a = s8[6,128,2] add(p, b)  r = s8[6,256] reshape(a)  ROOT f = f32[6,256] convert(r)""",
}


@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_lane_has_its_element(name: str, nbytes: int, seed: int) -> None:
    module = parse_module(f"HloModule m\nENTRY e {{ {PROGRAMS[name]} }}")
    rng = np.random.default_rng(seed)
    given: list[np.ndarray] = []
    for p in module.entry.parameters:
        limits = np.iinfo(p.shape.element_type.np)
        drawn = rng.integers(limits.min, limits.max, p.shape.dims, endpoint=True)
        given.append(drawn.astype(p.shape.element_type.np))
    (got,) = run_kernel(module, *given, nbytes=nbytes)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *given))
