"""Dead code elimination: removes what neither the result nor a side effect needs."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations
from xladev.passes.effects import acts, computations_with_effects
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class DeadCodeElimination(HloModulePass):
    """Removes unused instructions, and with them computations that nobody calls any more.

    Parameters stay, as do instructions with side effects, directly or in what they call.
    """

    name = "dce"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            return without_dead(computation, effects)

        return map_computations(module, change)


def without_dead(computation: HloComputation, effects: set[str]) -> HloComputation:
    """The computation without dead instructions.

    Args:
        computation: what to shrink.
        effects: names of the computations whose callers must stay.
    """
    live: set[HloInstruction] = {computation.root}
    for instruction in reversed(computation.instructions):
        if instruction in live or _stays(instruction, effects):
            live.add(instruction)
            live.update(instruction.operands)
            live.update(instruction.note.control_predecessors)
    if len(live) == len(computation.instructions):
        return computation
    kept = tuple(i for i in computation.instructions if i in live)
    return HloComputation(computation.name, kept, computation.root, computation.execution_thread)


def _stays(instruction: HloInstruction, effects: set[str]) -> bool:
    return instruction.opcode == "parameter" or acts(instruction, effects)
