"""Common subexpression elimination by value numbering."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakSet

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.effects import acts_within, communicates, has_effect
from xladev.passes.pass_ import HloModulePass
from xladev.passes.value_numbers import Key, ValueNumbers

_NEVER = frozenset({"parameter", "opt-barrier", "domain", "after-all", "copy-start"})
"""Opcodes whose point is to be there: barriers keep, for one, recomputation from being merged."""
_SETTLED: WeakSet[HloComputation] = WeakSet()
"""In which nothing was equal: a computation never changes, nor do those that it calls."""


@dataclass(frozen=True, slots=True)
class CommonSubexpressionElimination(HloModulePass):
    """Lets users of equal instructions use the first of them, whose name and metadata stay.

    Instructions are equal if opcode, shape with layout, attributes, operands (in any order where
    the opcode commutes), sharding, frontend attributes and device are. Those with side effects,
    collectives and those with control dependencies are left alone.
    """

    name = "cse"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        numbers = ValueNumbers()
        effects: set[HloComputation] = set()

        def change(computation: HloComputation) -> HloComputation:
            after = computation
            if computation not in _SETTLED:
                after = _merged(computation, numbers, effects)
                if after is computation:
                    _SETTLED.add(computation)
            if acts_within(after, effects):
                effects.add(after)
            return after

        return map_computations(module, change)


def _merged(
    computation: HloComputation, numbers: ValueNumbers, effects: set[HloComputation]
) -> HloComputation:
    number: dict[HloInstruction, int] = {}
    first: dict[Key, HloInstruction] = {}
    replacements: dict[HloInstruction, HloInstruction] = {}
    for instruction in computation.instructions:
        number[instruction] = len(number)
        if not _is_mergeable(instruction, effects):
            continue
        found = first.setdefault(numbers.instruction_key(instruction, number), instruction)
        if found is not instruction:
            replacements[instruction] = found
            number[instruction] = number[found]
    return rebuild(computation, replacements)


def _is_mergeable(instruction: HloInstruction, effects: set[HloComputation]) -> bool:
    if instruction.opcode in _NEVER or instruction.note.control_predecessors:
        return False
    return not has_effect(instruction, effects) and not communicates(instruction)
