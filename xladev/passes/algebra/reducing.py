"""Reductions of what is small, repeated, moved or reduced already.

The order in which HLO's `reduce` combines elements is free, so reductions may be joined; sums of
floats are then rounded otherwise. See the page on numerics in the reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Array
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.ops.reduction_parts import ReductionParts
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import (
    STANDARD_FLOATS,
    dim_map,
    other_dims,
    same_but_for_ones,
)
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite
from xladev.passes.scalar_bodies import can_write_out, write_out
from xladev.passes.splats import splat_of

_IDEMPOTENT = frozenset({"maximum", "minimum", "and", "or"})


def reducer_opcode(reducer: HloComputation) -> str:
    """The commutative and associative opcode that a reducer is; empty if it is another function."""
    return reducer.root.opcode if monoid_of(reducer) is not None else ""


def is_identity(value: Array, opcode: str, element_type: PrimitiveType) -> bool:
    """True if combining with a scalar changes nothing, the sign of a zero sum excepted."""
    if opcode in ("add", "or", "xor"):
        return bool(value == 0)
    if opcode == "multiply":
        return bool(value == 1)
    if element_type in STANDARD_FLOATS:
        return float(value) == (-np.inf if opcode == "maximum" else np.inf)
    if element_type is dt.PRED:
        return bool(value) == (opcode != "maximum")
    if not element_type.is_integral:
        return False
    bits, signed = element_type.bits, element_type.is_signed
    least = -(1 << bits - 1) if signed else 0
    greatest = least + (1 << bits) - 1
    wanted = {"maximum": least, "minimum": greatest, "and": -1 if signed else greatest}
    return int(value) == wanted[opcode]


def _is_single(i: HloInstruction) -> bool:
    return len(i.operands) == 2


# What is small


@rewrite(m.Opcode("reduce"))
def reduce_ones(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """reduce over dimensions of size 1 = reducer(initial value, element)."""
    parts = ReductionParts.of(root)
    sizes = parts.arrays[0].shape.dims
    if any(sizes[d] != 1 for d in parts.dims):
        return None
    dims = tuple(sizes[d] for d in parts.kept)
    return _applied(r, parts, [r.reshape(v, dims) for v in parts.arrays], dims)


def _applied(
    r: Rewriter, parts: ReductionParts, values: Sequence[HloInstruction], dims: tuple[int, ...]
) -> HloInstruction | None:
    """The reducer on arrays of initial values and of elements; None where it is not elementwise."""
    reducer, inits = parts.reducer, parts.inits
    types = [o.shape.element_type for o in (*inits, *values)]
    if types != [p.shape.element_type for p in reducer.parameters] or not can_write_out(reducer):
        return None
    made = write_out(r, reducer, [*(r.broadcast(i, dims, ()) for i in inits), *values], dims)
    if isinstance(made, HloInstruction):
        return made
    return r.op("tuple", *(part for part in made if isinstance(part, HloInstruction)))


@rewrite(m.Opcode("reduce"))
def reduce_nothing(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A reduction of no elements gives the initial values."""
    parts = ReductionParts.of(root)
    inits = parts.inits
    if parts.arrays[0].shape.size or not root.shape.is_array or not root.shape.size:
        return None
    if inits[0].shape.element_type is not root.shape.element_type:
        return None
    return r.broadcast(inits[0], root.shape.dims, ())


@rewrite(m.Reduce(m.Reshape(m.Op("x"), capture="moved"), m.Op("init")))
def reduce_reshape(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    moved: HloInstruction,
    init: HloInstruction,
) -> HloInstruction | None:
    """Dimensions of size 1 that come before a reduction, and are reduced with it, are not needed.

    The same for dimensions of size 1 that the reshape drops.
    """
    if not same_but_for_ones(x.shape.dims, moved.shape.dims):
        return None
    parts, back = ReductionParts.of(root), dim_map(moved.shape.dims, x.shape.dims)
    reduced = [back[d] for d in parts.dims if moved.shape.dims[d] != 1]
    if not reduced:
        return None
    kept = [x.shape.dims[d] for d in other_dims(x.shape.rank, reduced)]
    if not same_but_for_ones(kept, root.shape.dims):
        return None
    made = r.op("reduce", x, init, dimensions=tuple(sorted(reduced)), to_apply=parts.reducer)
    return r.reshape(made, root.shape.dims)


