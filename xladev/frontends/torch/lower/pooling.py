"""Pooling over windows and over equal parts, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from xladev.frontends.torch.lower.indexing import points, scatter, take
from xladev.frontends.torch.lower.reductions import extreme, lowest
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim
from xladev.hlo.shape import Shape

POOLING = Family("pooling", "Pooling over windows and equal parts.", wide=True)
_lowers = POOLING.lowers

Ints = Sequence[int]


class _Windows:
    """Windows over the last dimensions of an array.

    Padding on the high side is what windows reach beyond the array, with ``ceil_mode`` more than
    was asked for.
    """

    def __init__(
        self, dims: Ints, out: Ints, size: Ints, stride: Ints, padding: Ints, dilation: Ints
    ) -> None:
        rank = len(out)
        self.space = tuple(dims[-rank:])
        self.out = tuple(out)
        self.lead = len(dims) - rank
        self.size = _each(size, rank)
        self.stride = _each(stride or size, rank)
        self.padding = _each(padding, rank)
        self.dilation = _each(dilation, rank)
        self.high = tuple(
            max(0, (o - 1) * s + (k - 1) * d + 1 - n - p)
            for n, o, k, s, p, d in zip(
                self.space, out, self.size, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def window(self) -> tuple[WindowDim, ...]:
        """The windows of a reduce-window."""
        own = [
            WindowDim(k, s, p, (o - 1) * s + (k - 1) * d + 1 - n - p, 1, d)
            for n, o, k, s, p, d in zip(
                self.space, self.out, self.size, self.stride, self.padding, self.dilation,
                strict=True,
            )
        ]  # fmt: skip
        return (*[WindowDim(1)] * self.lead, *own)

    def padded(self, x: Value, value: Number) -> Value:
        """The array with its padding."""
        edges = [(p, h, 0) for p, h in zip(self.padding, self.high, strict=True)]
        return x.pad([(0, 0, 0)] * self.lead + edges, value)

    def places(self) -> Iterator[tuple[int, ...]]:
        """Each place of a window."""
        return product(*map(range, self.size))

    def under(self, padded: Value, place: Ints) -> Value:
        """The elements that lie under one place of all windows."""
        cuts = [(0, n, 1) for n in padded.dims[: self.lead]]
        for at, d, s, o in zip(place, self.dilation, self.stride, self.out, strict=True):
            cuts.append((at * d, at * d + (o - 1) * s + 1, s))
        return padded.slices(cuts)

    def spread(self, x: Value, place: Ints) -> Value:
        """Windows' values put where one place of each lies, zeros elsewhere; padding cut off."""
        edges = [(0, 0, 0)] * self.lead
        for at, d, s, o, n, p in zip(
            place, self.dilation, self.stride, self.out, self.space, self.padding, strict=True
        ):
            first = at * d - p
            edges.append((first, n - first - ((o - 1) * s + 1), s - 1))
        return x.pad(edges)

    def indices(self, b: TensorBuilder, place: Ints) -> Value:
        """The number in the array, row by row, of what lies under one place of each window."""
        total = None
        dims = (*[1] * self.lead, *self.out)
        step = 1
        for at in reversed(range(len(self.out))):
            start = place[at] * self.dilation[at] - self.padding[at]
            along = b.iota(dt.S64, dims, self.lead + at) * self.stride[at] + start
            total = along * step if total is None else total + along * step
            step *= self.space[at]
        assert total is not None
        return total


def _each(values: Ints, count: int) -> tuple[int, ...]:
    return tuple(values) if len(values) == count else (values[0],) * count


