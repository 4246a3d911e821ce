"""Attention as programs spell it, for tests: scales, masks, layouts, sizes."""

from __future__ import annotations

import re

from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

HEAD = """HloModule attention
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
all { a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT c = pred[] and(a, b) }
any { a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT c = pred[] or(a, b) }
"""
PRODUCT = "dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}"
HEADS_APART = f"""q = f32[B,H,Q,D] parameter(0)  k = f32[B,H,K,D] parameter(1)
  v = f32[B,H,K,W] parameter(2)
  p = f32[B,H,Q,K] {PRODUCT}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}"""
KEYS_TRANSPOSED = f"""q = f32[B,H,Q,D] parameter(0)  k = f32[B,H,D,K] parameter(1)
  v = f32[B,H,K,W] parameter(2)
  p = f32[B,H,Q,K] {PRODUCT}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}"""
HEADS_INSIDE = """q = f32[B,Q,H,D] parameter(0)  k = f32[B,K,H,D] parameter(1)
  v = f32[B,K,H,W] parameter(2)
  p = f32[B,H,Q,K] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
    lhs_contracting_dims={3}, rhs_contracting_dims={3}"""
KEYS_FIRST = HEADS_APART.replace("(q, k)", "(k, q)").replace("p = f32[B,H,Q,K]", "p = f32[B,H,K,Q]")
KEYS_FIRST_SCORES = "x = f32[B,H,Q,K] transpose(p), dimensions={0,1,3,2}"
SCALED = """c = f32[] constant(0.3)  cb = f32[B,H,Q,K] broadcast(c), dimensions={}
  x = f32[B,H,Q,K] multiply(p, cb)"""
DIVIDED = SCALED.replace("multiply", "divide").replace("0.3", "3")
BIASED = """bias = f32[B,K] parameter(3)  bb = f32[B,H,Q,K] broadcast(bias), dimensions={0,3}
  x = f32[B,H,Q,K] add(p, bb)"""
MASKED = """mask = pred[Q,K] parameter(3)  mb = pred[B,H,Q,K] broadcast(mask), dimensions={2,3}
  low = f32[] constant(-1e9)  lb = f32[B,H,Q,K] broadcast(low), dimensions={}
  x = f32[B,H,Q,K] select(mb, p, lb)"""
CAUSAL = """i = s32[Q,K] iota(), iota_dimension=0  j = s32[Q,K] iota(), iota_dimension=1
  ge = pred[Q,K] compare(i, j), direction=GE
  mb = pred[B,H,Q,K] broadcast(ge), dimensions={2,3}
  low = f32[] constant(-inf)  lb = f32[B,H,Q,K] broadcast(low), dimensions={}
  x = f32[B,H,Q,K] select(mb, p, lb)"""
SOFTMAX = """least = f32[] constant(-inf)  zero = f32[] constant(0)
  m = f32[B,H,Q] reduce(x, least), dimensions={3}, to_apply=max
  mm = f32[B,H,Q,K] broadcast(m), dimensions={0,1,2}
  d = f32[B,H,Q,K] subtract(x, mm)
  e = f32[B,H,Q,K] exponential(d)
  s = f32[B,H,Q] reduce(e, zero), dimensions={3}, to_apply=add
  ss = f32[B,H,Q,K] broadcast(s), dimensions={0,1,2}
  w = f32[B,H,Q,K] divide(e, ss)"""
