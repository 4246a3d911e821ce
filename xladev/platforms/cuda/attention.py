"""Which attentions CUDA's kernels take, and the pass that keeps their products from libraries.

What an attention is, `codegen.attention` says; `compiler.attention_fusion` makes one kernel of it.
Products that belong to one are marked before others become calls of libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.codegen.attention import Attention
from xladev.compiler.fusion.attention_fusion import attention_groups
from xladev.compiler.support import YES, Support, no
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.pass_ import HloModulePass

MARK = "xladev.cuda.kernel"
"""Frontend attribute of products that are part of a larger kernel."""
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


def takes_attention(a: Attention) -> Support:
    """Whether there is a kernel for an attention: any that fits, of types computed in f32."""
    others = a.types() - _TYPES
    if others:
        return no(f"it has {' and '.join(sorted(t.name for t in others))}, kernels sum in f32")
    if not queries_per_warp(a):
        return no(f"{KEYS} keys of {a.depth} and values of {a.width} exceed the shared memory")
    return YES


@dataclass(frozen=True, slots=True)
class MarkAttention(HloModulePass):
    """Marks both products of each attention, so that no library is asked for them."""

    name = "cuda-mark-attention"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return map_computations(module, _marked)


def _marked(computation: HloComputation) -> HloComputation:
    replacements: dict[HloInstruction, HloInstruction] = {}
    for found, _ in attention_groups(computation, takes_attention, {}):
        for product in (found.product, found.last):
            pairs = (*product.note.frontend_attributes, (MARK, "attention"))
            note = replace(product.note, frontend_attributes=tuple(sorted(pairs)))
            replacements[product] = replace(product, note=note)
    return rebuild(computation, replacements) if replacements else computation


def is_marked(i: HloInstruction) -> bool:
    """Whether an instruction is part of a larger kernel."""
    return any(key == MARK for key, _ in i.note.frontend_attributes)
