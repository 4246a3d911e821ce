"""Array values: values flattened to arrays, seen through what only groups or renames them.

Tuples and their parts group arrays, reshapes and bitcasts rename them, barriers pass them on:
nothing runs for any of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape, ShapeIndex, flattened_shapes, once_per_shape
from xladev.hlo.views import is_view

_PASS_ON = frozenset({"opt-barrier", "add-dependency", "domain"})
_GROUPING = frozenset({"tuple", "get-tuple-element"})


class ArrayValue(NamedTuple):
    """One array or token of a result.

    Attributes:
        producer: the instruction that makes it.
        number: which one of the flattened result.
    """

    producer: HloInstruction
    number: int

    @property
    def shape(self) -> Shape:
        """Shape of the array."""
        return flattened_shapes(self.producer.shape)[self.number]


def seen_through_tuples(
    i: HloInstruction, index: ShapeIndex = ()
) -> tuple[HloInstruction, ShapeIndex]:
    """Who gives part ``index`` of the value of ``i``, and as which part of its own."""
    while True:
        if i.opcode == "get-tuple-element":
            i, index = i.operands[0], (i["index"], *index)
        elif i.opcode == "tuple" and index:
            i, index = i.operands[index[0]], index[1:]
        else:
            return i, index


def is_grouping(i: HloInstruction) -> bool:
    """True if an instruction makes no arrays of its own, and nothing runs for it."""
    return i.opcode in _GROUPING or i.opcode in _PASS_ON or is_view(i)


def array_values(computation: HloComputation) -> Mapping[HloInstruction, tuple[ArrayValue, ...]]:
    """For each instruction, the arrays that its flattened value really is.

    A table, for all of a computation at once; `seen_through_tuples` says the same of one part.
    """
    found: dict[HloInstruction, tuple[ArrayValue, ...]] = {}
    for i in computation.instructions:
        if i.opcode == "tuple":
            found[i] = tuple(value for o in i.operands for value in found[o])
        elif i.opcode == "get-tuple-element":
            starts = _starts(i.operands[0].shape)
            found[i] = found[i.operands[0]][starts[i["index"]] : starts[i["index"] + 1]]
        elif i.opcode in _PASS_ON or is_view(i):
            found[i] = found[i.operands[0]]
        else:
            found[i] = tuple(ArrayValue(i, n) for n in range(len(flattened_shapes(i.shape))))
    return found


def last_uses(
    computation: HloComputation, values: Mapping[HloInstruction, tuple[ArrayValue, ...]]
) -> Mapping[ArrayValue, int]:
    """Position of the last instruction that reads each array; the end for those of the root."""
    last: dict[ArrayValue, int] = {}
    for at, i in enumerate(computation.instructions):
        if is_grouping(i):
            continue
        for operand in i.operands:
            for value in values[operand]:
                last[value] = at
    for value in values[computation.root]:
        last[value] = len(computation.instructions)
    return last


@once_per_shape
def _starts(shape: Shape) -> tuple[int, ...]:
    """How many arrays come before each part of a tuple, and all of them."""
    counts = [1 if s.is_array else len(flattened_shapes(s)) for s in shape.tuple_shapes]
    return tuple(accumulate(counts, initial=0))
