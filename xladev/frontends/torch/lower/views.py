"""Shapes, views and joins, and what makes arrays of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

VIEWS = Family("views", "Sizes, views, copies and joins.")
_lowers = VIEWS.lowers


def at_dim(dim: int, rank: int) -> int:
    """A dimension counted from the beginning."""
    return dim % rank if rank else 0


@_lowers(
    "view.default",
    "view_copy.default",
    "reshape.default",
    "_unsafe_view.default",
    "unsqueeze.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "_reshape_alias.default",
    sample="view",
)
def _view(b: TensorBuilder, out: Shape, x: Value, *_: Any, **__: Any) -> Value:
    """The same elements in other sizes."""
    return x.reshape(out.dims)


@_lowers("resize.default", sample="resize_")
def _resize(b: TensorBuilder, out: Shape, x: Value, *_: Any, **__: Any) -> Value:
    """The first elements in other sizes."""
    size = prod(out.dims)
    flat = x.reshape((x.size,))
    if size > x.size:
        flat = flat.pad([(0, size - x.size, 0)])
    return flat.slice(0, 0, size).reshape(out.dims)


@_lowers("permute.default", "permute_copy.default")
def _permute(b: TensorBuilder, out: Shape, x: Value, order: Sequence[int]) -> Value:
    """Dimensions in another order."""
    return x.transpose([at_dim(d, x.rank) for d in order])


@_lowers("t.default")
def _t(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Rows and columns exchanged."""
    return x.transpose((1, 0)) if x.rank == 2 else x


@_lowers("transpose.int")
def _transpose(b: TensorBuilder, out: Shape, x: Value, first: int, second: int) -> Value:
    """Two dimensions exchanged."""
    order = list(range(x.rank))
    if order:
        i, j = at_dim(first, x.rank), at_dim(second, x.rank)
        order[i], order[j] = order[j], order[i]
    return x.transpose(order)


@_lowers("expand.default", "expand_copy.default")
def _expand(b: TensorBuilder, out: Shape, x: Value, *_: Any, **__: Any) -> Value:
    """Dimensions of size 1 repeated."""
    return x.expand(out.dims)


@_lowers(
    "clone.default",
    "alias.default",
    "detach.default",
    "lift_fresh_copy.default",
    "lift_fresh.default",
    "contiguous.default",
    "_to_copy.default",
    "to.dtype",
    "prims.convert_element_type.default",
    "prims.device_put.default",
    "prims.clone.default",
    "prims.view_of.default",
    "resolve_conj.default",
    "resolve_neg.default",
    sample="clone",
)
def _same(b: TensorBuilder, out: Shape, x: Value, *_: Any, **__: Any) -> Value:
    """The same elements, in the type of the result."""
    return x.cast(out.element_type)


@_lowers("copy.default", "copy_.default", sample="add")
def _copy(b: TensorBuilder, out: Shape, x: Value, source: Value, *_: Any) -> Value:
    """The second operand in the first one's type and sizes."""
    return operand(b, source, out.element_type, out.dims)


def concatenate(parts: Sequence[Value], dim: int) -> Value:
    """Arrays of one type joined along a dimension."""
    first, *rest = parts
    return first.op("concatenate", *rest, dimensions=(dim,)) if rest else first


@_lowers("cat.default")
def _cat(b: TensorBuilder, out: Shape, parts: Sequence[Value], dim: int = 0) -> Value:
    """Arrays joined along a dimension; an empty array of one dimension is left out."""
    kept = [p.cast(out.element_type) for p in parts if p.dims != (0,) or len(out.dims) == 1]
    full = [p for p in kept if p.size]
    if not full:
        return b.full(0, out.element_type, out.dims)
    return concatenate(full, at_dim(dim, len(out.dims)))