def _max_pool(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> list[Value]:
    """The largest of each window, and its number in the array."""
    rank = len(size)
    windows = _Windows(x.dims, out[0].dims[-rank:], size, stride, padding, dilation)
    if not math.prod(out[0].dims):
        return [b.full(0, shape.element_type, shape.dims) for shape in out]
    least = lowest(x.dtype)
    values = x.op(
        "reduce-window",
        b.scalar(least, x.dtype),
        window=windows.window(),
        to_apply=b.combiner("maximum", x.dtype),
    )
    return [values, _argmax(b, x, windows, least)]


def _argmax(b: TensorBuilder, x: Value, windows: _Windows, least: Number) -> Value:
    padded = windows.padded(x, least)
    alike = (*[1] * windows.lead, *windows.space)
    inside = windows.padded(b.full(True, dt.PRED, alike), False)
    best = index = None
    for place in windows.places():
        here = windows.under(padded, place)
        number = windows.indices(b, place).expand(here.dims)
        if best is None or index is None:
            best, index = here, number
            seen = windows.under(inside, place)
            continue
        better = here.gt(best) | (here.is_nan() if x.dtype.is_float else here.like(False, dt.PRED))
        allowed = windows.under(inside, place)
        better = allowed.expand(here.dims) & (better | (~seen).expand(here.dims))
        best, index = better.where(here, best), better.where(number, index)
        seen = seen | allowed
    assert index is not None
    return index


POOLING.add("max_pool2d_with_indices.default", _max_pool, sample="nn.functional.max_pool2d")
POOLING.add("max_pool3d_with_indices.default", _max_pool, sample="nn.functional.max_pool3d")


def _max_pool_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    x: Value,
    size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    index: Value,
) -> Value:
    """The gradient at the largest of each window, added up."""
    windows = _Windows(x.dims, gradient.dims[-len(size) :], size, stride, padding, dilation)
    if not x.size or not gradient.size:
        return b.full(0, x.dtype, out.dims)
    total = None
    for place in windows.places():
        here = index.eq(windows.indices(b, place).expand(index.dims))
        part = windows.spread(here.where(gradient, 0), place)
        total = part if total is None else total + part
    assert total is not None
    return total


POOLING.add(
    "max_pool2d_with_indices_backward.default",
    _max_pool_backward,
    sample="nn.functional.max_pool2d",
)
POOLING.add(
    "max_pool3d_with_indices_backward.default",
    _max_pool_backward,
    sample="nn.functional.max_pool3d",
)


def _counts(windows: _Windows, include: bool, divisor: int | None) -> np.ndarray:
    """By how much the sum of each window is divided."""
    if divisor is not None:
        return np.full(windows.out, float(divisor))
    total = np.ones(())
    for n, o, k, s, p in zip(
        windows.space, windows.out, windows.size, windows.stride, windows.padding, strict=True
    ):
        first = np.arange(o) * s - p
        last = np.minimum(first + k, n + p)
        inside = last - first if include else np.minimum(last, n) - np.maximum(first, 0)
        total = total[..., None] * inside
    return total


