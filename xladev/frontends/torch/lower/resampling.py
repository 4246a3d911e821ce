"""Resampling of images: sampling on a grid, antialiased scaling, replicated borders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xladev.frontends.torch.lower.indexing import points, scatter
from xladev.frontends.torch.lower.pooling import along
from xladev.frontends.torch.lower.table import Family, NotLowered
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.frontends.torch.lower.views import concatenate
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

RESAMPLING = Family("resampling", "Resampling of images.", wide=True)
_lowers = RESAMPLING.lowers

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


def _on_grid(x: Value, size: int, *, align: bool) -> tuple[Value, float]:
    """From [-1, 1] to places of elements, and how fast these change."""
    if align:
        return (x + 1) * ((size - 1) / 2), (size - 1) / 2
    return ((x + 1) * size - 1) * 0.5, size / 2


def _kept_inside(x: Value, size: int, padding: int, *, align: bool) -> tuple[Value, Value]:
    """Places inside the image by the rule of padding, and the factor of the gradient."""
    one = x.like(1)
    if padding == _ZEROS:
        return x, one
    sign = one
    if padding == _REFLECTION:
        x, sign = _reflected(x, size, align=align)
    clipped = x.maximum(0).minimum(size - 1)
    inside = x.gt(0) & x.lt(size - 1)
    return clipped, inside.where(sign, 0)


def _reflected(x: Value, size: int, *, align: bool) -> tuple[Value, Value]:
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if span <= 0:
        return x.like(0), x.like(0)
    away = x - low
    sign = away.lt(0).where(away.like(-1), away.like(1))
    size_of = away.abs()
    rest = size_of.op("remainder", x.like(span))
    turns = ((size_of / span).floor()).cast(dt.S32) & 1
    odd = turns.ne(0)
    place = odd.where(span - rest, rest) + low
    return place, odd.where(-sign, sign)


class _Sampling:
    """Where the elements of a grid lie in an image [batch, channels, space...]."""

    def __init__(self, x: Value, grid: Value, mode: int, padding: int, *, align: bool) -> None:
        self.x, self.mode = x, mode
        self.space = x.dims[2:]
        self.batch, self.channels = x.dims[:2]
        self.count = prod(grid.dims[1:-1])
        self.places: list[Value] = []
        self.factors: list[Value] = []
        rank = len(self.space)
        flat = grid.reshape((self.batch, self.count, rank))
        for d, size in enumerate(self.space):
            own = rank - 1 - d
            raw = flat.slice(2, own, own + 1).reshape((self.batch, self.count))
            place, speed = _on_grid(raw, size, align=align)
            inside, factor = _kept_inside(place, size, padding, align=align)
            self.places.append(inside)
            self.factors.append(factor * speed)

    def corners(self) -> list[tuple[list[Value], Value, list[Value]]]:
        """For each element that takes part: its index in each dimension, its weight, and how the
        weight changes along each dimension."""
        if self.mode == _NEAREST:
            near = [p.op("round-nearest-even") for p in self.places]
            one = near[0].like(1)
            return [(near, one, [one.like(0)] * len(near))]
        first = [p.floor() for p in self.places]
        found = []
        for corner in product((0, 1), repeat=len(first)):
            index = [f + c for f, c in zip(first, corner, strict=True)]
            parts = [
                p - f if c else f + 1 - p
                for p, f, c in zip(self.places, first, corner, strict=True)
            ]
            slopes = []
            for d in range(len(parts)):
                slope = parts[0].like(1.0 if corner[d] else -1.0)
                for other, part in enumerate(parts):
                    slope = slope * part if other != d else slope
                slopes.append(slope)
            weight = parts[0]
            for part in parts[1:]:
                weight = weight * part
            found.append((index, weight, slopes))
        return found

    def flat_index(self, index: Sequence[Value]) -> tuple[Value, Value]:
        """The number of each element in the image, s64, and whether it is one."""
        inside, number = None, None
        for at, size in zip(index, self.space, strict=True):
            here = at.ge(0) & at.le(size - 1)
            inside = here if inside is None else inside & here
            safe = at.maximum(0).minimum(size - 1).cast(dt.S64)
            number = safe if number is None else number * size + safe
        assert inside is not None and number is not None
        return number, inside

    def spread(self, each: Value) -> Value:
        """A value of each place of the grid, for every channel."""
        return each.place((self.batch, self.channels, self.count), (0, 2))

    def values(self, number: Value) -> Value:
        """The image's elements, [batch, channels, count]."""
        flat = self.x.reshape((self.batch, self.channels, prod(self.space)))
        every = (0, 1, 2)
        return flat.op(
            "gather",
            points(self.spread(number), 2),
            offset_dims=(),
            collapsed_slice_dims=every,
            start_index_map=every,
            index_vector_dim=3,
            slice_sizes=(1, 1, 1),
        )


