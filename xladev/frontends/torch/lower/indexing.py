"""Reading and writing by index: gather, scatter, index, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.frontends.torch.lower.cumulative import cumulated
from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.reductions import highest, lowest, norm
from xladev.frontends.torch.lower.table import Family, NotLowered
from xladev.frontends.torch.lower.value import (
    Dims,
    Number,
    TensorBuilder,
    Value,
    broadcast_dims,
)
from xladev.frontends.torch.lower.views import at_dim, concatenate
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import Shape

INDEXING = Family("indexing", "Reading and writing by index.")
_lowers = INDEXING.lowers


def wrapped(index: Value, size: int) -> Value:
    """Indices as s64, those below zero counted from the end."""
    at = index.cast(dt.S64)
    return at.lt(0).where(at + size, at)


def take(x: Value, index: Value, dim: int) -> Value:
    """The parts of ``x`` along a dimension that an array of indices names.

    Returns:
        An array of the dimensions before ``dim``, those of ``index``, and those behind.
    """
    before = tuple(range(dim))
    behind = tuple(range(dim + index.rank, x.rank - 1 + index.rank))
    at = index.reshape((*index.dims, 1))
    sizes = tuple(1 if d == dim else n for d, n in enumerate(x.dims))
    return x.op(
        "gather",
        at,
        offset_dims=before + behind,
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        index_vector_dim=index.rank,
        slice_sizes=sizes,
    )


@_lowers("index_select.default")
def _index_select(b: TensorBuilder, out: Shape, x: Value, dim: int, index: Value) -> Value:
    """The parts of a dimension that indices name."""
    if not x.rank:
        return x.reshape((1,)).expand((index.size,)).reshape(out.dims)
    d = at_dim(dim, x.rank)
    return take(x, wrapped(index.reshape((index.size,)), x.dims[d]), d).reshape(out.dims)


@_lowers("embedding.default", sample="nn.functional.embedding")
def _embedding(b: TensorBuilder, out: Shape, weight: Value, index: Value, *_: Any) -> Value:
    """Rows of a table."""
    return take(weight, index.cast(dt.S64), 0)


@_lowers("embedding_renorm.default", sample="nn.functional.embedding")
def _embedding_renorm(
    b: TensorBuilder, out: Shape, weight: Value, index: Value, most: float, order: float
) -> Value:
    """A table whose rows that indices name are scaled down to a norm."""
    rows = weight.dims[0]
    flat = index.cast(dt.S64).reshape((index.size,))
    named = put(
        b.full(False, dt.PRED, (rows,)),
        flat,
        0,
        b.full(True, dt.PRED, flat.dims),
        b.assigner(dt.PRED),
    )
    length = norm(weight.abs(), float(order), (1,)).reshape((rows,))
    scale = b.scalar(most, weight.dtype).expand((rows,)) / (length + 1e-7)
    shrunk = weight * scale.reshape((rows, 1)).expand(weight.dims)
    is_longer = (named & length.gt(most)).reshape((rows, 1)).expand(weight.dims)
    return is_longer.where(shrunk, weight)


@_lowers("embedding_dense_backward.default", sample="nn.functional.embedding")
def _embedding_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    index: Value,
    rows: int,
    padding: int,
    by_frequency: bool,
) -> Value:
    """Gradients of rows added up."""
    flat = index.cast(dt.S64).reshape((index.size,))
    updates = gradient.reshape((index.size, out.dims[1]))
    if by_frequency:
        ones = b.full(1, gradient.dtype, (index.size, 1))
        zero = b.full(0, gradient.dtype, (rows, 1))
        counts = put(zero, flat, 0, ones, b.combiner("add", gradient.dtype))
        updates = updates / take(counts, flat, 0)
    if padding >= 0:
        kept = flat.ne(padding).reshape((index.size, 1))
        updates = kept.where(updates, 0)
    zeros = b.full(0, gradient.dtype, out.dims)
    return put(zeros, flat, 0, updates, b.combiner("add", gradient.dtype))


def put(x: Value, index: Value, dim: int, updates: Value, combine: HloComputation) -> Value:
    """An array with others combined in, at the indices of a dimension."""
    windows = tuple(range(dim)) + tuple(range(dim + index.rank, x.rank - 1 + index.rank))
    return x.op(
        "scatter",
        index.reshape((*index.dims, 1)),
        updates,
        update_window_dims=windows,
        inserted_window_dims=(dim,),
        scatter_dims_to_operand_dims=(dim,),
        index_vector_dim=index.rank,
        to_apply=combine,
    )


# Indices beside each element


def points(index: Value, dim: int) -> Value:
    """The place of each element: its own, but along one dimension what the index says."""
    b, dims = index.builder, index.dims
    parts = [
        (index.cast(dt.S64) if d == dim else b.iota(dt.S64, dims, d)).reshape((*dims, 1))
        for d in range(index.rank)
    ]
    return concatenate(parts, index.rank)


@_lowers("gather.default")
def _gather(
    b: TensorBuilder, out: Shape, x: Value, dim: int, index: Value, *, sparse_grad: bool = False
) -> Value:
    """For each index, the element it names along a dimension."""
    if not index.size:
        return b.full(0, x.dtype, out.dims)
    if not x.rank or not index.rank:
        flat = x.reshape((x.size,))
        return take(flat, index.reshape((index.size,)).cast(dt.S64), 0).reshape(out.dims)
    every = tuple(range(x.rank))
    return x.op(
        "gather",
        points(index, at_dim(dim, x.rank)),
        offset_dims=(),
        collapsed_slice_dims=every,
        start_index_map=every,
        index_vector_dim=x.rank,
        slice_sizes=(1,) * x.rank,
    )


def scatter(x: Value, dim: int, index: Value, updates: Value, combine: HloComputation) -> Value:
    """An array with elements combined in, each where its index says along a dimension."""
    if not index.size:
        return x
    if not x.rank or not index.rank:
        flat = scatter(
            x.reshape((x.size,)), 0, index.reshape((index.size,)),
            updates.reshape((updates.size,)), combine,
        )  # fmt: skip
        return flat.reshape(x.dims)
    updates = updates.slices([(0, n, 1) for n in index.dims])
    every = tuple(range(x.rank))
    return x.op(
        "scatter",
        points(index, at_dim(dim, x.rank)),
        updates,
        update_window_dims=(),
        inserted_window_dims=every,
        scatter_dims_to_operand_dims=every,
        index_vector_dim=x.rank,
        to_apply=combine,
    )


def _updates(b: TensorBuilder, source: Value | Number, to: PrimitiveType, dims: Dims) -> Value:
    """What is written: an array as it is, or a number for each index."""
    return source.cast(to) if isinstance(source, Value) else b.full(source, to, dims)


@_lowers("scatter.src", "scatter.value", sample="scatter")
def _scatter(
    b: TensorBuilder, out: Shape, x: Value, dim: int, index: Value, source: Value | Number
) -> Value:
    """An array with elements replaced where indices say."""
    updates = _updates(b, source, x.dtype, index.dims)
    return scatter(x, dim, index, updates, b.assigner(x.dtype))


@_lowers("scatter_add.default")
def _scatter_add(
    b: TensorBuilder, out: Shape, x: Value, dim: int, index: Value, source: Value
) -> Value:
    """An array with elements added where indices say."""
    return scatter(x, dim, index, source, b.combiner("add", x.dtype))


@_lowers("scatter.reduce", "scatter.value_reduce", sample="scatter")
def _scatter_with(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    dim: int,
    index: Value,
    source: Value | Number,
    *,
    reduce: str,
) -> Value:
    """An array with elements added or multiplied in."""
    updates = _updates(b, source, x.dtype, index.dims)
    return scatter(x, dim, index, updates, b.combiner(_REDUCTIONS[reduce][0], x.dtype))


_REDUCTIONS: dict[str, tuple[str, Any]] = {
    "add": ("add", lambda _: 0),
    "sum": ("add", lambda _: 0),
    "mean": ("add", lambda _: 0),
    "prod": ("multiply", lambda _: 1),
    "multiply": ("multiply", lambda _: 1),
    "amax": ("maximum", lowest),
    "amin": ("minimum", highest),
}


def _is_bool(x: Value) -> bool:
    return x.dtype is dt.PRED


@_lowers("scatter_reduce.two", sample="scatter_reduce.sum")
def _scatter_reduce(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """An array with elements combined in where indices say: sum, product, mean or extreme."""

    def apply(base: Value, updates: Value, opcode: str) -> Value:
        return scatter(base, dim, index, updates, b.combiner(opcode, base.dtype))

    return _combined(x, source, reduce, include_self, apply)


def _combined(x: Value, source: Value, reduce: str, include_self: bool, apply: Any) -> Value:
    """What `apply` combines, with or without the array's own elements; means divided."""
    opcode, start = _REDUCTIONS[reduce]
    if _is_bool(x):
        opcode = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}[opcode]
    touched = apply(x.like(0, dt.S32), source.like(1, dt.S32), "add")
    base = x if include_self else touched.gt(0).where(x.like(start(x.dtype)), x)
    found: Value = apply(base, source, opcode)
    if reduce != "mean":
        return found
    counts = touched + 1 if include_self else touched
    divisor = counts.maximum(1).cast(x.dtype)
    if x.dtype.is_integral:
        quotient = found / divisor
        inexact = found.op("remainder", divisor).ne(0) & found.lt(0)
        return inexact.where(quotient - 1, quotient)
    return found / divisor


