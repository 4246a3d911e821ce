"""The pipeline that forms kernels, put together from a backend's answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.compiler.contract import Compiler
from xladev.compiler.fusion.broadcast_duplication import BroadcastDuplication
from xladev.compiler.fusion.instruction_fusion import Fusion
from xladev.compiler.fusion.multi_output_fusion import MultiOutputFusion
from xladev.compiler.fusion.row_fusion import RowFusion
from xladev.compiler.isolation import expect, plugin_call
from xladev.compiler.support import Support
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline

Question = Callable[[HloInstruction, HloInstruction], Support]
"""What a backend is asked about two instructions or kernels."""

PIPELINE = "kernels"
"""Name of the pipeline that forms kernels."""


def plugin_name(compiler: Compiler) -> str:
    """What errors call a backend."""
    return getattr(compiler, "platform", "") or type(compiler).__name__


def _checked(compiler: Compiler, name: str) -> Question:
    """A question to the backend; whatever is no answer names the function and the pair."""
    plugin, function = plugin_name(compiler), f"Compiler.{name}"
    ask: Question = getattr(compiler, name)

    def answer(first: HloInstruction, second: HloInstruction) -> Support:
        where = f"{first!r}, {second!r}"
        with plugin_call(plugin, function, where=where):
            return expect(ask(first, second), Support, plugin, function, where)

    return answer


def fusion_passes(
    compiler: Compiler,
    *,
    epilogues: frozenset[str] = frozenset(),
    rows: bool = False,
    copied_from_nbytes: int | None = None,
    first: Sequence[HloModulePass] = (),
    last: Sequence[HloModulePass] = (),
) -> HloPassPipeline:
    """The SDK's passes that form kernels, and a backend's own around them.

    Args:
        compiler: asked `can_fuse` and `can_share_kernel`.
        epilogues: opcodes (dot, convolution, reduce) whose kernels go on with elementwise
            instructions.
        rows: whether a kernel may reduce rows and go on with them (`codegen.row_program`).
        copied_from_nbytes: size from which kernels compute a cheap value each for themselves; None
            for never.
        first: passes that form kernels before the SDK's.
        last: passes that see the kernels, and may change how values are laid out in memory.
    """
    can_fuse = _checked(compiler, "can_fuse")
    fusion = Fusion(can_fuse, epilogues=epilogues, copied_from_nbytes=copied_from_nbytes)
    joining = MultiOutputFusion(_checked(compiler, "can_share_kernel"))
    by_rows = (RowFusion(can_fuse=can_fuse),) if rows else ()
    forming = (*first, *by_rows, fusion, joining)
    if copied_from_nbytes is None:
        return HloPassPipeline(PIPELINE, (*forming, *last))
    tidy = (CommonSubexpressionElimination(),)
    apart = HloPassPipeline("own-values", (BroadcastDuplication(), *forming), tidied_by=tidy)
    return HloPassPipeline(PIPELINE, (apart, *last))


@dataclass(frozen=True, slots=True)
class CompilerMethod(HloModulePass):
    """What a compiler changes in a method of its own, as backends did before they gave passes.

    Attributes:
        name: of the method, with hyphens.
        change: the method.
    """

    name: str  # type: ignore[misc]
    change: Callable[[HloModule], HloModule]

    def run(self, module: HloModule) -> HloModule:
        """What the method gives."""
        return self.change(module)
