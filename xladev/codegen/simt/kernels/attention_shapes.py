"""Which attentions there is a kernel for, and how much of one a block has."""

from __future__ import annotations

from xladev.codegen.attention import Attention
from xladev.hlo import dtype as dt

KEYS = 32
"""Keys that a block looks at together: one for each thread of a warp."""
WARPS = 8
SHARED_NBYTES = 48 << 10
"""Static shared memory of a block."""
_TYPES = frozenset({dt.F32, dt.BF16, dt.F16})


def queries_per_warp(a: Attention) -> int:
    """As many as fit into shared memory; 0 if not even one does."""
    return next((n for n in (4, 2, 1) if shared_nbytes(a, n) <= SHARED_NBYTES), 0)


def shared_nbytes(a: Attention, queries: int) -> int:
    """For keys, values, queries and weights of a block, in f32, of so many queries a warp."""
    tiles = KEYS * (a.depth + 1) + KEYS * a.width
    return 4 * (tiles + WARPS * queries * (a.depth + KEYS))


def attention_refusal(a: Attention) -> str:
    """Why no kernel computes an attention; empty for those that fit, of types computed in f32."""
    others = a.types() - _TYPES
    if others:
        return f"it has {' and '.join(sorted(t.name for t in others))}, kernels sum in f32"
    if not queries_per_warp(a):
        return f"{KEYS} keys of {a.depth} and values of {a.width} exceed the shared memory"
    return ""