@_lowers("index_reduce.default", sample="index_reduce.mean")
def _index_reduce(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """An array with parts combined in at indices of a dimension."""
    d = at_dim(dim, x.rank)
    base, parts, at = (v if v.rank else v.reshape((1,)) for v in (x, source, index))

    def apply(into: Value, updates: Value, opcode: str) -> Value:
        return put(into, at.cast(dt.S64), d, updates, b.combiner(opcode, into.dtype))

    return _combined(base, parts, reduce, include_self, apply).reshape(out.dims)


@_lowers("index_add.default")
def _index_add(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    *,
    alpha: Number = 1,
) -> Value:
    """An array with parts added at indices of a dimension."""
    base, parts, at = (v if v.rank else v.reshape((1,)) for v in (x, source, index))
    updates = parts * alpha if alpha != 1 else parts
    combine = b.combiner("or" if _is_bool(x) else "add", x.dtype)
    d = at_dim(dim, base.rank)
    return put(base, wrapped(at, base.dims[d]), d, updates, combine).reshape(out.dims)


@_lowers("index_copy.default")
def _index_copy(
    b: TensorBuilder, out: Shape, x: Value, dim: int, index: Value, source: Value
) -> Value:
    """An array with parts replaced at indices of a dimension."""
    base, parts, at = (v if v.rank else v.reshape((1,)) for v in (x, source, index))
    d = at_dim(dim, base.rank)
    return put(base, wrapped(at, base.dims[d]), d, parts, b.assigner(x.dtype)).reshape(out.dims)


@_lowers("index_fill.int_Scalar")
def _index_fill(
    b: TensorBuilder, out: Shape, x: Value, dim: int, index: Value, value: Number
) -> Value:
    """An array with one number at indices of a dimension."""
    base = x if x.rank else x.reshape((1,))
    d = at_dim(dim, base.rank)
    sizes = (*base.dims[:d], index.size, *base.dims[d + 1 :])
    at = wrapped(index.reshape((index.size,)), base.dims[d])
    return put(base, at, d, b.full(value, x.dtype, sizes), b.assigner(x.dtype)).reshape(out.dims)


# Several arrays of indices


def _expanded_indices(x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices one for each dimension, as torch counts them."""
    for index in indices:
        if index is not None and index.dtype in (dt.PRED, dt.U8):
            raise NotLowered("an index of booleans", why="the size of the result depends on data")
    return [*indices, *([None] * (x.rank - len(indices)))]


def _starts(x: Value, indices: Sequence[Value | None]) -> tuple[Value, list[int], Dims, int]:
    """Index vectors, the dimensions that they are for, their sizes, where these go."""
    used = [d for d, index in enumerate(indices) if index is not None]
    sizes = broadcast_dims(*(i.dims for i in indices if i is not None))
    parts = [
        wrapped(index, x.dims[d]).expand(sizes).reshape((*sizes, 1))
        for d, index in enumerate(indices)
        if index is not None
    ]
    adjacent = used == list(range(used[0], used[-1] + 1))
    return concatenate(parts, len(sizes)), used, sizes, used[0] if adjacent else 0


@_lowers("index.Tensor", "_unsafe_index.Tensor", sample="__getitem__")
def _index(b: TensorBuilder, out: Shape, x: Value, indices: Sequence[Value | None]) -> Value:
    """Elements that arrays of indices name together."""
    every = _expanded_indices(x, indices)
    if not any(index is not None for index in every):
        return x
    if not all(out.dims):
        return b.full(0, x.dtype, out.dims)
    starts, used, sizes, place = _starts(x, every)
    rest = [d for d in range(x.rank) if d not in used]
    offset = [at + (len(sizes) if at >= place else 0) for at in range(len(rest))]
    return x.op(
        "gather",
        starts,
        offset_dims=tuple(offset),
        collapsed_slice_dims=tuple(used),
        start_index_map=tuple(used),
        index_vector_dim=len(sizes),
        slice_sizes=tuple(1 if d in used else n for d, n in enumerate(x.dims)),
    )


@_lowers("index_put.default", "_unsafe_index_put.default", sample="index_put")
def _index_put(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    *_: Any,
) -> Value:
    """An array with elements replaced or added that arrays of indices name together."""
    masked = _masked_put(x, indices, values, accumulate)
    if masked is not None:
        return masked
    every = _expanded_indices(x, indices)
    if not any(index is not None for index in every):
        whole = values.expand(x.dims)
        return x + whole if accumulate else whole
    starts, used, sizes, place = _starts(x, every)
    rest = [x.dims[d] for d in range(x.rank) if d not in used]
    whole_dims = (*rest[:place], *sizes, *rest[place:])
    windows = [at + (len(sizes) if at >= place else 0) for at in range(len(rest))]
    opcode = "or" if _is_bool(x) else "add"
    if not all(whole_dims):
        return x
    return x.op(
        "scatter",
        starts,
        values.cast(x.dtype).expand(whole_dims),
        update_window_dims=tuple(windows),
        inserted_window_dims=tuple(used),
        scatter_dims_to_operand_dims=tuple(used),
        index_vector_dim=len(sizes),
        to_apply=b.combiner(opcode, x.dtype) if accumulate else b.assigner(x.dtype),
    )


def _masked_put(
    x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Value | None:
    """What is put where one mask is true: a choice; None where this is something else.

    The values are one for all that is chosen, or follow one another as the mask's true elements do.
    """
    masks = [i for i in indices if i is not None]
    if len(masks) != 1 or masks[0].dtype not in (dt.PRED, dt.U8):
        return None
    mask = masks[0].cast(dt.PRED)
    at = next(d for d, i in enumerate(indices) if i is not None)
    before, behind = x.dims[:at], x.dims[at + mask.rank :]
    chosen = mask.place(x.dims, range(at, at + mask.rank))
    padded = (*[1] * (at + 1 + len(behind) - values.rank), *values.dims)
    count = padded[at]
    rows = values.cast(x.dtype).reshape(padded).expand((*before, count, *behind))
    if count == 0:
        return x
    if count == 1:
        put_there = rows.reshape((*before, *[1] * mask.rank, *behind)).expand(x.dims)
    else:
        number = _ranks(mask.reshape((mask.size,))).maximum(0)
        put_there = take(rows, number, at).reshape(x.dims)
    if accumulate:
        put_there = (x | put_there) if _is_bool(x) else x + put_there
    return chosen.where(put_there, x)


@_lowers("put.default")
def _put(
    b: TensorBuilder, out: Shape, x: Value, index: Value, source: Value, accumulate: bool = False
) -> Value:
    """An array with elements replaced or added by their number in memory."""
    if not index.size:
        return x
    flat = x.reshape((x.size,))
    at = wrapped(index.reshape((index.size,)), x.size)
    combine = b.combiner("add", x.dtype) if accumulate else b.assigner(x.dtype)
    return put(flat, at, 0, source.cast(x.dtype).reshape((index.size,)), combine).reshape(x.dims)


@_lowers("take.default")
def _take(b: TensorBuilder, out: Shape, x: Value, index: Value) -> Value:
    """Elements by their number in memory."""
    flat = x.reshape((x.size,))
    at = wrapped(index.reshape((index.size,)), x.size)
    return take(flat, at, 0).reshape(out.dims)


@_lowers("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(
    b: TensorBuilder, out: Shape, x: Value, mask: Value, value: Value | Number
) -> Value:
    """One number where a mask is true."""
    number = operand(b, value, out.element_type, ())
    return mask.cast(dt.PRED).expand(out.dims).where(number, x.expand(out.dims))


def _ranks(mask: Value) -> Value:
    """For each true element of a flat mask, how many were true before it."""
    from_one = cumulated(mask.cast(dt.S64), 0, "add", 0)
    return from_one - 1


@_lowers("masked_scatter.default")
def _masked_scatter(b: TensorBuilder, out: Shape, x: Value, mask: Value, source: Value) -> Value:
    """Elements of a source, in order, where a mask is true."""
    chosen = mask.expand(out.dims).reshape((mask.expand(out.dims).size,))
    if not chosen.size or not source.size:
        return x
    flat = source.cast(x.dtype).reshape((source.size,))
    taken = take(flat, _ranks(chosen).maximum(0), 0)
    return chosen.where(taken, x.expand(out.dims).reshape((chosen.size,))).reshape(out.dims)


@_lowers("masked_scatter_backward.default", sample="masked_scatter")
def _masked_scatter_backward(
    b: TensorBuilder, out: Shape, gradient: Value, mask: Value, sizes: Sequence[int]
) -> Value:
    """Elements where a mask is true, in order."""
    chosen = mask.expand(gradient.dims).reshape((gradient.size,))
    count = 1
    for size in out.dims:
        count *= size
    zeros = b.full(0, gradient.dtype, (count,))
    at = chosen.where(_ranks(chosen), count)
    updates = gradient.reshape((gradient.size,))
    return put(zeros, at, 0, updates, b.assigner(gradient.dtype)).reshape(out.dims)


@_lowers("nonzero_static.default")
def _nonzero_static(
    b: TensorBuilder, out: Shape, x: Value, *, size: int, fill_value: int = -1
) -> Value:
    """Places of what is not zero, a fixed number of them."""
    flat = x.cast(dt.PRED).reshape((x.size,))
    columns = []
    at = flat.where(_ranks(flat), size)
    for d in range(x.rank):
        places = b.iota(dt.S64, x.dims, d).reshape((x.size,))
        filled = b.full(fill_value, dt.S64, (size,))
        columns.append(put(filled, at, 0, places, b.assigner(dt.S64)).reshape((size, 1)))
    return concatenate(columns, 1) if columns else b.full(0, dt.S64, out.dims)
