"""Opcodes that move elements, or make arrays of nothing: attributes that name sizes."""

from __future__ import annotations

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.shape import array
from xladev.hlo.sharding.axis_sharding import whole_on
from xladev.passes.spmd.operation import Operation
from xladev.passes.spmd.reshard import reshard


def constant(o: Operation) -> HloInstruction:
    """One element, if all are the same; else this device's part of the whole."""
    i, b = o.instruction, o.b
    (cut,) = o.division.results
    literal: Literal = i["literal"]
    if cut.is_whole:
        return o.local()
    values = literal.value
    if isinstance(values, np.ndarray) and values.size and _is_splat(literal, values):
        one = b.constant(literal_of(values.reshape(-1)[:1].reshape(()), i.shape.element_type))
        return b.broadcast(one, cut.local_dims(i.shape.dims), ())
    made = b.constant(literal)
    return reshard(b, made, i.shape, whole_on(cut.grid, i.shape.rank), cut)


def _is_splat(literal: Literal, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bool:
    first = literal_of(values.reshape(-1)[:1], literal.shape.element_type).bits()
    return literal.bits() == first * values.size and literal.shape.element_type.bits >= 8


def iota(o: Operation) -> HloInstruction:
    """Counts from where this device's part begins."""
    i, b = o.instruction, o.b
    (cut,) = o.division.results
    d = i["iota_dimension"]
    if not cut.dims[d]:
        return o.local()
    kind = i.shape.element_type
    local = cut.local_dims(i.shape.dims)
    wide = dt.S32 if i.shape.dims[d] * 2 < 2**31 else dt.S64
    start = b.convert(b.start(cut, i.shape.dims, d), wide)
    return b.convert(b.add(b.iota(wide, local, d), start), kind)


def dynamic_slice(o: Operation) -> HloInstruction:
    """Dimensions that are cut are taken whole."""
    return o.local(dynamic_slice_sizes=o.division.results[0].local_dims(o.instruction.shape.dims))


def dynamic_update_slice(o: Operation) -> HloInstruction:
    """Each device writes what falls into its part: the update, shifted to where the part begins."""
    i, b = o.instruction, o.b
    whole, update = i.operands[0].shape, i.operands[1].shape
    cut = o.sharding(0)
    moved = [d for d in range(whole.rank) if cut.dims[d] and update.dims[d] != whole.dims[d]]
    if not moved:
        return o.local()
    x, new = o.operands[:2]
    starts = list(o.operands[2:])
    inside: HloInstruction | None = None
    for d in moved:
        size = x.shape.dims[d]
        last = whole.dims[d] - update.dims[d]
        start = b.op("clamp", b.scalar(0, dt.S64), b.convert(starts[d], dt.S64),
                     b.scalar(last, dt.S64))  # fmt: skip
        first = b.subtract(b.convert(b.start(cut, whole.dims, d), dt.S64), start)
        at = b.add(b.iota(dt.S64, x.shape.dims, d), first)
        own = b.op("and", b.compare("GE", at, 0), b.compare("LT", at, update.dims[d]))
        inside = own if inside is None else b.op("and", inside, own)
        edges = [(0, 0, 0)] * whole.rank
        edges[d] = (size, size, 0)
        zeros: list[HloInstruction | int] = [b.scalar(0, dt.S64)] * whole.rank
        zeros[d] = b.add(first, size)
        sizes = list(new.shape.dims)
        sizes[d] = size
        new = b.dynamic_slice(b.pad(new, edges), zeros, sizes)
        starts[d] = b.scalar(0, starts[d].shape.element_type)
    assert inside is not None
    rows = [d for d in range(whole.rank) if new.shape.dims[d] != x.shape.dims[d]]
    if rows:  # dimensions that are not cut are updated in part, as they were
        held = b.dynamic_slice(x, starts, new.shape.dims)
        flags = b.dynamic_slice(inside, starts, new.shape.dims)
        return o.local([x, b.op("select", flags, new, held), *starts])
    return b.op("select", inside, new, x)


def custom_call(o: Operation) -> HloInstruction:
    """A call whose operands keep their layouts."""
    i = o.instruction
    given = i["operand_layout_constraints"]
    if not given:
        return o.local()
    pairs = zip(given, o.operands, strict=True)
    shapes = [array(s.element_type, x.shape.dims).with_layout(s.layout) for s, x in pairs]
    return o.local(operand_layout_constraints=tuple(shapes))
