"""Accumulators of a reduction along a row: each takes a vector of elements an iteration.

Where the largest of two floats is no single instruction (x86: NaN and the signs of zeros take
several, each waiting for the last), maxima and minima are kept in three parts: the extreme of the
numbers, whether there was a NaN, and the sign of a zero. Only at the end of the row one result is
made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from types import MappingProxyType

from xladev.codegen.llvm import I1, FunctionBuilder, IrType, Value, constant, integer, vector
from xladev.codegen.reductions import Reduction

_BEYOND: Mapping[str, str] = MappingProxyType({"maximum": "ogt", "minimum": "olt"})
_MASK_NBYTES = 64
"""Vectors of so many bytes are compared into mask registers, narrower ones into vectors."""


@dataclass(frozen=True, slots=True)
class Accumulators(ABC):
    """What a reduction holds while it goes along a row.

    Attributes:
        reduction: what is reduced.
        copies: vectors of elements that come in one iteration.
        lanes: elements of one vector.
    """

    reduction: Reduction
    copies: int
    lanes: int

    @abstractmethod
    def start(self) -> list[Value]:
        """What is held of no elements; as many values are held at any time."""

    @abstractmethod
    def take(self, b: FunctionBuilder, held: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        """What is held after one more iteration."""

    @abstractmethod
    def total(self, b: FunctionBuilder, held: Sequence[Value]) -> Value:
        """All that was taken, as one element."""


class _Combined(Accumulators):
    """Each vector with an accumulator of its own."""

    __slots__ = ()

    def start(self) -> list[Value]:
        return [self.reduction.start(self.lanes)] * self.copies

    def take(self, b: FunctionBuilder, held: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        return [self.reduction.combine(b, x, y) for x, y in zip(held, new, strict=True)]

    def total(self, b: FunctionBuilder, held: Sequence[Value]) -> Value:
        total = self.reduction.by_halves(b, held)
        while total.lanes > 1:
            total = self.reduction.combine(b, *_halves(b, total))
        return total


class _Extremes(Accumulators):
    """Extremes of the numbers, then for each pair of vectors whether NaN came, and signs.

    Signs are the bits of all elements together: "and" for maxima, "or" for minima. They matter
    where the extreme is zero: no element is beyond it, so the bit of the sign is that of zeros.
    """

    __slots__ = ()

    def start(self) -> list[Value]:
        bits = integer(self.reduction.type.bits)
        signs = constant(vector(bits, self.lanes), -1 if self._is_maximum else 0)
        pairs = -(-self.copies // 2)
        numbers = [self.reduction.start(self.lanes)] * self.copies
        return [*numbers, *[constant(self._mask, 0)] * pairs, *[signs] * pairs]

    def take(self, b: FunctionBuilder, held: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        numbers, masks, signs = self._parts(held)
        numbers = [self._further(b, y, x) for x, y in zip(numbers, new, strict=True)]
        for n, first in enumerate(new[::2]):
            second = new[min(2 * n + 1, len(new) - 1)]
            masks[n] = b.or_(masks[n], self._as_mask(b, b.fcmp("uno", first, second)))
            for element in new[2 * n : 2 * n + 2]:
                signs[n] = self._sign(b, signs[n], b.bitcast(element, integer(element.type.bits)))
        return [*numbers, *masks, *signs]

    def total(self, b: FunctionBuilder, held: Sequence[Value]) -> Value:
        numbers, masks, signs = self._parts(held)
        number, mask, sign = numbers[0], masks[0], signs[0]
        for other in numbers[1:]:
            number = self._further(b, other, number)
        for other_mask, other_sign in zip(masks[1:], signs[1:], strict=True):
            mask, sign = b.or_(mask, other_mask), self._sign(b, sign, other_sign)
        while number.lanes > 1:
            number = self._further(b, *_halves(b, number))
            sign = self._sign(b, *_halves(b, sign))
        lowest = constant(sign.type, -1 << (sign.type.bits - 1))
        zero = b.bitcast(b.and_(sign, lowest), self.reduction.type)
        number = b.select(b.fcmp("oeq", number, 0.0), zero, number)
        found = b.icmp("ne", b.any(mask), 0)
        return b.select(found, constant(self.reduction.type, nan), number)

    @property
    def _is_maximum(self) -> bool:
        return self.reduction.opcode == "maximum"

    @property
    def _mask(self) -> IrType:
        """The type of what says where NaN came."""
        wide = self.lanes * self.reduction.type.bits // 8 >= _MASK_NBYTES
        return vector(I1 if wide else integer(self.reduction.type.bits), self.lanes)

    def _as_mask(self, b: FunctionBuilder, condition: Value) -> Value:
        element = self._mask.scalar()
        return condition if element == I1 else b.cast("sext", condition, element)

    def _parts(self, held: Sequence[Value]) -> tuple[list[Value], list[Value], list[Value]]:
        pairs = -(-self.copies // 2)
        masks = self.copies + pairs
        return list(held[: self.copies]), list(held[self.copies : masks]), list(held[masks:])

    def _further(self, b: FunctionBuilder, new: Value, held: Value) -> Value:
        """The one beyond; what is held where they are equal, or the new one is NaN."""
        return b.select(b.fcmp(_BEYOND[self.reduction.opcode], new, held), new, held)

    def _sign(self, b: FunctionBuilder, x: Value, y: Value) -> Value:
        return b.and_(x, y) if self._is_maximum else b.or_(x, y)


def accumulators(b: FunctionBuilder, reduction: Reduction, copies: int, lanes: int) -> Accumulators:
    """How a reduction is held on the machine that code is written for."""
    in_parts = (
        reduction.opcode in _BEYOND
        and reduction.dtype.is_float
        and not b.module.target.has_extremes
    )
    return (_Extremes if in_parts else _Combined)(reduction, copies, lanes)


def _halves(b: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """Lanes 0 to n/2, and those from n/2 on."""
    half = x.lanes // 2
    if half == 1:
        return b.extract(x, 0), b.extract(x, 1)
    low = b.shuffle(x, x, tuple(range(half)))
    return low, b.shuffle(x, x, tuple(range(half, 2 * half)))
