"""Work of single instructions, from the cost in their OpDefs: operations, functions, bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opdef import Cost, Tolerance
from xladev.hlo.shape import Shape
from xladev.hlo.views import is_view

_CONTROL = frozenset(("while", "conditional", "call", "fusion", "async-start"))
_UNMOVED = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all",
    "add-dependency", "opt-barrier", "domain", "partition-id", "replica-id", *_CONTROL,
})  # fmt: skip
"""Opcodes that read and write no memory themselves."""


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
    return Cost(flops, transcendentals, _moved_nbytes(instruction))


def own_operations(instruction: HloInstruction) -> tuple[int, int]:
    """Floating-point operations and calls of transcendental functions, as of `own_cost`."""
    if instruction.opcode in _UNMOVED:
        return 0, 0
    operands = tuple(o.shape for o in instruction.operands)
    if not any(_has_floats(shape) for shape in (instruction.shape, *operands)):
        return 0, 0
    op = instruction.op
    if op.cost is not None:
        cost = op.cost(instruction.shape, operands, instruction)
        return cost.flops, cost.transcendentals
    if not op.elementwise:
        return 0, 0
    size = instruction.shape.size
    return (0, size) if op.tolerance is Tolerance.FUNCTION else (size, 0)


def _has_floats(shape: Shape) -> bool:
    leaves = (leaf.element_type for _, leaf in shape.leaves() if leaf.is_array)
    return any(t.is_float or t.is_complex for t in leaves)


def _moved_nbytes(instruction: HloInstruction) -> int:
    if instruction.opcode in _UNMOVED or is_view(instruction):
        return 0
    partly = _PARTLY.get(instruction.opcode)
    if partly is not None:
        return partly(instruction)
    read = sum(o.shape.nbytes for o in dict.fromkeys(instruction.operands))
    return read + instruction.shape.nbytes


def _of_windows_read(instruction: HloInstruction) -> int:
    """The windows, twice, and what says where they are."""
    return 2 * instruction.shape.nbytes + sum(o.shape.nbytes for o in instruction.operands[1:])


def _of_windows_written(instruction: HloInstruction) -> int:
    """Windows replaced in place: the new ones are read and written."""
    return instruction.operands[1].shape.nbytes + sum(
        o.shape.nbytes for o in instruction.operands[1:]
    )


def _of_windows_combined(instruction: HloInstruction) -> int:
    """Windows combined in place: updates and indices read, windows read and written."""
    count = len(instruction.operands) // 2
    updates = sum(o.shape.nbytes for o in instruction.operands[count + 1 :])
    return 3 * updates + instruction.operands[count].shape.nbytes


_PARTLY: Mapping[str, Callable[[HloInstruction], int]] = MappingProxyType(
    {
        "dynamic-slice": _of_windows_read,
        "gather": _of_windows_read,
        "slice": lambda i: 2 * i.shape.nbytes,
        "dynamic-update-slice": _of_windows_written,
        "scatter": _of_windows_combined,
    }
)
"""Bytes that opcodes move which touch parts of their operands."""
