"""Which array each leaf of each value really is: tuples only group, and reshapes only rename."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape, once_per_shape
from xladev.hlo.views import is_view


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a result: the instruction that makes it, and its number among the leaves."""

    instruction: HloInstruction
    number: int

    @property
    def shape(self) -> Shape:
        """Shape of the array."""
        return leaf_shapes(self.instruction.shape)[self.number]


@once_per_shape
def leaf_shapes(shape: Shape) -> tuple[Shape, ...]:
    """Shapes of the leaves, in order; tokens among them."""
    return (shape,) if not shape.is_tuple else tuple(leaf for _, leaf in shape.leaves())


_PASS_ON = frozenset({"opt-barrier", "add-dependency", "domain"})


def sources(computation: HloComputation) -> Mapping[HloInstruction, tuple[Leaf, ...]]:
    """For each instruction, the leaves that its own leaves are, seen through what groups them."""
    found: dict[HloInstruction, tuple[Leaf, ...]] = {}
    for i in computation.instructions:
        if i.opcode == "tuple":
            found[i] = tuple(leaf for o in i.operands for leaf in found[o])
        elif i.opcode == "get-tuple-element":
            found[i] = _part(found[i.operands[0]], i.operands[0].shape, i["index"])
        elif i.opcode in _PASS_ON or is_view(i):
            found[i] = found[i.operands[0]]
        else:
            found[i] = tuple(Leaf(i, n) for n in range(len(leaf_shapes(i.shape))))
    return found


def _part(leaves: tuple[Leaf, ...], shape: Shape, index: int) -> tuple[Leaf, ...]:
    starts = _starts(shape)
    return leaves[starts[index] : starts[index + 1]]


@once_per_shape
def _starts(shape: Shape) -> tuple[int, ...]:
    """How many leaves come before each part of a tuple, and all of them."""
    counts = [1 if s.is_array else len(leaf_shapes(s)) for s in shape.tuple_shapes]
    return tuple(accumulate(counts, initial=0))


_GROUPING = frozenset({"tuple", "get-tuple-element"}) | _PASS_ON


def is_grouping(i: HloInstruction) -> bool:
    """True if an instruction makes no leaves of its own, and nothing runs for it."""
    return i.opcode in _GROUPING or is_view(i)


def last_uses(
    computation: HloComputation, source: Mapping[HloInstruction, tuple[Leaf, ...]]
) -> Mapping[Leaf, int]:
    """Position of the last instruction that reads each leaf; the end for leaves of the root."""
    last: dict[Leaf, int] = {}
    for at, i in enumerate(computation.instructions):
        if is_grouping(i):
            continue
        for operand in i.operands:
            for leaf in source[operand]:
                last[leaf] = at
    for leaf in source[computation.root]:
        last[leaf] = len(computation.instructions)
    return last