@_lowers("stack.default")
def _stack(b: TensorBuilder, out: Shape, parts: Sequence[Value], dim: int = 0) -> Value:
    """Arrays joined along a new dimension."""
    at = at_dim(dim, len(out.dims))
    each = (*out.dims[:at], 1, *out.dims[at + 1 :])
    return concatenate([p.cast(out.element_type).reshape(each) for p in parts], at)


@_lowers("slice.Tensor", "slice_copy.Tensor", sample="slice")
def _slice(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """Part of a dimension."""
    d = at_dim(dim, x.rank)
    first, limit = bounds(x.dims[d], start, end)
    return x.slice(d, first, limit, step)


@_lowers("narrow_copy.default")
def _narrow(b: TensorBuilder, out: Shape, x: Value, dim: int, start: int, length: int) -> Value:
    """So many elements of a dimension."""
    first = start + x.dims[at_dim(dim, x.rank)] if start < 0 else start
    return x.slice(at_dim(dim, x.rank), first, first + length)


def bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """First index and the one behind the last, from what Python's slices allow."""
    first, limit, _ = slice(start, end).indices(size)
    return first, max(first, limit)


@_lowers("select.int", "select_copy.int", sample="select")
def _select(b: TensorBuilder, out: Shape, x: Value, dim: int, index: int) -> Value:
    """One index of a dimension."""
    d = at_dim(dim, x.rank)
    at = index % x.dims[d]
    return x.slice(d, at, at + 1).reshape(out.dims)


@_lowers("split_with_sizes.default", "split_with_sizes_copy.default")
def _split_with_sizes(
    b: TensorBuilder, out: Sequence[Shape], x: Value, sizes: Sequence[int], dim: int = 0
) -> list[Value]:
    """Cut into parts of these sizes."""
    d, at = at_dim(dim, x.rank), 0
    parts = []
    for size in sizes:
        parts.append(x.slice(d, at, at + size))
        at += size
    return parts


@_lowers("split.Tensor")
def _split(
    b: TensorBuilder, out: Sequence[Shape], x: Value, size: int, dim: int = 0
) -> list[Value]:
    """Cut into parts of one size."""
    d = at_dim(dim, x.rank)
    return _split_with_sizes(b, out, x, [shape.dims[d] for shape in out], dim)


@_lowers("unbind.int", "unbind_copy.int")
def _unbind(b: TensorBuilder, out: Sequence[Shape], x: Value, dim: int = 0) -> list[Value]:
    """Each index of a dimension."""
    d = at_dim(dim, x.rank)
    return [x.slice(d, at, at + 1).reshape(shape.dims) for at, shape in enumerate(out)]


@_lowers("repeat.default")
def _repeat(b: TensorBuilder, out: Shape, x: Value, times: Sequence[int]) -> Value:
    """Repeated along each dimension."""
    lead = len(times) - x.rank
    dims = [1] * lead + list(x.dims)
    split = [n for pair in zip(times, dims, strict=True) for n in pair]
    at = [2 * (d + lead) + 1 for d in range(x.rank)]
    return x.place(tuple(split), at).reshape(out.dims)


@_lowers("flip.default")
def _flip(b: TensorBuilder, out: Shape, x: Value, dims: Sequence[int]) -> Value:
    """Dimensions from end to beginning."""
    return x.reverse(sorted({at_dim(d, x.rank) for d in dims})) if x.rank else x


@_lowers("roll.default")
def _roll(
    b: TensorBuilder, out: Shape, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()
) -> Value:
    """Moved along dimensions, what leaves at the end coming in at the beginning."""
    if not dims:
        flat = x.reshape((x.size,))
        return _roll(b, out, flat, shifts, [0]).reshape(out.dims) if x.size else x
    for shift, dim in zip(shifts, dims, strict=True):
        d = at_dim(dim, x.rank)
        size = x.dims[d]
        cut = -shift % size if size else 0
        if cut:
            x = concatenate([x.slice(d, cut, size), x.slice(d, 0, cut)], d)
    return x


@_lowers("unfold.default", sample="unfold")
def _unfold(b: TensorBuilder, out: Shape, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along a dimension, as a last dimension."""
    if not x.rank:
        return x.reshape(out.dims)
    d = at_dim(dim, x.rank)
    count = out.dims[d]
    parts = []
    for offset in range(size):
        part = x.slice(d, offset, offset + (count - 1) * step + 1, step)
        parts.append(part.reshape((*part.dims, 1)))
    return concatenate(parts, x.rank) if parts else b.full(0, x.dtype, out.dims)


@_lowers("diagonal.default", "diagonal_copy.default", sample="diagonal")
def _diagonal(
    b: TensorBuilder, out: Shape, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """A diagonal of two dimensions, as the last one."""
    return diagonal(x, offset, at_dim(dim1, x.rank), at_dim(dim2, x.rank), out.dims)


def diagonal(x: Value, offset: int, first: int, second: int, dims: tuple[int, ...]) -> Value:
    """A diagonal of two dimensions, as the last one; ``dims`` are the sizes of the result."""
    order = [d for d in range(x.rank) if d not in (first, second)] + [first, second]
    turned = x.transpose(order)
    length = dims[-1]
    if not length:
        return x.builder.full(0, x.dtype, dims)
    top, left = max(0, -offset), max(0, offset)
    last = turned.rank - 1
    square = turned.slice(last - 1, top, top + length).slice(last, left, left + length)
    mask = diagonal_mask(x.builder, length, length)
    return mask.where(square, 0).reduce("or" if x.dtype is dt.PRED else "add", 0, (last - 1,))


def diagonal_mask(b: TensorBuilder, rows: int, columns: int, offset: int = 0) -> Value:
    """True on one diagonal of a matrix."""
    row = b.iota(dt.S32, (rows, columns), 0)
    return (row + offset).eq(b.iota(dt.S32, (rows, columns), 1))


@_lowers("diag_embed.default")
def _diag_embed(
    b: TensorBuilder, out: Shape, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Value:
    """Zeros but for the last dimension on a diagonal of two."""
    return on_diagonal(b, x, out, offset, dim1, dim2, b.full(0, x.dtype, out.dims))


@_lowers("diagonal_scatter.default")
def _diagonal_scatter(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    source: Value,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
) -> Value:
    """An array with other values on a diagonal."""
    return on_diagonal(b, source.cast(x.dtype), out, offset, dim1, dim2, x)


def on_diagonal(
    b: TensorBuilder, values: Value, out: Shape, offset: int, dim1: int, dim2: int, rest: Value
) -> Value:
    """Values on a diagonal of two dimensions, and other ones elsewhere."""
    rank = len(out.dims)
    first, second = at_dim(dim1, rank), at_dim(dim2, rank)
    order = [d for d in range(rank) if d not in (first, second)] + [first, second]
    rows, columns = out.dims[first], out.dims[second]
    length = values.dims[-1]
    if not length or not rest.size:
        return rest
    top = max(0, -offset)
    padded = values.pad([(0, 0, 0)] * (values.rank - 1) + [(top, rows - top - length, 0)])
    sizes = tuple(out.dims[d] for d in order)
    spread = padded.place(sizes, range(rank - 1))
    back = [order.index(d) for d in range(rank)]
    mask = diagonal_mask(b, rows, columns, offset).expand(sizes).transpose(back)
    return mask.where(spread.transpose(back), rest)


@_lowers("slice_scatter.default")
def _slice_scatter(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    source: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """An array with another one in part of a dimension."""
    d = at_dim(dim, x.rank)
    first, _ = bounds(x.dims[d], start, end)
    count = source.dims[d]
    if not count or not x.size:
        return x
    last = first + (count - 1) * step + 1
    edges = [(0, 0, 0)] * x.rank
    edges[d] = (first, x.dims[d] - last, step - 1)
    taken = source.cast(x.dtype)
    whole = (first, last, step) == (0, x.dims[d], 1)
    if whole:
        return taken
    mask = np.zeros(x.dims[d], np.bool_)
    mask[first:last:step] = True
    chosen = b.literal(mask, dt.PRED).place(x.dims, (d,))
    return chosen.where(taken.pad(edges), x)


@_lowers("select_scatter.default")
def _select_scatter(
    b: TensorBuilder, out: Shape, x: Value, source: Value, dim: int, index: int
) -> Value:
    """An array with another one at an index of a dimension."""
    d = at_dim(dim, x.rank)
    sizes = (*x.dims[:d], 1, *x.dims[d + 1 :])
    at = index % x.dims[d]
    chosen = b.iota(dt.S32, x.dims, d).eq(at)
    return chosen.where(source.cast(x.dtype).reshape(sizes).expand(x.dims), x)


@_lowers("as_strided.default", "as_strided_copy.default")
def _as_strided(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None = None,
) -> Value:
    """Elements at places that strides say, of an array that lies row by row."""
    at = places(tuple(sizes), strides, offset or 0)
    if not out.dims or not at.size:
        return b.full(0, x.dtype, out.dims) if not at.size else _one(x, int(at), out)
    flat = x.reshape((x.size,))
    indices = b.literal(at[..., None].astype(np.int64), dt.S64)
    return flat.op(
        "gather",
        indices,
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=len(out.dims),
        slice_sizes=(1,),
    )


def _one(x: Value, at: int, out: Shape) -> Value:
    return x.reshape((x.size,)).slice(0, at, at + 1).reshape(out.dims)


def places(sizes: tuple[int, ...], strides: Sequence[int], offset: int) -> Any:
    """Where in memory each element of a strided view lies."""
    at = np.full(sizes, offset, np.int64)
    for d, stride in enumerate(strides):
        at += np.arange(sizes[d]).reshape((-1,) + (1,) * (len(sizes) - d - 1)) * stride
    return at


@_lowers("as_strided_scatter.default")
def _as_strided_scatter(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    source: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None = None,
) -> Value:
    """An array with other values at places that strides say."""
    at = places(tuple(sizes), strides, offset or 0).reshape(-1)
    if not at.size:
        return x
    last = np.full(x.size, -1, np.int64)
    last[at] = np.arange(at.size)
    source_at = b.literal(np.maximum(last, 0)[:, None], dt.S64)
    taken = (
        source.cast(x.dtype)
        .reshape((at.size,))
        .op(
            "gather",
            source_at,
            offset_dims=(),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=(1,),
        )
    )
    return b.literal(last >= 0, dt.PRED).where(taken, x.reshape((x.size,))).reshape(x.dims)


@_lowers("constant_pad_nd.default", sample="nn.functional.pad.constant")
def _constant_pad(
    b: TensorBuilder, out: Shape, x: Value, edges: Sequence[int], value: Number = 0
) -> Value:
    """One number put around an array; negative edges cut it."""
    padding = [(0, 0, 0)] * x.rank
    for at in range(len(edges) // 2):
        padding[-1 - at] = (edges[2 * at], edges[2 * at + 1], 0)
    return x.pad(padding, value)


@_lowers("tril.default")
def _tril(b: TensorBuilder, out: Shape, x: Value, diagonal: int = 0) -> Value:
    """Zeros above a diagonal."""
    rows, columns = x.dims[-2:]
    row, column = (b.iota(dt.S32, (rows, columns), d) for d in (0, 1))
    return column.le(row + diagonal).expand(x.dims).where(x, 0)


@_lowers("triu.default")
def _triu(b: TensorBuilder, out: Shape, x: Value, diagonal: int = 0) -> Value:
    """Zeros below a diagonal."""
    rows, columns = x.dims[-2:]
    row, column = (b.iota(dt.S32, (rows, columns), d) for d in (0, 1))
    return column.ge(row + diagonal).expand(x.dims).where(x, 0)
