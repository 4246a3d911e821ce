"""Which loops and reductions may share a kernel, where kernels reduce as `reduction_plans` says."""

from __future__ import annotations

from xladev.codegen.simt.reductions.reduction_plans import is_reducible
from xladev.compiler.fusion.multi_output_fusion import loop_space
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction


def can_reduce_together(first: HloInstruction, second: HloInstruction) -> Support:
    """Whether two kernels may be one: a kernel that reduces does nothing but what its plan says."""
    spaces = loop_space(first), loop_space(second)
    if None in spaces:
        return no("a kernel that is no loop")
    for kernel, space in zip((first, second), spaces, strict=True):
        root = kernel["calls"].root if kernel.opcode == "fusion" else kernel
        if space is None or space.reduced is None:
            continue
        if not is_reducible(root, space.dims, space.reduced):
            return no("a reduction whose order matters has a kernel of its own")
    return YES
