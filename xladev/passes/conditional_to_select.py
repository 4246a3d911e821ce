"""Conditional to select: cheap branches on scalars are all computed, and one is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.nested_values import flattened
from xladev.hlo.ops.control import branches
from xladev.hlo.shape import Shape
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite
from xladev.passes.scalar_bodies import Value, can_write_out, write_out

MOST_INSTRUCTIONS = 64
"""Most instructions in all branches together."""


def _is_cheap(instruction: HloInstruction) -> bool:
    chosen = branches(instruction)
    if sum(len(c.instructions) for c in chosen) > MOST_INSTRUCTIONS:
        return False
    return all(can_write_out(c) for c in chosen)


@rewrite(m.Opcode("conditional").where(_is_cheap, "a conditional on scalars with cheap branches"))
def select_result(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """conditional(p, a, b) = select(p, a, b) for every scalar of the result."""
    selector, *arguments = root.operands
    results = [
        flattened(write_out(r, body, [_parts(r, argument)], ()))
        for body, argument in zip(branches(root), arguments, strict=True)
    ]
    if selector.shape.element_type is dt.PRED:
        taken = [r.select(selector, a, b) for a, b in zip(*results, strict=True)]
    else:
        taken = results[-1]
        for number, values in reversed(list(enumerate(results[:-1]))):
            here = r.compare("EQ", selector, number)
            taken = [r.select(here, a, b) for a, b in zip(values, taken, strict=True)]
    return _grouped(r, root.shape, taken)


def _parts(r: Rewriter, argument: HloInstruction) -> Value:
    if not argument.shape.is_tuple:
        return argument
    return tuple(_parts(r, part) for part in r.parts(argument))


def _grouped(r: Rewriter, shape: Shape, leaves: list[HloInstruction]) -> HloInstruction:
    """Leaves as a value of ``shape``; takes them from the front of the list."""
    if not shape.is_tuple:
        return leaves.pop(0)
    return r.op("tuple", *(_grouped(r, part, leaves) for part in shape.tuple_shapes))


_RULES = RuleSet([select_result])


@dataclass(frozen=True, slots=True)
class ConditionalToSelect(HloModulePass):
    """Replaces each `conditional` on scalars whose branches are few elementwise opcodes.

    Computations of scalars (reducers, comparators) can then be written out on whole arrays.
    """

    name = "conditional-to-select"
    only_for = _RULES.opcodes

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return _RULES.run(module)
