"""Which attentions there is a kernel for, and how much of one a block has."""

from __future__ import annotations

from xladev.codegen.attention import Attention
from xladev.codegen.simt.machine import SimtMachine
from xladev.hlo import dtype as dt

SUBGROUPS = 8
"""Of a block; each thread of one has a key, so keys are looked at a sub-group at a time."""
_TYPES = frozenset({dt.F32, dt.BF16, dt.F16})


def queries_per_subgroup(a: Attention, machine: SimtMachine) -> int:
    """As many as fit into shared memory; 0 if not even one does."""
    fits = (n for n in (4, 2, 1) if shared_nbytes(a, n, machine) <= machine.shared_nbytes)
    return next(fits, 0)


def shared_nbytes(a: Attention, queries: int, machine: SimtMachine) -> int:
    """For keys, values, queries and weights of a block, in f32; queries are of a sub-group."""
    keys = machine.subgroup
    tiles = keys * (a.depth + 1) + keys * a.width
    return 4 * (tiles + SUBGROUPS * queries * (a.depth + keys))


def attention_refusal(a: Attention, machine: SimtMachine) -> str:
    """Why no kernel computes an attention; empty for those that fit, of types computed in f32."""
    others = a.types() - _TYPES
    if others:
        return f"it has {' and '.join(sorted(t.name for t in others))}, kernels sum in f32"
    if not queries_per_subgroup(a, machine):
        keys = machine.subgroup
        return f"{keys} keys of {a.depth} and values of {a.width} exceed the shared memory"
    return ""
