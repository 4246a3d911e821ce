"""Small kernels that read nothing become constants.

A table of frequencies or positions is computed from an iota: a kernel of its own where its reader
is no elementwise one. Machine code for it takes as long to make as for any other kernel, and it
would give the same values in each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xladev.compiler.fusion.instruction_fusion import without_dead
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opdef import Tolerance
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.constant_folding import as_constant, folded_value, is_function
from xladev.passes.pass_ import HloModulePass

_SIMPLE = (Tolerance.EXACT, Tolerance.ROUNDED)


@dataclass(frozen=True, slots=True)
class ConstantKernels(HloModulePass):
    """Replaces a fusion of one result that has no operands by a constant.

    Only where every instruction in it is exact or rounded once, so that no function of the host's
    is taken for the device's.

    Attributes:
        max_nbytes: most bytes of a constant that is made.
    """

    name = "constant-kernels"
    only_for = frozenset({"fusion"})
    max_nbytes: int = 1 << 14

    def run(self, module: HloModule) -> HloModule:
        """See the class."""

        def change(computation: HloComputation) -> HloComputation:
            made = dict(self._made(computation))
            return without_dead(rebuild(computation, made)) if made else computation

        return map_computations(module, change)

    def _made(self, computation: HloComputation) -> Iterator[tuple[HloInstruction, HloInstruction]]:
        for i in computation.instructions:
            if i.opcode == "fusion" and self._is_constant(i):
                value = folded_value(i, {})
                if value is not None:
                    yield i, as_constant(i, value)

    def _is_constant(self, i: HloInstruction) -> bool:
        if i.operands or not i.shape.is_array or i.shape.is_dynamic or i.note.device:
            return False
        inside = [inner for c in i.called for inner in c.instructions]
        return i.shape.nbytes <= self.max_nbytes and all(map(_is_simple, inside))


def _is_simple(i: HloInstruction) -> bool:
    return i.op.tolerance in _SIMPLE and not i.called and is_function(i)
