"""Reshapes, transposes, broadcasts, reversals and copies that cancel or join."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Array
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import (
    dim_map,
    same_but_for_ones,
    together,
    wide_dims,
)
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite

# Reshape


@rewrite(m.Reshape(m.Op("x")))
def reshape_to_same(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """reshape(x) = x where x has those dimensions already."""
    return x if x.shape.dims == root.shape.dims else None


@rewrite(m.Reshape(m.Reshape(m.Op("x"))))
def reshape_twice(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """reshape(reshape(x)) = reshape(x)."""
    return r.reshape(x, root.shape.dims)


@rewrite(m.Reshape(m.Op("x")))
def reshape_scalar(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """reshape(scalar) = broadcast(scalar), the form in which constants are recognised."""
    return r.broadcast(x, root.shape.dims, ()) if x.shape.is_scalar else None


@rewrite(m.Reshape(m.Broadcast(m.Op("x"), capture="inner")))
def reshape_broadcast(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction | None:
    """reshape(broadcast(x)) = broadcast(x) for a scalar, or where only sizes of 1 come and go."""
    dims = root.shape.dims
    if x.shape.is_scalar:
        return r.broadcast(x, dims, ())
    if not same_but_for_ones(inner.shape.dims, dims):
        return None
    where = dim_map(inner.shape.dims, dims)
    wide = wide_dims(x.shape.dims)
    source = r.reshape(x, [x.shape.dims[d] for d in wide])
    return r.broadcast(source, dims, [where[inner["dimensions"][d]] for d in wide])


@rewrite(m.Reshape(m.Iota(capture="inner")))
def reshape_iota(r: Rewriter, root: HloInstruction, inner: HloInstruction) -> HloInstruction | None:
    """reshape(iota) = iota where only sizes of 1 come and go."""
    dims, along = inner.shape.dims, inner["iota_dimension"]
    if not same_but_for_ones(dims, root.shape.dims) or dims[along] == 1:
        return None
    return r.iota(root.shape.element_type, root.shape.dims, dim_map(dims, root.shape.dims)[along])


# Transpose


@rewrite(m.Transpose(m.Op("x")))
def transpose_nothing(
    r: Rewriter, root: HloInstruction, x: HloInstruction
) -> HloInstruction | None:
    """A transpose that moves only dimensions of size 1 is a reshape, or nothing at all."""
    dims = x.shape.dims
    moved = [d for d in root["dimensions"] if dims[d] != 1]
    return r.reshape(x, root.shape.dims) if moved == sorted(moved) else None


@rewrite(m.Transpose(m.Transpose(m.Op("x"), capture="inner")))
def transpose_twice(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """transpose(transpose(x)) = transpose(x)."""
    return r.transpose(x, [inner["dimensions"][d] for d in root["dimensions"]])


@rewrite(m.Transpose(m.Broadcast(m.Op("x"), capture="inner")))
def transpose_broadcast(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """transpose(broadcast(x)) = broadcast(transpose(x)), which moves less."""
    order = root["dimensions"]
    return broadcast_sorted(r, x, root.shape.dims, [order.index(d) for d in inner["dimensions"]])


def broadcast_sorted(
    r: Rewriter, x: HloInstruction, dims: Sequence[int], at: Sequence[int]
) -> HloInstruction:
    """A broadcast whose dimensions are ascending, of ``x`` transposed as that needs."""
    order = sorted(range(len(at)), key=lambda d: at[d])
    return r.broadcast(r.transpose(x, order), dims, sorted(at))


@rewrite(m.Transpose(m.Iota(capture="inner")))
def transpose_iota(r: Rewriter, root: HloInstruction, inner: HloInstruction) -> HloInstruction:
    """transpose(iota) = iota along another dimension."""
    along = root["dimensions"].index(inner["iota_dimension"])
    return r.iota(root.shape.element_type, root.shape.dims, along)


# Broadcast


@rewrite(m.Broadcast(m.Op("x")))
def broadcast_nothing(
    r: Rewriter, root: HloInstruction, x: HloInstruction
) -> HloInstruction | None:
    """A broadcast that repeats nothing is a reshape of a transpose; of a scalar, it stays."""
    if x.shape.size != root.shape.size or (x.shape.is_scalar and root.shape.rank):
        return None
    order = sorted(range(x.shape.rank), key=lambda d: root["dimensions"][d])
    return r.reshape(r.transpose(x, order), root.shape.dims)


@rewrite(m.Broadcast(m.Broadcast(m.Op("x"), capture="inner")))
def broadcast_twice(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """broadcast(broadcast(x)) = broadcast(x)."""
    return r.broadcast(x, root.shape.dims, [root["dimensions"][d] for d in inner["dimensions"]])


@rewrite(m.Broadcast(m.Reshape(m.Op("x"), capture="inner")))
def broadcast_reshape(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction | None:
    """broadcast(reshape(x)) = broadcast(x) where the reshape only adds dimensions of size 1."""
    dims = x.shape.dims
    if not same_but_for_ones(dims, inner.shape.dims) or 1 in dims:
        return None
    where = dim_map(dims, inner.shape.dims)
    return r.broadcast(x, root.shape.dims, [root["dimensions"][where[d]] for d in range(len(dims))])


def _large_constant(i: HloInstruction) -> bool:
    return i.shape.is_array and i.shape.size > 1 and not i["literal"].elided


@rewrite(m.Opcode("constant").where(_large_constant, "a constant of several elements"))
def shrink_constant(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A constant of equal elements is a broadcast of one."""
    values: Array = root["literal"].array
    return None if not _all_equal(values) else _splat(r, root, values)


