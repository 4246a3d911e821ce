"""Leaves that cross borders between regions: who gives them, seen through tuples and their parts.

Unlike `compiler/plan/leaves.py`, which numbers the leaves of one kernel plan, these also stand for
the hidden sizes of dynamic dimensions, which travel between regions as arrays of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, ShapeIndex, array

_SIZE = array(dt.S32)


class ValueLeaf(NamedTuple):
    """One array or token that an instruction other than a tuple or its part gives.

    Attributes:
        producer: who gives it.
        part: which part of its result; empty if all of it.
        dimension: -1 for the data; else the hidden size of this dynamic dimension.
    """

    producer: HloInstruction
    part: ShapeIndex = ()
    dimension: int = -1

    @property
    def shape(self) -> Shape:
        """Shape of the leaf; s32[] for a hidden size."""
        if self.dimension >= 0:
            return _SIZE
        return self.producer.shape.subshape(self.part)


def source(instruction: HloInstruction, index: ShapeIndex = ()) -> ValueLeaf:
    """Who gives part ``index`` of the value of ``instruction``."""
    while True:
        if instruction.opcode == "get-tuple-element":
            index = (instruction["index"], *index)
            instruction = instruction.operands[0]
        elif instruction.opcode == "tuple" and index:
            instruction, index = instruction.operands[index[0]], index[1:]
        else:
            return ValueLeaf(instruction, index)


def sources(instruction: HloInstruction) -> Iterator[ValueLeaf]:
    """Who gives each leaf of the value of ``instruction``, in order."""
    return (source(instruction, index) for index, _ in instruction.shape.leaves())


def own_leaves(instruction: HloInstruction) -> Iterator[ValueLeaf]:
    """The leaves that ``instruction`` itself gives."""
    return (ValueLeaf(instruction, index) for index, _ in instruction.shape.leaves())


def with_sizes(leaves: Iterable[ValueLeaf]) -> list[ValueLeaf]:
    """The leaves, then the hidden sizes of their dynamic dimensions: the order of buffers."""
    data = list(leaves)
    return data + [size for leaf in data for size in _sizes(leaf)]


def _sizes(leaf: ValueLeaf) -> Iterator[ValueLeaf]:
    for dimension, flag in enumerate(leaf.shape.dynamic):
        if flag:
            yield leaf._replace(dimension=dimension)


def operand_sources(operands: Sequence[HloInstruction]) -> list[ValueLeaf]:
    """The leaves of several values one after another, without sizes."""
    return [leaf for operand in operands for leaf in sources(operand)]