GUARDED = (
    SOFTMAX.replace("w = ", "plain = ")
    + """
  low2 = f32[B,H,Q,K] broadcast(least), dimensions={}
  hidden = pred[B,H,Q,K] compare(x, low2), direction=EQ
  start = pred[] constant(true)
  row = pred[B,H,Q] reduce(hidden, start), dimensions={3}, to_apply=all
  rows = pred[B,H,Q,K] broadcast(row), dimensions={0,1,2}
  zeros = f32[B,H,Q,K] broadcast(zero), dimensions={}
  w = f32[B,H,Q,K] select(rows, zeros, plain)"""
)
"""Rows that see nothing are zeros, as in torch."""
SEEN = (
    GUARDED.replace("EQ", "NE").replace("true", "false").replace("=all", "=any")
    .replace("zeros, plain", "plain, zeros")
)  # fmt: skip
GROUPS = """q = f32[B,Q,H,G,D] parameter(0)  k = f32[B,K,H,D] parameter(1)
  v = f32[B,K,H,W] parameter(2)
  p = f32[B,H,Q,G,K] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
    lhs_contracting_dims={4}, rhs_contracting_dims={3}"""
GROUPS_SCALED = """c = f32[] constant(0.3)  cb = f32[B,H,Q,G,K] broadcast(c), dimensions={}
  y = f32[B,H,Q,G,K] multiply(p, cb)
  x = f32[G,B,H,Q,K] transpose(y), dimensions={3,0,1,2,4}"""
GROUPS_CAUSAL = (
    GROUPS_SCALED.replace("  x =", "  x1 =") + "\n  "
    + CAUSAL.replace("B,H,Q", "G,B,H,Q").replace("{2,3}", "{3,4}").replace("mb, p", "mb, x1")
)  # fmt: skip
GROUPS_SOFTMAX = (
    SOFTMAX.replace("B,H,Q", "G,B,H,Q").replace("={3}", "={4}").replace("{0,1,2}", "{0,1,2,3}")
)  # fmt: skip
GROUPS_RESULT = """r = f32[B,H,W,G,Q] dot(v, w), lhs_batch_dims={0,2}, rhs_batch_dims={1,2},
    lhs_contracting_dims={1}, rhs_contracting_dims={4}
  ROOT t = f32[B,Q,H,G,W] transpose(r), dimensions={0,4,1,3,2}"""
"""Heads in groups that share keys and values, as JAX writes them."""
RESULT = """ROOT r = f32[B,H,Q,W] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
    lhs_contracting_dims={3}, rhs_contracting_dims={2}"""
RESULT_INSIDE = """r = f32[B,H,Q,W] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2},
    lhs_contracting_dims={3}, rhs_contracting_dims={1}
  ROOT t = f32[B,Q,H,W] transpose(r), dimensions={0,2,1,3}"""
RESULT_TURNED = """r = f32[B,H,W,Q] dot(v, w), lhs_batch_dims={0,2}, rhs_batch_dims={0,1},
    lhs_contracting_dims={1}, rhs_contracting_dims={3}
  ROOT t = f32[B,Q,H,W] transpose(r), dimensions={0,3,1,2}"""
SIZES = {"B": 2, "H": 3, "G": 4, "Q": 70, "K": 90, "D": 24, "W": 40}


def text_of(parts: tuple[str, ...], sizes: dict[str, int]) -> str:
    """HLO of a program in parts, with numbers for the letters of its dimensions."""
    body = "\n  ".join(parts)
    for letter, size in sizes.items():
        for before in "[,":
            for after in ",]":
                body = body.replace(before + letter + after, f"{before}{size}{after}")
    return f"{HEAD}ENTRY main {{ {body} }}"


def attention(
    operands: str = HEADS_APART,
    scores: str = SCALED,
    softmax: str = SOFTMAX,
    result: str = RESULT,
    narrow: str = "",
    **sizes: int,
) -> HloModule:
    """The module of one attention; operands and weights may be of a narrow type."""
    parts = (operands, scores, softmax, result)
    if narrow:
        parts = tuple(re.sub(r"\b([qkvrt]) = f32", rf"\1 = {narrow}", part) for part in parts)
        weights = rf"wide = f32\1 \2\n  w = {narrow}\1 convert(wide)"
        parts = tuple(re.sub(r"\bw = f32(\S+) (.*)", weights, part) for part in parts)
    return parse_module(text_of(parts, {**SIZES, **sizes}))
