"""Slices, pads and concatenations that cancel, join or move to where less is computed."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import other_dims, together
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite

Parts = tuple[SliceDim, ...]


def make_slice(r: Rewriter, x: HloInstruction, parts: Sequence[SliceDim]) -> HloInstruction:
    """A slice, or ``x`` itself where the slice is all of it."""
    whole = all(
        (p.start, p.limit, p.stride) == (0, size, 1)
        for p, size in zip(parts, x.shape.dims, strict=True)
    )
    return x if whole else r.op("slice", x, slice=tuple(parts))


# Slice


@rewrite(m.Slice(m.Op("x")))
def slice_all(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """A slice of everything; nothing is left out where no dimension gets smaller."""
    return x if root.shape.dims == x.shape.dims else None


@rewrite(m.Slice(m.Slice(m.Op("x"), capture="inner")))
def slice_twice(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """slice(slice(x)) = slice(x)."""
    outer: Parts = root["slice"]
    first: Parts = inner["slice"]
    return make_slice(r, x, [_joined(a, b) for a, b in zip(first, outer, strict=True)])


def _joined(inner: SliceDim, outer: SliceDim) -> SliceDim:
    start = inner.start + outer.start * inner.stride
    stride = inner.stride * outer.stride
    count = -((outer.start - outer.limit) // outer.stride)
    return SliceDim(start, start + (count - 1) * stride + 1, stride) if count else SliceDim(0, 0)


@rewrite(m.Slice(m.Broadcast(m.Op("x"), capture="inner")))
def slice_broadcast(
    r: Rewriter, root: HloInstruction, x: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    """slice(broadcast(x)) = broadcast(slice(x))."""
    at, parts = inner["dimensions"], root["slice"]
    source = make_slice(r, x, [parts[d] for d in at]) if x.shape.rank else x
    return r.broadcast(source, root.shape.dims, at)


@rewrite(m.Slice(m.Concatenate(capture="inner")))
def slice_concatenate(
    r: Rewriter, root: HloInstruction, inner: HloInstruction
) -> HloInstruction | None:
    """A slice of a concatenation concatenates only the operands that it reads."""
    (axis,) = inner["dimensions"]
    parts: Parts = root["slice"]
    want = parts[axis]
    if not root.shape.size:
        return None
    last = want.start + (root.shape.dims[axis] - 1) * want.stride
    begin, kept, first = 0, list[HloInstruction](), 0
    for operand in inner.operands:
        end = begin + operand.shape.dims[axis]
        if want.start < end and last >= begin:
            first = begin if not kept else first
            kept.append(operand)
        begin = end
    if len(kept) == len(inner.operands):
        return None
    moved = SliceDim(want.start - first, last + 1 - first, want.stride)
    joined = r.concatenate(kept, axis)
    return make_slice(r, joined, (*parts[:axis], moved, *parts[axis + 1 :]))


@rewrite(m.Slice(m.Pad(m.Op("x"), m.Op("value"), capture="inner")))
def slice_pad(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    value: HloInstruction,
    inner: HloInstruction,
) -> HloInstruction | None:
    """A slice that reads nothing but the padded array, or nothing but padding."""
    parts: Parts = root["slice"]
    pads: tuple[PadDim, ...] = inner["padding"]
    if not root.shape.size:
        return None
    moved = list[SliceDim]()
    inside = True
    for part, pad, size, count in zip(parts, pads, x.shape.dims, root.shape.dims, strict=True):
        start = part.start - pad.low
        last = start + (count - 1) * part.stride
        if not pad.interior and (last < 0 or start >= size):
            return r.broadcast(value, root.shape.dims, ())
        inside = inside and not pad.interior and start >= 0 and last < size
        moved.append(SliceDim(start, last + 1, part.stride))
    return make_slice(r, x, moved) if inside else None


# Pad


@rewrite(m.Pad(m.Op("x"), m.Op()))
def pad_nothing(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """A pad that neither adds nor removes."""
    changes = any(
        p.low or p.high or (p.interior and size > 1)
        for p, size in zip(root["padding"], x.shape.dims, strict=True)
    )
    return None if changes else x


@rewrite(m.Pad(m.Op("x"), m.Op("value")))
def pad_empty(
    r: Rewriter, root: HloInstruction, x: HloInstruction, value: HloInstruction
) -> HloInstruction | None:
    """Padding around nothing is all there is."""
    return None if x.shape.size else r.broadcast(value, root.shape.dims, ())


@rewrite(m.Pad(m.Op("x"), m.Op()))
def pad_negative(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """A pad that only removes is a slice."""
    pads: tuple[PadDim, ...] = root["padding"]
    if any(p.low > 0 or p.high > 0 or p.interior for p in pads):
        return None
    parts = [SliceDim(-p.low, size + p.high) for p, size in zip(pads, x.shape.dims, strict=True)]
    return make_slice(r, x, parts) if all(p.start <= p.limit for p in parts) else None


@rewrite(m.Pad(m.Pad(m.Op("x"), m.Op("value"), capture="inner"), m.Op("value")))
def pad_twice(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    value: HloInstruction,
    inner: HloInstruction,
) -> HloInstruction | None:
    """Two pads with one value are one, where neither removes nor opens holes."""
    pads = (*root["padding"], *inner["padding"])
    if any(p.low < 0 or p.high < 0 or p.interior for p in pads):
        return None
    joined = tuple(
        PadDim(a.low + b.low, a.high + b.high)
        for a, b in zip(root["padding"], inner["padding"], strict=True)
    )
    return r.op("pad", x, value, padding=joined)


@rewrite(m.Pad(m.Broadcast(m.Op("value")), m.Op("value")))
def pad_with_same(r: Rewriter, root: HloInstruction, value: HloInstruction) -> HloInstruction:
    """Padding a broadcast with the value that it repeats."""
    return r.broadcast(value, root.shape.dims, ())


# Concatenate


@rewrite(m.Opcode("concatenate"))
def concatenate_some(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Operands without elements are left out; one operand alone is the result."""
    (axis,) = root["dimensions"]
    kept = [o for o in root.operands if o.shape.dims[axis]]
    if len(kept) == len(root.operands) and len(kept) > 1:
        return None
    return r.concatenate(kept or root.operands[:1], axis)