def _avg_pool(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """The mean of each window."""
    rank = len(size)
    windows = _Windows(x.dims, out.dims[-rank:], size, stride, padding, (1,))
    if not math.prod(out.dims):
        return b.full(0, x.dtype, out.dims)
    total = x.op(
        "reduce-window",
        b.scalar(0, x.dtype),
        window=windows.window(),
        to_apply=b.combiner("add", x.dtype),
    )
    return total / _divisors(b, windows, x, count_include_pad, divisor_override)


def _divisors(
    b: TensorBuilder, windows: _Windows, x: Value, include: bool, divisor: int | None
) -> Value | Number:
    counts = _counts(windows, include, divisor)
    if counts.size and (counts == counts.flat[0]).all():
        return float(counts.flat[0])
    return b.literal(counts.astype(x.dtype.np), x.dtype)


for _rank in (1, 2, 3):
    POOLING.add(f"avg_pool{_rank}d.default", _avg_pool, sample=f"nn.functional.avg_pool{_rank}d")


def _avg_pool_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    x: Value,
    size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    """The gradient of each window's mean, spread over it."""
    windows = _Windows(x.dims, gradient.dims[-len(size) :], size, stride, padding, (1,))
    if not x.size or not gradient.size:
        return b.full(0, x.dtype, out.dims)
    shares = gradient / _divisors(b, windows, x, count_include_pad, divisor_override)
    edges = [(0, 0, 0)] * windows.lead + [(0, 0, s - 1) for s in windows.stride]
    spread = shares.pad(edges)
    window = [WindowDim(1)] * windows.lead
    for n, o, k, s, p in zip(
        windows.space, windows.out, windows.size, windows.stride, windows.padding, strict=True
    ):
        low = k - 1 - p
        window.append(WindowDim(k, 1, low, n + k - 1 - low - ((o - 1) * s + 1)))
    return spread.op(
        "reduce-window",
        b.scalar(0, x.dtype),
        window=tuple(window),
        to_apply=b.combiner("add", x.dtype),
    )


for _rank in (2, 3):
    POOLING.add(
        f"avg_pool{_rank}d_backward.default",
        _avg_pool_backward,
        sample=f"nn.functional.avg_pool{_rank}d",
    )


# Equal parts


def _part(at: int, size: int, parts: int) -> tuple[int, int]:
    return at * size // parts, -(-(at + 1) * size // parts)


def shares(size: int, parts: int) -> np.ndarray:
    """[part, element]: what an element adds to the mean of a part."""
    weights = np.zeros((parts, size))
    for at in range(parts):
        first, last = _part(at, size, parts)
        weights[at, first:last] = 1 / max(last - first, 1)
    return weights


def along(x: Value, dim: int, weights: np.ndarray) -> Value:
    """A dimension multiplied by a matrix [new size, old size]."""
    matrix = x.builder.literal(weights.astype(x.dtype.np), x.dtype)
    made = x.dot(matrix, (dim,), (1,))
    order = [*range(dim), x.rank - 1, *range(dim, x.rank - 1)]
    return made.transpose(order)


def _adaptive_avg(b: TensorBuilder, out: Shape, x: Value, sizes: Ints) -> Value:
    """The means of parts of about equal size."""
    if not math.prod(out.dims) or not x.size:
        return b.full(0 if not math.prod(out.dims) else math.nan, x.dtype, out.dims)
    for at in range(x.rank - len(sizes), x.rank):
        x = along(x, at, shares(x.dims[at], out.dims[at]))
    return x


def _adaptive_avg_backward(b: TensorBuilder, out: Shape, gradient: Value, x: Value) -> Value:
    """The gradient of each part's mean, spread over it."""
    if not gradient.size or not x.size:
        return b.full(0, x.dtype, out.dims)
    for at in range(gradient.rank):
        if gradient.dims[at] != x.dims[at] or at >= 2:
            gradient = along(gradient, at, shares(x.dims[at], gradient.dims[at]).T)
    return gradient


for _rank in (2, 3):
    _name = f"_adaptive_avg_pool{_rank}d"
    _sample = f"nn.functional.adaptive_avg_pool{_rank}d"
    POOLING.add(f"{_name}.default", _adaptive_avg, sample=_sample)
    POOLING.add(f"{_name}_backward.default", _adaptive_avg_backward, sample=_sample)


def _adaptive_max(b: TensorBuilder, out: Sequence[Shape], x: Value, sizes: Ints) -> list[Value]:
    """The largest of parts of about equal size, and its number in the array."""
    if not math.prod(out[0].dims):
        return [b.full(0, shape.element_type, shape.dims) for shape in out]
    rank = len(sizes)
    lead = x.rank - rank
    space = x.dims[lead:]
    index = _gathered_parts(space, out[0].dims[lead:])
    flat = x.reshape((*x.dims[:lead], math.prod(space)))
    numbers = b.literal(index, dt.S64)
    parts = take(flat, numbers, lead)
    value, at = extreme(parts, parts.rank - 1, largest=True)
    chosen = b.iota(dt.S64, parts.dims, parts.rank - 1).eq(at.reshape((*at.dims, 1)))
    spread = numbers.place(parts.dims, range(lead, parts.rank))
    place = chosen.where(spread, 0).sum((parts.rank - 1,))
    return [value.reshape(out[0].dims), place.reshape(out[1].dims)]


def _gathered_parts(space: Ints, out: Ints) -> np.ndarray:
    """[parts, elements of the largest]: numbers of elements; the first is repeated to fill."""
    rows = []
    for place in product(*map(range, out)):
        ranges = [range(*_part(at, n, o)) for at, n, o in zip(place, space, out, strict=True)]
        rows.append([int(np.ravel_multi_index(p, tuple(space))) for p in product(*ranges)])
    longest = max(map(len, rows))
    return np.array([row + row[:1] * (longest - len(row)) for row in rows], np.int64)


def scattered(b: TensorBuilder, out: Shape, gradient: Value, index: Value, rank: int) -> Value:
    """Gradients added up at numbers of elements of the last dimensions."""
    if not gradient.size:
        return b.full(0, gradient.dtype, out.dims)
    lead = len(out.dims) - rank
    flat = (math.prod(out.dims[:lead]), math.prod(out.dims[lead:]))
    zeros = b.full(0, gradient.dtype, flat)
    rows = (flat[0], gradient.size // max(flat[0], 1))
    add = b.combiner("add", gradient.dtype)
    made = scatter(zeros, 1, index.reshape(rows), gradient.reshape(rows), add)
    return made.reshape(out.dims)


def _scatter_backward(rank: int) -> None:
    def lower(b: TensorBuilder, out: Shape, gradient: Value, x: Value, index: Value) -> Value:
        return scattered(b, out, gradient, index, rank)

    name = f"adaptive_max_pool{rank}d"
    POOLING.add(f"{name}.default", _adaptive_max, sample=f"nn.functional.{name}")
    POOLING.add(
        f"{name}_backward.default",
        lower,
        sample=f"nn.functional.{name}",
        summary="The gradient at the largest of each part, added up.",
    )


for _rank in (2, 3):
    _scatter_backward(_rank)


# Windows at random places


def _fractional(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    size: Ints,
    wanted: Ints,
    samples: Value,
) -> list[Value]:
    """The largest of windows whose places samples say, and its number in the array."""
    if not math.prod(out[0].dims):
        return [b.full(0, shape.element_type, shape.dims) for shape in out]
    rank = len(size)
    lead = x.rank - rank
    space, parts = x.dims[lead:], out[0].dims[lead:]
    batch = (*[1] * (2 - lead), *x.dims[:lead])
    for d, count in enumerate(batch):  # there may be more samples than arrays
        samples = samples.slice(d, 0, count)
    whole = x.reshape((*batch, math.prod(space)))
    dims = (*batch, *parts, *size)
    number = None
    for d in range(rank):
        first = _starts(samples, d if rank == 3 else 1 - d, space[d], parts[d], size[d])
        along_d = first.place(dims, (0, 1, 2 + d)) + b.iota(dt.S64, dims, 2 + rank + d)
        number = along_d if number is None else number * space[d] + along_d
    assert number is not None
    flat = number.reshape((*batch, math.prod(parts), math.prod(size)))
    rows = flat.reshape((*batch, flat.size // math.prod(batch)))
    values = gathered(whole, rows).reshape(flat.dims)
    best, at = extreme(values, 3, largest=True)
    chosen = b.iota(dt.S64, flat.dims, 3).eq(at.reshape((*at.dims, 1)))
    place = chosen.where(flat, 0).sum((3,))
    return [best.reshape(out[0].dims), place.reshape(out[1].dims)]


def _starts(samples: Value, at: int, size: int, parts: int, window: int) -> Value:
    """The first element of each window along a dimension, s64 [batch, channels, parts]."""
    b = samples.builder
    drawn = samples.slice(2, at, at + 1)
    dims = (*samples.dims[:2], parts)
    last = b.iota(dt.S64, dims, 2).eq(parts - 1)
    if parts == 1:
        return b.full(size - window, dt.S64, dims)
    alpha = (size - window) / (parts - 1)
    number = b.iota(samples.dtype, dims, 2)
    spread = drawn.expand(dims)
    found = ((number + spread) * alpha).cast(dt.S64) - (spread * alpha).cast(dt.S64)
    return last.where(size - window, found)


def gathered(x: Value, index: Value) -> Value:
    """For each index, the element of the last dimension that it names."""
    every = tuple(range(x.rank))
    return x.op(
        "gather",
        points(index, x.rank - 1),
        offset_dims=(),
        collapsed_slice_dims=every,
        start_index_map=every,
        index_vector_dim=x.rank,
        slice_sizes=(1,) * x.rank,
    )


def _fractional_backward(rank: int) -> None:
    def lower(
        b: TensorBuilder,
        out: Shape,
        gradient: Value,
        x: Value,
        size: Ints,
        wanted: Ints,
        index: Value,
    ) -> Value:
        return scattered(b, out, gradient, index, rank)

    name = f"fractional_max_pool{rank}d"
    POOLING.add(f"{name}.default", _fractional, sample=f"nn.functional.{name}")
    POOLING.add(
        f"{name}_backward.default",
        lower,
        sample=f"nn.functional.{name}",
        summary="The gradient at the largest of each window, added up.",
    )


for _rank in (2, 3):
    _fractional_backward(_rank)
