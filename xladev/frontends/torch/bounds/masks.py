"""Calls lowered so that elements which only fill an array up never count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from xladev.frontends.torch.bounds.extents import Extent, Extents, is_filled, size_of
from xladev.frontends.torch.bounds.plan import Change
from xladev.frontends.torch.lower.reductions import highest, lowest
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

_NUMBERS: Mapping[str, Callable[[PrimitiveType], Number]] = {
    "zero": lambda to: 0,
    "one": lambda to: 1,
    "lowest": lowest,
    "highest": highest,
}


class Masks:
    """Masks of one program.

    Args:
        builder: the program's.
        sizes: of each symbol, s32[].
    """

    def __init__(self, builder: TensorBuilder, sizes: Mapping[Any, Value]) -> None:
        self._builder = builder
        self.sizes = sizes
        self._made: dict[Extent, Value] = {}

    def counts(self, extent: Extent) -> Value:
        """Whether each element of a dimension counts."""
        if extent not in self._made:
            self._made[extent] = self._counts(extent)
        return self._made[extent]

    def _counts(self, extent: Extent) -> Value:
        b, dims = self._builder, tuple(f.size for f in extent)
        found = b.full(True, dt.PRED, dims)
        for at, factor in enumerate(extent):
            if factor.symbol is not None:
                found = found & b.iota(dt.S32, dims, at).lt(self.sizes[factor.symbol])
        return found.reshape((size_of(extent),))

    def filled(self, x: Value, extents: Extents, fill: str) -> Value:
        """An array with another number where its elements do not count."""
        number = _NUMBERS[fill](x.dtype)
        for at, extent in enumerate(extents):
            if is_filled(extent):
                x = self.counts(extent).place(x.dims, (at,)).where(x, number)
        return x

    def share(self, divisor: Sequence[Extent], to: PrimitiveType) -> Value:
        """Which part of the elements along dimensions count."""
        found = self._builder.scalar(1, to)
        for extent in divisor:
            for factor in extent:
                if factor.symbol is not None:
                    found = found * (self.sizes[factor.symbol].cast(to) / factor.size)
        return found

    def product(self, number: int, symbols: Sequence[Any]) -> Value:
        """A number times sizes, s64[]."""
        found = self._builder.scalar(number, dt.S64)
        for symbol in symbols:
            found = found * self.sizes[symbol].cast(dt.S64)
        return found

    def seen_keys(self, extent: Extent, mask: Value | None) -> Value:
        """A mask of attention that hides keys which do not count as well."""
        counts = self.counts(extent)
        if mask is None:
            return counts
        wide = counts.place(mask.dims, (mask.rank - 1,))
        return wide.where(mask, lowest(mask.dtype))


def argument(
    masks: Masks, change: Change, extents: Mapping[Any, Any], look: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """How a changed call looks at its arguments."""

    def see(value: Any) -> Any:
        if isinstance(value, torch.fx.Node) and value in change.numbers:
            return masks.product(*change.numbers[value])
        if isinstance(value, torch.fx.Node) and value in change.fills:
            return masks.filled(look(value), extents[value], change.fills[value])
        if isinstance(value, (list, tuple)):
            return [see(each) for each in value]
        return look(value)

    return see


def mean_of_those_that_count(masks: Masks, change: Change, made: Value) -> Value:
    """A mean, of which the divisor was all elements."""
    to = dt.F32 if made.dtype in (dt.BF16, dt.F16) else made.dtype
    real = to if not to.is_complex else dt.F64
    share = masks.share(change.divisor, real).cast(to)
    return (made.cast(to) / share).cast(made.dtype)


def element_from_end(size: Value, x: Value, dim: int, index: int) -> Value:
    """The element at a negative index of a dimension that has a size."""
    d = dim % x.rank
    zero = x.builder.scalar(0, dt.S32)
    starts = [size + index if at == d else zero for at in range(x.rank)]
    sizes = tuple(1 if at == d else n for at, n in enumerate(x.dims))
    part = x.op("dynamic-slice", *starts, dynamic_slice_sizes=sizes)
    return part.reshape(n for at, n in enumerate(x.dims) if at != d)


def put_from_end(size: Value, x: Value, part: Value, dim: int, index: int) -> Value:
    """An array whose element at a negative index of a dimension is another."""
    d = dim % x.rank
    is_it = x.builder.iota(dt.S32, x.dims, d).eq(size + index)
    wide = part.place(x.dims, [at for at in range(x.rank) if at != d])
    return is_it.where(wide.cast(x.dtype), x)