@rewrite(m.Opcode("concatenate"), counts_uses=True)
def concatenate_twice(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """concatenate(a, concatenate(b, c)) = concatenate(a, b, c)."""
    inside = [o for o in root.operands if _is_like(o, root) and r.uses(o) == 1]
    if not inside or not together(root, *inside):
        return None
    parts = [p for o in root.operands for p in (o.operands if o in inside else (o,))]
    return r.concatenate(parts, root["dimensions"][0])


def _is_like(i: HloInstruction, root: HloInstruction) -> bool:
    return i.opcode == "concatenate" and i["dimensions"] == root["dimensions"]


@rewrite(m.Opcode("concatenate"))
def concatenate_broadcasts(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Broadcasts of one scalar, one after the other, are one broadcast."""
    first = root.operands[0]
    if first.opcode != "broadcast" or not first.operands[0].shape.is_scalar:
        return None
    (value,) = first.operands
    same = all(o.opcode == "broadcast" and o.operands[0] is value for o in root.operands)
    return r.broadcast(value, root.shape.dims, ()) if same and together(root, first) else None


@rewrite(m.Opcode("concatenate"))
def concatenate_slices(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """Slices of one array that are side by side are one slice."""
    (axis,) = root["dimensions"]
    parts: list[HloInstruction] = []
    for operand in root.operands:
        joined = _side_by_side(r, parts[-1], operand, axis) if parts else None
        if joined is not None and together(root, operand):
            parts[-1] = joined
        else:
            parts.append(operand)
    return r.concatenate(parts, axis) if len(parts) < len(root.operands) else None


def _side_by_side(
    r: Rewriter, a: HloInstruction, b: HloInstruction, axis: int
) -> HloInstruction | None:
    """One slice of what two neighbouring slices read; None if they are no such slices."""
    if a.opcode != "slice" or b.opcode != "slice" or a.operands != b.operands:
        return None
    left: Parts = a["slice"]
    right: Parts = b["slice"]
    if any(left[d] != right[d] for d in other_dims(len(left), (axis,))):
        return None
    p, q = left[axis], right[axis]
    if p.stride != 1 or q.stride != 1 or p.limit != q.start:
        return None
    whole = SliceDim(p.start, q.limit)
    return r.op("slice", a.operands[0], slice=(*left[:axis], whole, *left[axis + 1 :]))


SLICING: tuple[RewriteRule, ...] = (
    slice_all, slice_twice, slice_broadcast, slice_concatenate, slice_pad, pad_nothing, pad_empty,
    pad_negative, pad_twice, pad_with_same, concatenate_some, concatenate_twice,
    concatenate_broadcasts, concatenate_slices,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
