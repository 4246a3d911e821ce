"""Floating-point work of instructions, from the cost in their OpDefs."""

from __future__ import annotations

from collections.abc import Iterable

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape

_CONTROL = frozenset(("while", "conditional", "call", "fusion", "async-start"))


def floating_point_work(instructions: Iterable[HloInstruction]) -> int:
    """Floating-point operations of these instructions, and of all that they call.

    A product and a sum are two; an opcode on elements is one per element, transcendental or not;
    moving data is none, and neither is arithmetic of integers. A body of a loop counts once, for
    how often it runs is seldom known.
    """
    total = 0
    pending, seen = list(instructions), set[HloComputation]()
    while pending:
        instruction = pending.pop()
        total += _own_work(instruction)
        called = instruction.called if instruction.opcode in _CONTROL else ()
        fresh = [c for c in called if c not in seen]
        seen.update(fresh)
        pending.extend(i for c in fresh for i in c.instructions)
    return total


def _own_work(instruction: HloInstruction) -> int:
    operands = tuple(o.shape for o in instruction.operands)
    if not any(_has_floats(shape) for shape in (instruction.shape, *operands)):
        return 0
    if instruction.op.cost is not None:
        return instruction.op.cost(instruction.shape, operands, instruction).flops
    return instruction.shape.size if instruction.op.elementwise else 0


def _has_floats(shape: Shape) -> bool:
    leaves = (leaf.element_type for _, leaf in shape.leaves() if leaf.is_array)
    return any(t.is_float or t.is_complex for t in leaves)
