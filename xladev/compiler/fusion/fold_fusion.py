"""Which loops and reductions may share a kernel, where kernels fold as `fold_plans` says."""

from __future__ import annotations

from xladev.codegen.simt.folds.fold_plans import is_foldable
from xladev.compiler.fusion.multi_output_fusion import loop_space
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction


def can_fold_together(first: HloInstruction, second: HloInstruction) -> Support:
    """Whether two kernels may be one: a kernel that folds does nothing but what its plan says."""
    spaces = loop_space(first), loop_space(second)
    if None in spaces:
        return no("a kernel that is no loop")
    for kernel, space in zip((first, second), spaces, strict=True):
        root = kernel["calls"].root if kernel.opcode == "fusion" else kernel
        if space is None or space.folded is None:
            continue
        if not is_foldable(root, space.dims, space.folded):
            return no("a reduction whose order matters has a kernel of its own")
    return YES
