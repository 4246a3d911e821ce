"""Reads and writes at run-time indices that turn out to be static, whole or nothing."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import constant_starts
from xladev.passes.algebra.reducing import reducer_opcode
from xladev.passes.algebra.slicing import make_slice
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite
from xladev.passes.splats import splat_of

# Dynamic slice


@rewrite(m.Opcode("dynamic-slice"))
def dynamic_slice_all(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Reading everything: the starts are moved to 0."""
    x = root.operands[0]
    return x if x.shape.dims == root.shape.dims else None


@rewrite(m.Opcode("dynamic-slice"))
def dynamic_slice_broadcast(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Reading from a broadcast scalar gives that scalar, wherever it is read."""
    x = root.operands[0]
    if x.opcode != "broadcast" or not x.operands[0].shape.is_scalar:
        return None
    if x.note.device != root.note.device:
        return None
    return r.broadcast(x.operands[0], root.shape.dims, ())


@rewrite(m.Opcode("dynamic-slice"))
def dynamic_slice_at_constant(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Reading at a constant place is a slice there, moved inside."""
    x, *starts = root.operands
    where = _inside(x, starts, root.shape.dims)
    if where is None:
        return None
    parts = [SliceDim(at, at + n) for at, n in zip(where, root.shape.dims, strict=True)]
    return make_slice(r, x, parts)


def _inside(
    x: HloInstruction, starts: list[HloInstruction], sizes: tuple[int, ...]
) -> list[int] | None:
    """Constant starts, each moved as far as the window needs to be inside; None if unknown.

    A start matters only where the window is smaller than the array.
    """
    if len(starts) != x.shape.rank or any(not s.shape.is_scalar for s in starts):
        return None
    found: list[int] = []
    for start, size, limit in zip(starts, sizes, x.shape.dims, strict=True):
        known = [0] if size == limit else constant_starts([start])
        if known is None:
            return None
        found.append(min(max(known[0], 0), limit - size))
    return found


# Dynamic update slice


@rewrite(m.Opcode("dynamic-update-slice"))
def update_all(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Writing everything gives what is written; writing nothing, what was there."""
    x, update = root.operands[:2]
    if not update.shape.size:
        return x
    return update if update.shape.dims == x.shape.dims else None


@rewrite(m.Opcode("dynamic-update-slice"))
def update_with_itself(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Writing back what was read at the same place."""
    x, update, *starts = root.operands
    if update.opcode != "dynamic-slice" or update.note.device != root.note.device:
        return None
    same = update.operands[0] is x and list(update.operands[1:]) == starts
    return x if same else None


@rewrite(m.Opcode("dynamic-update-slice"))
def update_constant(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Writing at a constant place of an array of one value is padding with that value."""
    x, update, *starts = root.operands
    value = splat_of(x)
    where = _inside(x, starts, update.shape.dims) if value is not None else None
    if where is None or value is None:
        return None
    padding = tuple(
        PadDim(at, limit - at - size)
        for at, limit, size in zip(where, x.shape.dims, update.shape.dims, strict=True)
    )
    return r.op("pad", update, r.constant(value, x.shape.element_type), padding=padding)


# Gather


@rewrite(m.Opcode("gather"))
def gather_one(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A gather of one window is a dynamic slice: both move starts inside."""
    x, indices = root.operands
    dims = IndexDims.of_gather(root)
    sizes: tuple[int, ...] = tuple(root["slice_sizes"])
    if dims.batching or any(
        indices.shape.dims[d] != 1 for d in dims.batch_dims(indices.shape.rank)
    ):
        return None
    count = len(dims.index_map)
    if indices.shape.size != count or not x.shape.size or 0 in sizes:
        return None
    vector = r.reshape(indices, (count,))
    zero = r.scalar(0, indices.shape.element_type)
    starts = [zero] * x.shape.rank
    for component, d in enumerate(dims.index_map):
        part = vector if count == 1 else r.slice_in(vector, 0, component, component + 1)
        starts[d] = r.reshape(part, ())
    return r.reshape(r.dynamic_slice(x, starts, sizes), root.shape.dims)


@rewrite(m.Opcode("gather"))
def gather_all(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A gather of windows that are all of the array repeats the array."""
    x = root.operands[0]
    dims = IndexDims.of_gather(root)
    if dims.batching or tuple(root["slice_sizes"]) != x.shape.dims:
        return None
    if not root.shape.size or not x.shape.size:
        return None
    kept = [x.shape.dims[d] for d in dims.windowed(x.shape.rank)]
    return r.broadcast(r.reshape(x, kept), root.shape.dims, dims.window)


# Scatter


@rewrite(m.Opcode("scatter"))
def scatter_nothing(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A scatter of no updates into one array."""
    if len(root.operands) != 3 or root.operands[2].shape.size:
        return None
    return root.operands[0] if root.operands[0].shape == root.shape else None


@rewrite(
    m.Add(
        m.Op("x"),
        m.Scatter(m.Op("zeros"), m.Op("at"), m.Op("updates"), capture="inner").one_use(),
    )
)
def add_scattered(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    zeros: HloInstruction,
    at: HloInstruction,
    updates: HloInstruction,
    inner: HloInstruction,
) -> HloInstruction | None:
    """What is added up in zeros, and then added to an array, is added up in the array.

    Narrow floats stay: many small updates would each be rounded away beside a large element.
    """
    value = splat_of(zeros)
    if value is None or value != 0 or reducer_opcode(inner["to_apply"]) != "add":
        return None
    types = {o.shape.element_type for o in (root, x, zeros, updates)}
    is_narrow = root.shape.element_type.is_narrow_float
    if len(types) > 1 or is_narrow or dt.PRED in types or x.shape.dims != zeros.shape.dims:
        return None
    return r.op("scatter", x, at, updates, **inner.attrs)


# Sizes


@rewrite(m.Opcode("get-dimension-size"))
def size_of_static(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """The size of a dimension that is not dynamic is known."""
    (dimension,) = root["dimensions"]
    return r.scalar(root.operands[0].shape.dims[dimension], root.shape.element_type)


# Iota


@rewrite(m.Opcode("iota"))
def iota_of_one(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Counting to one gives zeros."""
    if root.shape.dims[root["iota_dimension"]] != 1:
        return None
    return r.full(0, root.shape.element_type, root.shape.dims)


INDEXING: tuple[RewriteRule, ...] = (
    dynamic_slice_all, dynamic_slice_broadcast, dynamic_slice_at_constant, update_all,
    update_with_itself, update_constant, gather_one, gather_all, scatter_nothing, add_scattered,
    size_of_static, iota_of_one,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
