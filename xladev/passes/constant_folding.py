"""Constant folding: what depends on constants alone is computed now, by the evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from xladev.errors import XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array, Literal
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.dce import without_dead
from xladev.passes.effects import communicates, computations_with_effects, has_effect
from xladev.passes.pass_ import HloModulePass

_NEVER = frozenset({
    "constant", "parameter", "tuple", "get-tuple-element", "broadcast", "iota", "opt-barrier",
    "while", "conditional", "call", "fusion", "custom-call", "domain", "bitcast",
})  # fmt: skip
"""What is free as it is, must stay, runs for a time nobody knows, or reads memory as it is."""

_MOST_CALLS = 1024
"""Most elements for which a computation is run."""

MOST_FLOPS = 1 << 22
"""Most operations that are spent on a constant while a program is compiled."""


@dataclass(frozen=True, slots=True)
class ConstantFolding(HloModulePass):
    """Replaces instructions all of whose operands are constants by constants.

    Broadcasts and iota stay, since they cost less than the memory of their result; so does what
    would make more than ``max_elements``, or needs more than ``max_flops``.

    Attributes:
        max_elements: most elements of a constant that is made.
        max_flops: most operations spent on one.
    """

    name = "constant-folding"
    only_for = frozenset({"constant"})
    max_elements: int = 1 << 16
    max_flops: int = MOST_FLOPS

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            folded = self._folded(computation)
            if not folded:
                return computation
            return without_dead(rebuild(computation, folded), effects)

        return map_computations(module, change)

    def _folded(self, computation: HloComputation) -> Mapping[HloInstruction, HloInstruction]:
        known: dict[HloInstruction, Array] = {}
        made: dict[HloInstruction, HloInstruction] = {}
        for i in computation.instructions:
            if i.opcode == "constant":
                if i.shape.is_array and not i["literal"].elided:
                    known[i] = i["literal"].array
            elif i.operands and all(o in known for o in i.operands) and self._is_worth_it(i):
                value = folded_value(i, known)
                if value is not None:
                    known[i], made[i] = value, as_constant(i, value)
        return made

    def _is_worth_it(self, i: HloInstruction) -> bool:
        is_small = is_foldable(i) and i.shape.size <= self.max_elements
        return is_small and takes_little(i, self.max_flops)


def is_foldable(i: HloInstruction) -> bool:
    """Whether an instruction's value depends on its operands alone, and is worth a constant."""
    if i.opcode in _NEVER or not i.shape.is_array or i.shape.is_dynamic:
        return False
    return is_function(i)


def takes_little(i: HloInstruction, max_flops: int) -> bool:
    """Whether the evaluator computes an instruction with operands in so many operations."""
    size = max(i.shape.size, *(o.shape.size for o in i.operands))
    if i.called and size > _MOST_CALLS:
        return False
    if i.op.cost is None:
        return size <= max_flops
    cost = i.op.cost(i.shape, tuple(o.shape for o in i.operands), i)
    return max(cost.flops, size) <= max_flops


def is_function(i: HloInstruction) -> bool:
    """False where a value, also of what is called, is another in each run or on each device."""
    if has_effect(i, frozenset()) or communicates(i) or i.op.category == "random":
        return False
    return all(is_function(inner) for c in i.called for inner in c.instructions)


def folded_value(i: HloInstruction, known: Mapping[HloInstruction, Array]) -> Array | None:
    """The value of an instruction; None where the evaluator has none."""
    try:
        value = HloEvaluator().instruction(i, known, ())
    except XladevError:
        return None
    return np.ascontiguousarray(value).reshape(i.shape.dims)


def as_constant(i: HloInstruction, value: Array) -> HloInstruction:
    """The constant in place of an instruction."""
    literal = Literal(i.shape, value)
    return replace(i, op=opdef("constant"), operands=(), attrs={"literal": literal})
