"""Programs that tests of the fast call run, and how they tell which way a call went."""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.client import CALLS_BEFORE_FAST_CALL, CompiledModule, compile
from xladev.platforms.cpu.native_block import NativeBlock

ADD = b"""HloModule plus
ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = f32[2,3] add(x, y)
}"""
SCALAR = b"""HloModule one
ENTRY main {
  x = f32[] parameter(0)
  c = f32[] constant(1)
  ROOT r = f32[] add(x, c)
}"""
FIVE_TO_THREE = b"""HloModule many
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  c = f32[4] parameter(2)
  d = f32[4] parameter(3)
  e = f32[4] parameter(4)
  x = f32[4] add(a, b)
  y = f32[4] multiply(c, d)
  z = f32[4] subtract(e, a)
  ROOT r = (f32[4], f32[4], f32[4]) tuple(x, y, z)
}"""
IN_PLACE = b"""HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  n = f32[4] add(x, y)
  m = f32[4] multiply(x, y)
  ROOT r = (f32[4], f32[4]) tuple(n, m)
}"""
WITH_SCRATCH = b"""HloModule scratch
ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[64,64] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
LARGE = b"""HloModule large
ENTRY main {
  x = f32[512,513] parameter(0)
  ROOT r = f32[512,513] add(x, x)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.full((2, 3), 0.5, np.float32)


def opened(source: bytes, *arguments: Any) -> CompiledModule:
    """A program that has been called often enough."""
    program = compile(source, "cpu")
    for _ in range(CALLS_BEFORE_FAST_CALL):
        program(*arguments)
    return program


def went_through(result: Any) -> bool:
    """True if a result came by the fast call."""
    leaves = result if isinstance(result, tuple) else (result,)
    return all(isinstance(leaf._buffer, NativeBlock) for leaf in leaves)