def _splat(r: Rewriter, root: HloInstruction, values: Array) -> HloInstruction:
    first = r.constant(np.asarray(values.reshape(-1)[:1].reshape(())), root.shape.element_type)
    return r.broadcast(first, root.shape.dims, ())


def _all_equal(values: Array) -> bool:
    bits = values.reshape(-1).view(np.uint8).reshape(values.size, values.itemsize)
    some = bits[:: max(len(bits) // _SAMPLES, 1)]
    return bool((some == bits[0]).all()) and bool((bits == bits[0]).all())


_SAMPLES = 16
"""How many elements of a constant are looked at before all are."""


# Reverse


@rewrite(m.Opcode("reverse", m.Op("x")))
def reverse_nothing(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """Dimensions of size 1 need no reversal."""
    turned = [d for d in root["dimensions"] if x.shape.dims[d] != 1]
    if len(turned) == len(root["dimensions"]):
        return None if turned else x
    return r.reverse(x, *turned) if turned else x


@rewrite(m.Reverse(m.Reverse(m.Op("x"), capture="inner")))
def reverse_twice(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """reverse(reverse(x)) reverses what only one of both does."""
    turned = set(root["dimensions"]) ^ set(inner["dimensions"])
    return r.reverse(x, *turned) if turned else x


@rewrite(m.Reverse(m.Broadcast(m.Op("x"), capture="inner")))
def reverse_broadcast(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """reverse(broadcast(x)) = broadcast(reverse(x)); what repeats need not be reversed."""
    at = inner["dimensions"]
    turned = [at.index(d) for d in root["dimensions"] if d in at]
    source = r.reverse(x, *turned) if turned else x
    return r.broadcast(source, root.shape.dims, at)


# Copies


@rewrite(m.Copy(m.Op("x")))
def copy_nothing(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """A copy that keeps the layout; buffer assignment copies where two values need two buffers."""
    same = x.shape.with_default_layout() == root.shape.with_default_layout()
    return x if same else None


@rewrite(m.Bitcast(m.Op("x")))
def bitcast_nothing(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """A bitcast to the same type, dimensions and layout."""
    same = x.shape.with_default_layout() == root.shape.with_default_layout()
    return x if same else None


@rewrite(m.Bitcast(m.Bitcast(m.Op("x"))))
def bitcast_twice(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The same bytes, whatever they were seen as in between."""
    return r.op("bitcast", x, shape=root.shape)


# Elementwise opcodes on broadcasts


_ELEMENTWISE = tuple(op.name for op in OPSET.values() if op.elementwise)


@rewrite(m.Opcode(_ELEMENTWISE).where(lambda i: i.shape.rank > 0, "an array"))
def compute_before_broadcast(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """f(broadcast(x), broadcast(y)) = broadcast(f(x, y)), which computes less."""
    spread = [o for o in root.operands if not o.shape.is_scalar]
    if not spread or any(o.opcode != "broadcast" for o in spread):
        return None
    if not together(root, *spread):
        return None
    arrays = [o for o in spread if not o.operands[0].shape.is_scalar]
    like = arrays[0] if arrays else spread[0]
    small, at = like.operands[0].shape.dims, like["dimensions"]
    if like.operands[0].shape.size >= root.shape.size:
        return None
    if any(o.operands[0].shape.dims != small or o["dimensions"] != at for o in arrays):
        return None
    operands = [_unspread(r, o, small) for o in root.operands]
    shape = array(root.shape.element_type, small)
    made = r.op(root.opcode, *operands, shape=shape, **root.attrs)
    return r.broadcast(made, root.shape.dims, at)


def _unspread(r: Rewriter, operand: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    """An operand as it is before the broadcast to all dimensions but ``dims``."""
    if operand.shape.is_scalar:
        return operand
    source = operand.operands[0]
    return source if source.shape.dims == dims else r.broadcast(source, dims, ())


MOVEMENT: tuple[RewriteRule, ...] = (
    reshape_to_same, reshape_twice, reshape_scalar, reshape_broadcast, reshape_iota,
    transpose_nothing, transpose_twice, transpose_broadcast, transpose_iota, broadcast_nothing,
    broadcast_twice, broadcast_reshape, shrink_constant, reverse_nothing, reverse_twice,
    reverse_broadcast, copy_nothing, bitcast_nothing, bitcast_twice, compute_before_broadcast,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