def _grid_sampler(
    b: TensorBuilder, out: Shape, x: Value, grid: Value, mode: int, padding: int, align: bool
) -> Value:
    """The image at the places of a grid: nearest elements, or linearly between them."""
    if mode not in (_BILINEAR, _NEAREST):
        raise NotLowered("sampling on a grid, bicubic")
    if not prod(out.dims) or not x.size:
        return b.full(0, x.dtype, out.dims)
    sampling = _Sampling(x, grid, mode, padding, align=align)
    total = None
    for index, weight, _ in sampling.corners():
        number, inside = sampling.flat_index(index)
        part = sampling.values(number) * sampling.spread(inside.where(weight, 0))
        total = part if total is None else total + part
    assert total is not None
    return total.reshape(out.dims)


def _grid_sampler_backward(
    b: TensorBuilder,
    out: Sequence[Shape | None],
    gradient: Value,
    x: Value,
    grid: Value,
    mode: int,
    padding: int,
    align: bool,
    mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of the image and of the grid."""
    if mode not in (_BILINEAR, _NEAREST):
        raise NotLowered("the gradient of sampling on a grid, bicubic")
    sampling = _Sampling(x, grid, mode, padding, align=align)
    flat = gradient.reshape((sampling.batch, sampling.channels, sampling.count))
    image = b.full(0, x.dtype, (*x.dims[:2], prod(sampling.space)))
    slopes: list[Value] = [p.like(0) for p in sampling.places]
    for index, weight, changes in sampling.corners():
        number, inside = sampling.flat_index(index)
        shares = flat * sampling.spread(inside.where(weight, 0))
        add = b.combiner("add", x.dtype)
        if mask[0]:
            image = scatter(image, 2, sampling.spread(number), shares, add)
        along_channels = (flat * sampling.values(number)).sum((1,))
        for d, change in enumerate(changes):
            slopes[d] = slopes[d] + inside.where(along_channels * change, 0)
    parts = [
        (s * f).reshape((sampling.batch, sampling.count, 1))
        for s, f in zip(reversed(slopes), reversed(sampling.factors), strict=True)
    ]
    return [
        image.reshape(x.dims) if mask[0] else None,
        concatenate(parts, 2).reshape(grid.dims) if out[1] is not None else None,
    ]


_SAMPLE = "nn.functional.grid_sample"
RESAMPLING.add("grid_sampler_3d.default", _grid_sampler, sample="grid_sampler_3d")
RESAMPLING.add("grid_sampler_2d_backward.default", _grid_sampler_backward, sample=_SAMPLE)
RESAMPLING.add("grid_sampler_3d_backward.default", _grid_sampler_backward, sample="grid_sampler_3d")


def antialiasing_weights(size: int, wanted: int, scale: float) -> Any:
    """[new, old]: triangles as wide as what one new element covers (torch's antialias=True)."""
    support = max(scale, 1.0)
    weights = np.zeros((wanted, size))
    for at in range(wanted):
        centre = scale * (at + 0.5)
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), size)
        near = np.arange(first, last) - centre + 0.5
        shape = np.maximum(0, 1 - np.abs(near / support))
        weights[at, first:last] = shape / max(shape.sum(), 1e-300)
    return weights


def _scale(size: int, wanted: int, given: float | None, *, align: bool) -> float:
    if align:
        return (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / given if given else size / wanted


@_lowers("_upsample_bilinear2d_aa.default", sample="_upsample_bilinear2d_aa")
def _upsample_aa(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    sizes: Sequence[int],
    align: bool,
    scale_h: float | None = None,
    scale_w: float | None = None,
) -> Value:
    """An image in another size, antialiased."""
    for dim, given in ((2, scale_h), (3, scale_w)):
        size, wanted = x.dims[dim], out.dims[dim]
        scale = _scale(size, wanted, given, align=align)
        x = along(x, dim, antialiasing_weights(size, wanted, scale))
    return x


@_lowers("_upsample_bilinear2d_aa_backward.default", sample="_upsample_bilinear2d_aa")
def _upsample_aa_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    sizes: Sequence[int],
    old: Sequence[int],
    align: bool,
    scale_h: float | None = None,
    scale_w: float | None = None,
) -> Value:
    """The gradient of an image that was brought to another size."""
    for dim, given in ((2, scale_h), (3, scale_w)):
        size, wanted = out.dims[dim], gradient.dims[dim]
        scale = _scale(size, wanted, given, align=align)
        gradient = along(gradient, dim, antialiasing_weights(size, wanted, scale).T)
    return gradient


def _replication_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, edges: Sequence[int]
) -> Value:
    """The gradient of an array whose border was repeated."""
    for at in range(len(edges) // 2):
        dim = x.rank - 1 - at
        size, wide = x.dims[dim], gradient.dims[dim]
        source = np.clip(np.arange(wide) - edges[2 * at], 0, size - 1)
        weights = np.zeros((size, wide))
        weights[source, np.arange(wide)] = 1
        gradient = along(gradient, dim, weights)
    return gradient


for _rank in (1, 2, 3):
    RESAMPLING.add(
        f"replication_pad{_rank}d_backward.default",
        _replication_backward,
        sample="nn.functional.pad.replicate",
    )
