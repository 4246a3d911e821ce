"""Work of single instructions, from the cost in their OpDefs: operations, functions, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opdef import Cost, Tolerance
from xladev.hlo.shape import Shape
from xladev.hlo.views import is_view

_CONTROL = frozenset(("while", "conditional", "call", "fusion", "async-start"))
"""Opcodes whose computations are run as programs."""


def floating_point_work(instructions: Iterable[HloInstruction]) -> int:
    """Floating-point operations of these instructions, and of all that they call.

    A product and a sum are two; an opcode on elements is one per element, transcendental or not;
    moving data is none, and neither is arithmetic of integers. A body of a loop counts once, for
    how often it runs is seldom known.
    """
    return sum(sum(own_operations(each)) for each in _with_called(instructions))


def total_cost(instructions: Iterable[HloInstruction]) -> Cost:
    """The cost of these instructions and of all that they call, counted as above."""
    costs = [own_cost(each) for each in _with_called(instructions)]
    return Cost(
        sum(c.flops for c in costs),
        sum(c.transcendentals for c in costs),
        sum(c.bytes_accessed for c in costs),
    )


def _with_called(instructions: Iterable[HloInstruction]) -> Iterator[HloInstruction]:
    pending, seen = list(instructions), set[HloComputation]()
    while pending:
        instruction = pending.pop()
        yield instruction
        called = instruction.called if instruction.opcode in _CONTROL else ()
        fresh = [c for c in called if c not in seen]
        seen.update(fresh)
        pending.extend(i for c in fresh for i in c.instructions)


def own_cost(instruction: HloInstruction) -> Cost:
    """Floating-point operations, calls of transcendental functions, and bytes read and written.

    What an instruction calls as a program (loops, branches, calls, fusions) is not its own.
    """
    flops, transcendentals = own_operations(instruction)
    return Cost(flops, transcendentals, moved_nbytes(instruction))


def own_operations(instruction: HloInstruction) -> tuple[int, int]:
    """Floating-point operations and calls of transcendental functions, as of `own_cost`."""
    op = instruction.op
    if op.cost is None and not op.elementwise:
        return 0, 0
    operands = tuple(o.shape for o in instruction.operands)
    if not any(_has_floats(shape) for shape in (instruction.shape, *operands)):
        return 0, 0
    if op.cost is not None:
        cost = op.cost(instruction.shape, operands, instruction)
        return cost.flops, cost.transcendentals
    size = instruction.shape.size
    return (0, size) if op.tolerance is Tolerance.FUNCTION else (size, 0)


def _has_floats(shape: Shape) -> bool:
    leaves = (leaf.element_type for _, leaf in shape.leaves() if leaf.is_array)
    return any(t.is_float or t.is_complex for t in leaves)


def moved_nbytes(instruction: HloInstruction) -> int:
    """Bytes that an instruction reads and writes; none if it is another view of its operand."""
    if is_view(instruction):
        return 0
    if instruction.op.moved is not None:
        return instruction.op.moved(instruction)
    read = sum(o.shape.nbytes for o in dict.fromkeys(instruction.operands))
    return read + instruction.shape.nbytes
