"""Which attentions CUDA's kernels take, and the pass that keeps their products from libraries.

What an attention is, `codegen.attention` says; `compiler.attention_fusion` makes one kernel of it.
Products that belong to one are marked before others become calls of libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.codegen.attention import Attention
from xladev.codegen.simt.kernels.attention_shapes import attention_refusal
from xladev.compiler.fusion.attention_fusion import attention_groups
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.pass_ import HloModulePass
from xladev.platforms.cuda.codegen.kinds import MACHINE

MARK = "xladev.cuda.kernel"
"""Frontend attribute of products that are part of a larger kernel."""


def takes_attention(a: Attention) -> Support:
    """Whether there is a kernel for an attention: see `attention_refusal`."""
    reason = attention_refusal(a, MACHINE)
    return no(reason) if reason else YES


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
