"""Large constant folding: what large constants become, and nothing else reads, is computed now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.constant_folding import as_constant, folded_value, is_foldable
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.pass_ import HloModulePass

_MOVES = frozenset({"concatenate", "convert", "copy", "reshape", "reverse", "transpose"})
"""What the evaluator does at the speed of memory."""


@dataclass(frozen=True, slots=True)
class LargeConstantFolding(HloModulePass):
    """Moves and converts constants of any size where the program then holds no more bytes.

    Each operand must be a constant that nothing else reads, and the result no larger than all of
    them: they are gone then. It runs behind `TransposeFolding`, since products read what is
    transposed as it is. `ConstantFolding` takes small constants, whoever reads them.
    """

    name = "large-constant-folding"
    only_for = frozenset({"constant"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            folded = _folded(computation)
            return without_dead(rebuild(computation, folded), effects) if folded else computation

        return map_computations(module, change)


def _folded(computation: HloComputation) -> Mapping[HloInstruction, HloInstruction]:
    readers = Counter(o for i in computation.instructions for o in i.operands)
    made: dict[HloInstruction, HloInstruction] = {}
    for i in computation.instructions:
        if i.opcode not in _MOVES or not is_foldable(i):
            continue
        sources = [made.get(o, o) for o in i.operands]
        if not all(_is_known(s) for s in sources) or any(readers[o] > 1 for o in i.operands):
            continue
        if computation.root in i.operands or i.shape.nbytes > sum(s.shape.nbytes for s in sources):
            continue
        arrays = {o: s["literal"].array for o, s in zip(i.operands, sources, strict=True)}
        value = folded_value(i, arrays)
        if value is not None:
            made[i] = as_constant(i, value)
    return made


def _is_known(i: HloInstruction) -> bool:
    return i.opcode == "constant" and i.shape.is_array and not i["literal"].elided
