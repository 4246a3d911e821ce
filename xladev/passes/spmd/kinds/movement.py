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
    return o.local(
        dynamic_slice_sizes=o.division.results[0].local_dims(o.instruction.shape.dims)
    )


def custom_call(o: Operation) -> HloInstruction:
    """A call whose operands keep their layouts."""
    i = o.instruction
    given = i["operand_layout_constraints"]
    if not given:
        return o.local()
    pairs = zip(given, o.operands, strict=True)
    shapes = [array(s.element_type, x.shape.dims).with_layout(s.layout) for s, x in pairs]
    return o.local(operand_layout_constraints=tuple(shapes))
