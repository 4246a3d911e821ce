"""Padding of opcodes that treat every element alike, and of those that set or read sizes."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter
from xladev.passes.padding.values import (
    Padded,
    Rules,
    Size,
    Value,
    arrays,
    dim_size,
    masked,
    padded,
)


def elementwise(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    """The opcode on the data; sizes are those of any operand that has them."""
    operands = arrays(values)
    data = e.op(
        i.opcode, *(o.data for o in operands), shape=i.shape.static().without_layout(), **i.attrs
    )
    return padded(data, merged_sizes(operands, i.shape.rank))


def merged_sizes(operands: Sequence[Padded], rank: int) -> list[Size]:
    """For each dimension the first live size among operands of that rank."""
    full = [o for o in operands if o.data.shape.rank == rank]
    return [next((s for o in full if (s := o.size(d)) is not None), None) for d in range(rank)]


def _bitcast_convert(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    (operand,) = arrays(values)
    data = e.op("bitcast-convert", operand.data, shape=i.shape.static().without_layout())
    rank = i.shape.rank
    sizes = [operand.size(d) if d < operand.data.shape.rank else None for d in range(rank)]
    return padded(data, sizes)


def _get_size(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    (operand,) = arrays(values)
    return Padded(dim_size(e, operand, i["dimensions"][0]))


def _set_size(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    """A dimension that was cut and grows again is filled with zeros."""
    operand, wanted = arrays(values)
    (d,) = i["dimensions"]
    bound = operand.data.shape.dims[d]
    data = masked(e, operand, (d,), 0)
    sizes = list(operand.sizes) or [None] * i.shape.rank
    inside = e.op("clamp", e.scalar(0, dt.S32), wanted.data, e.scalar(bound, dt.S32))
    sizes[d] = inside if i.shape.is_dynamic_dimension(d) else None
    return padded(data, sizes)


def _first(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    del e, i
    return values[0]


def _tuple(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    del e, i
    return tuple(values)


def _part(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    whole, index = values[0], i["index"]
    if isinstance(whole, tuple):
        return whole[index]
    return Padded(e.op("get-tuple-element", whole.data, index=index))


RULES: Rules = MappingProxyType(
    {
        "bitcast-convert": _bitcast_convert,
        "copy": _first,
        "get-dimension-size": _get_size,
        "get-tuple-element": _part,
        "map": elementwise,
        "opt-barrier": _first,
        "set-dimension-size": _set_size,
        "tuple": _tuple,
    }
)
"""By opcode; elementwise opcodes have the rule `elementwise`."""
