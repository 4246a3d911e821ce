"""Arrays of a program: each by the instruction that makes it, whatever tuples it goes through."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, flattened_shapes

Leaf = tuple[HloInstruction, int]
"""One array of an instruction's value, by its number among them."""

_SAME = frozenset({"add-dependency", "domain"})


def source(i: HloInstruction, number: int) -> Leaf:
    """The instruction that makes an array, and its number there."""
    while True:
        if i.opcode == "tuple":
            operand = 0
            while number >= (count := len(flattened_shapes(i.operands[operand].shape))):
                number -= count
                operand += 1
            i = i.operands[operand]
        elif i.opcode == "get-tuple-element":
            (i, index), before = (i.operands[0], i["index"]), number
            parts = i.shape.tuple_shapes[:index]
            number = before + sum(len(flattened_shapes(part)) for part in parts)
        elif i.opcode in _SAME:
            i = i.operands[0]
        else:
            return i, number


def leaves(i: HloInstruction) -> Iterator[tuple[Leaf, Shape]]:
    """The arrays of an instruction's value by what makes them, with their shapes; no tokens."""
    for number, shape in enumerate(flattened_shapes(i.shape)):
        if shape.is_array:
            yield source(i, number), shape