@rewrite(m.Reduce(m.Transpose(m.Op("x"), capture="moved"), m.Op("init")))
def reduce_transpose(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    moved: HloInstruction,
    init: HloInstruction,
) -> HloInstruction | None:
    """A transpose before a reduction is not needed if it keeps the order of what remains."""
    parts = ReductionParts.of(root)
    if not monoid_of(parts.reducer):
        return None
    order: tuple[int, ...] = moved["dimensions"]
    kept = [order[d] for d in parts.kept]
    if kept != sorted(kept):
        return None
    dims = tuple(sorted(order[d] for d in parts.dims))
    return r.op("reduce", x, init, dimensions=dims, to_apply=parts.reducer)


@rewrite(m.Reduce(m.Broadcast(m.Op("x"), capture="spread"), m.Op("init")))
def reduce_broadcast(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    spread: HloInstruction,
    init: HloInstruction,
) -> HloInstruction | None:
    """Greatest, least, all and any need to see repeated elements once."""
    parts, at = ReductionParts.of(root), spread["dimensions"]
    opcode = reducer_opcode(parts.reducer)
    if opcode not in _IDEMPOTENT or not spread.shape.size or list(at) != sorted(at):
        return None
    repeated = [d for d in parts.dims if d not in at]
    if not repeated:
        return None
    left = list(other_dims(spread.shape.rank, repeated))
    smaller = r.broadcast(x, [spread.shape.dims[d] for d in left], [left.index(d) for d in at])
    dims = tuple(left.index(d) for d in parts.dims if d in left)
    return r.op("reduce", smaller, init, dimensions=dims, to_apply=parts.reducer)


@rewrite(m.Reduce(m.Reduce(m.Op("x"), m.Op("first"), capture="inner").one_use(), m.Op("init")))
def reduce_twice(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    first: HloInstruction,
    inner: HloInstruction,
    init: HloInstruction,
) -> HloInstruction | None:
    """A reduction of a reduction with the same opcode is one reduction."""
    outer, before = ReductionParts.of(root), ReductionParts.of(inner)
    opcode, element_type = reducer_opcode(outer.reducer), x.shape.element_type
    same = opcode and opcode == reducer_opcode(before.reducer)
    value = splat_of(first)
    if not same or value is None or element_type is not root.shape.element_type:
        return None
    if not is_identity(value, opcode, element_type):
        return None
    dims = (*before.dims, *(before.kept[d] for d in outer.dims))
    return r.op("reduce", x, init, dimensions=tuple(sorted(dims)), to_apply=outer.reducer)


# Windows


@rewrite(m.Opcode("reduce-window"))
def reduce_window_ones(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Windows of one element: reducer(initial value, element)."""
    parts = ReductionParts.of(root)
    plain = all(
        (w.size, w.stride, w.pad_low, w.pad_high, w.base_dilation) == (1, 1, 0, 0, 1)
        for w in parts.window
    )
    return _applied(r, parts, parts.arrays, parts.arrays[0].shape.dims) if plain else None


@rewrite(m.Opcode("reduce-window").where(_is_single, "of one array"))
def reduce_whole_windows(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A window that is the whole of some dimensions, and one element of the others, is a reduce."""
    parts = ReductionParts.of(root)
    (x,), (init,) = parts.arrays, parts.inits
    if not monoid_of(parts.reducer) or not root.shape.size:
        return None
    reduced: list[int] = []
    for d, (w, size) in enumerate(zip(parts.window, x.shape.dims, strict=True)):
        if w.pad_low or w.pad_high or w.base_dilation != 1 or w.window_dilation != 1:
            return None
        if w.size == size and size > 1:
            reduced.append(d)
        elif w.size != 1 or w.stride != 1:
            return None
    if not reduced:
        return None
    made = r.op("reduce", x, init, dimensions=tuple(reduced), to_apply=parts.reducer)
    return r.reshape(made, root.shape.dims)


REDUCING: tuple[RewriteRule, ...] = (
    reduce_ones, reduce_nothing, reduce_reshape, reduce_transpose, reduce_broadcast, reduce_twice,
    reduce_window_ones, reduce_whole_windows,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
