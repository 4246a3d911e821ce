"""Index arithmetic on i64 values and Python integers, folded where both are known."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.codegen.llvm import I64, FunctionBuilder, Value

IndexValue = Value | int
"""One coordinate: an SSA value of type i64, or a number known now."""

Index = tuple[IndexValue, ...]
"""Coordinates of one element, outermost dimension first."""


class IndexMath:
    """Emits index arithmetic; never emits what can be computed now."""

    def __init__(self, b: FunctionBuilder) -> None:
        self.b = b

    def value(self, x: IndexValue) -> Value:
        """The coordinate as an SSA value or constant."""
        return x if isinstance(x, Value) else self.b.const(I64, x)

    def moves(self, x: IndexValue) -> bool:
        """True if the coordinate differs from lane to lane of a vector."""
        return False

    def add(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Sum."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0 and isinstance(x, int):
            return y
        if y == 0 and isinstance(y, int):
            return x
        return self.b.add(x, y)

    def sub(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Difference."""
        if isinstance(x, int) and isinstance(y, int):
            return x - y
        return x if isinstance(y, int) and y == 0 else self.b.sub(x, y)

    def mul(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Product."""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        for one, other in ((x, y), (y, x)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        return self.b.mul(x, y)

    def div(self, x: IndexValue, y: int) -> IndexValue:
        """Quotient of a coordinate that is not negative."""
        if isinstance(x, int):
            return x // y
        return x if y == 1 else self.b.udiv(x, y)

    def rem(self, x: IndexValue, y: int) -> IndexValue:
        """Remainder of a coordinate that is not negative."""
        if isinstance(x, int):
            return x % y
        return 0 if y == 1 else self.b.urem(x, y)

    def linear(self, index: Sequence[IndexValue], dims: Sequence[int]) -> IndexValue:
        """Position in row-major order."""
        total: IndexValue = 0
        for i, size in zip(index, dims, strict=True):
            total = self.add(self.mul(total, size), 0 if size == 1 else i)
        return total

    def strided(self, index: Sequence[IndexValue], strides: Sequence[int]) -> IndexValue:
        """Sum of coordinates times strides."""
        total: IndexValue = 0
        for i, stride in zip(index, strides, strict=True):
            total = self.add(total, self.mul(i, stride))
        return total

    def delinear(self, position: IndexValue, dims: Sequence[int]) -> Index:
        """Coordinates of a row-major position."""
        index: list[IndexValue] = []
        for axis in range(len(dims)):
            inner = prod(dims[axis + 1 :])
            quotient = self.div(position, max(inner, 1))
            index.append(self.rem(quotient, dims[axis]) if axis else quotient)
        return tuple(0 if size == 1 else i for i, size in zip(index, dims, strict=True))

    def within(self, x: IndexValue, low: int, high: int) -> Value | bool:
        """Whether ``low <= x < high``; a Python bool where known now."""
        if isinstance(x, int):
            return low <= x < high
        shifted = self.sub(x, low)
        return self.b.icmp("ult", self.value(shifted), max(high - low, 0))

    def uniform(self, x: IndexValue) -> IndexValue:
        """A coordinate that decides whether there is an element: of a vector, for all lanes."""
        return x

    def all_of(self, conditions: Sequence[Value | bool]) -> Value | bool:
        """Conjunction."""
        known: Value | None = None
        for condition in conditions:
            if isinstance(condition, bool):
                if not condition:
                    return False
                continue
            known = condition if known is None else self.b.and_(known, condition)
        return True if known is None else known

    def clamp(self, x: IndexValue, low: int, high: int) -> IndexValue:
        """The coordinate limited to ``low..high`` (signed)."""
        if isinstance(x, int):
            return min(max(x, low), high)
        if low == high:
            return low
        return self.b.intrinsic("smin", self.b.intrinsic("smax", x, low), high)
