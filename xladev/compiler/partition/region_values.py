"""Values that cross borders between regions: who gives them, seen through tuples and their parts.

Unlike the array values of one kernel plan (`hlo/array_values.py`), these also stand for the hidden
sizes of dynamic dimensions, which travel between regions as arrays of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.hlo.array_values import seen_through_tuples
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, ShapeIndex, array, flattened_indices

_SIZE = array(dt.S32)


class RegionValue(NamedTuple):
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
        """Shape of the part; s32[] for a hidden size."""
        if self.dimension >= 0:
            return _SIZE
        return self.producer.shape.subshape(self.part)


def source(instruction: HloInstruction, index: ShapeIndex = ()) -> RegionValue:
    """Who gives part ``index`` of the value of ``instruction``."""
    return RegionValue(*seen_through_tuples(instruction, index))


def sources(instruction: HloInstruction) -> Iterator[RegionValue]:
    """Who gives each array of the value of ``instruction``, in order."""
    return (source(instruction, index) for index in flattened_indices(instruction.shape))


def own_values(instruction: HloInstruction) -> Iterator[RegionValue]:
    """The arrays that ``instruction`` itself gives."""
    return (RegionValue(instruction, index) for index in flattened_indices(instruction.shape))


def with_sizes(values: Iterable[RegionValue]) -> list[RegionValue]:
    """The values, then the hidden sizes of their dynamic dimensions: the order of buffers."""
    data = list(values)
    return data + [size for value in data for size in _sizes(value)]


def _sizes(value: RegionValue) -> Iterator[RegionValue]:
    for dimension, flag in enumerate(value.shape.dynamic):
        if flag:
            yield value._replace(dimension=dimension)


def operand_sources(operands: Sequence[HloInstruction]) -> list[RegionValue]:
    """The arrays of several values one after another, without sizes."""
    return [value for operand in operands for value in sources(operand)]
