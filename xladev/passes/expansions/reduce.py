"""reduce, of several operands too, as halves combined with each other until one row is left."""

from __future__ import annotations

from math import prod

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.nested_values import flattened
from xladev.passes.expansions.emit import Emitter, Values, begin
from xladev.passes.expansions.precision import wider_float
from xladev.passes.scalar_bodies import can_write_out, write_out


def expand_reduce(instruction: HloInstruction) -> HloComputation | None:
    """Initial values take part once; None if the reducer is not elementwise."""
    body: HloComputation = instruction["to_apply"]
    axes = tuple(sorted(instruction["dimensions"]))
    if not can_write_out(body):
        return None
    e, operands = begin(instruction)
    count = len(operands) // 2
    parts = instruction.shape.tuple_shapes or (instruction.shape,)
    types = [wider_float(s.element_type) for s in parts]
    totals = [
        e.broadcast(e.convert(init, t), s.dims, ())
        for init, t, s in zip(operands[count:], types, parts, strict=True)
    ]
    rows = [e.convert(_rows(e, x, axes), t) for x, t in zip(operands[:count], types, strict=True)]
    if rows[0].shape.dims[0]:
        rows = _one_row(e, body, rows)
        last = [e.reshape(x, s.dims) for x, s in zip(rows, parts, strict=True)]
        totals = flattened(write_out(e, body, [*totals, *last], parts[0].dims, wide=True))
    made = [e.convert(x, s.element_type) for x, s in zip(totals, parts, strict=True)]
    return e.build(e.op("tuple", *made) if instruction.shape.is_tuple else made[0])


def _rows(e: Emitter, x: HloInstruction, axes: tuple[int, ...]) -> HloInstruction:
    """The reduced dimensions as one in front."""
    kept = [d for d in range(x.shape.rank) if d not in axes]
    count = prod(x.shape.dims[d] for d in axes)
    turned = e.transpose(x, (*axes, *kept))
    return e.reshape(turned, (count, *(x.shape.dims[d] for d in kept)))


def _one_row(e: Emitter, body: HloComputation, rows: Values) -> list[HloInstruction]:
    values = list(rows)
    while (count := values[0].shape.dims[0]) > 1:
        half = count // 2
        low = [e.slice_in(x, 0, 0, half) for x in values]
        high = [e.slice_in(x, 0, half, 2 * half) for x in values]
        dims = low[0].shape.dims
        made = flattened(write_out(e, body, [*low, *high], dims, wide=True))
        if count % 2:
            rest = [e.slice_in(x, 0, count - 1, count) for x in values]
            made = [e.concatenate([a, b], 0) for a, b in zip(made, rest, strict=True)]
        values = made
    return values
