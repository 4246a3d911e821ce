"""Attention as programs spell it, for tests: scales, masks, layouts, sizes."""

from __future__ import annotations

from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

HEAD = """HloModule attention
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
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
RESULT = """ROOT r = f32[B,H,Q,W] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
    lhs_contracting_dims={3}, rhs_contracting_dims={2}"""
RESULT_INSIDE = """r = f32[B,H,Q,W] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2},
    lhs_contracting_dims={3}, rhs_contracting_dims={1}
  ROOT t = f32[B,Q,H,W] transpose(r), dimensions={0,2,1,3}"""
RESULT_TURNED = """r = f32[B,H,W,Q] dot(v, w), lhs_batch_dims={0,2}, rhs_batch_dims={0,1},
    lhs_contracting_dims={1}, rhs_contracting_dims={3}
  ROOT t = f32[B,Q,H,W] transpose(r), dimensions={0,3,1,2}"""
SIZES = {"B": 2, "H": 3, "Q": 70, "K": 90, "D": 24, "W": 40}


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
    **sizes: int,
) -> HloModule:
    """The module of one attention."""
    return parse_module(text_of((operands, scores, softmax, result), {**SIZES, **sizes}))
