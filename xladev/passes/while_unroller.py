"""While unroller: loops of few iterations become calls of their body, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.opset import opdef
from xladev.passes.effects import communicates
from xladev.passes.loops.change import Changes, LoopContext, change_loops
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.trip_count import trip_count
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class WhileUnroller(HloModulePass):
    """Unrolls each `while` whose number of iterations is known and small.

    Loops around other loops stay, as do those with effects or collectives, and what would become
    too much code. The call inliner then makes one computation of it.

    Attributes:
        max_turns: most iterations of a loop that is unrolled.
        max_instructions: most instructions that it may become.
    """

    name = "while-unroller"
    max_turns: int = 8
    max_instructions: int = 128

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return change_loops(module, self._unrolled)

    def _unrolled(self, loop: KnownLoop, around: LoopContext) -> Changes:
        iterations = trip_count(loop)
        if iterations is None or iterations > self.max_turns:
            return {}
        if iterations * _size(loop.body) > self.max_instructions or not _is_plain(loop.body):
            return {}
        if not around.effects.isdisjoint((loop.condition.name, loop.body.name)):
            return {}
        old = loop.instruction
        state = old.operands[0]
        for iteration in range(iterations):
            name = f"{old.name}.iteration.{iteration}"
            attrs = {"to_apply": loop.body}
            state = replace(old, op=opdef("call"), operands=(state,), attrs=attrs, name=name)
        return {old: state} if state.shape == old.shape else {}


def _size(body: HloComputation) -> int:
    return sum(
        i.opcode not in ("get-tuple-element", "parameter", "tuple") for i in body.instructions
    )


def _is_plain(body: HloComputation) -> bool:
    """True without control flow, and without collectives, whose channels must not repeat."""
    return not any(
        i.opcode in ("while", "conditional", "call") or communicates(i) for i in body.instructions
    )
