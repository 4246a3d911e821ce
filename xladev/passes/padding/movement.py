"""Padding of opcodes that move elements by static rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reshaping import common_factors
from xladev.hlo.shape import Shape
from xladev.passes.expansions.emit import Emitter, Operand
from xladev.passes.padding import sizes as sz
from xladev.passes.padding.elementwise import merged_sizes
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


def _broadcast(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    (operand,) = arrays(values)
    sizes: list[Size] = [None] * i.shape.rank
    for at, d in enumerate(i["dimensions"]):
        sizes[d] = operand.size(at)
    return padded(e.broadcast(operand.data, i.shape.dims, i["dimensions"]), sizes)


def _transpose(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    (operand,) = arrays(values)
    order = i["dimensions"]
    return padded(e.transpose(operand.data, order), [operand.size(d) for d in order])


def _reverse(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    """The live part ends up at the end, and is moved back to the front."""
    (operand,) = arrays(values)
    dims, shape = i["dimensions"], operand.data.shape
    data = e.reverse(operand.data, *dims)
    moved = [d for d in dims if operand.size(d) is not None]
    if not moved:
        return padded(data, operand.sizes)
    grown = e.pad(data, [(0, n if d in moved else 0, 0) for d, n in enumerate(shape.dims)])
    starts: list[Operand] = [0] * shape.rank
    for d in moved:
        starts[d] = e.subtract(e.scalar(shape.dims[d], dt.S32), dim_size(e, operand, d))
    return padded(e.dynamic_slice(grown, starts, shape.dims), operand.sizes)


def _slice(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    (operand,) = arrays(values)
    parts: tuple[SliceDim, ...] = i["slice"]
    sizes: list[Size] = [None] * i.shape.rank
    for d, part in enumerate(parts):
        size = operand.size(d)
        if size is not None and i.shape.is_dynamic_dimension(d):
            sizes[d] = sz.after_slice(e, size, part.start, part.limit, part.stride)
    return padded(e.op("slice", operand.data, slice=parts), sizes)


def _pad(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    operand, fill = arrays(values)
    pads: tuple[PadDim, ...] = i["padding"]
    data = masked(e, operand, range(i.shape.rank), fill.data)
    sizes = [
        None if (size := operand.size(d)) is None else sz.after_padding(e, size, pad)
        for d, pad in enumerate(pads)
    ]
    return padded(e.op("pad", data, fill.data, padding=pads), sizes)


def _concatenate(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    """Each operand is written over what is not live of the one before."""
    operands = arrays(values)
    (axis,) = i["dimensions"]
    sizes = merged_sizes(operands, i.shape.rank)
    if all(o.size(axis) is None for o in operands):
        return padded(e.concatenate([o.data for o in operands], axis), sizes)
    data = e.full(0, i.shape.element_type, i.shape.dims)
    at: HloInstruction = e.scalar(0, dt.S32)
    for operand in operands:
        starts: list[Operand] = [at if d == axis else 0 for d in range(i.shape.rank)]
        data = e.dynamic_update_slice(data, operand.data, starts)
        at = e.add(at, dim_size(e, operand, axis))
    sizes[axis] = at
    return padded(data, sizes)


# Reshapes


def _reshape(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    (operand,) = arrays(values)
    source = operand.data.shape
    sizes: list[Size] = [None] * i.shape.rank
    in_place = True
    for inputs, outputs in common_factors(source.dims, i.shape.dims):
        if all(operand.size(d) is None for d in inputs):
            continue
        dynamic = [d for d in outputs if i.shape.is_dynamic_dimension(d)]
        if len(dynamic) != 1:
            return _copied(e, operand, i.shape, sizes)
        others = prod(i.shape.dims[d] for d in outputs if d != dynamic[0])
        sizes[dynamic[0]] = _quotient(e, operand, inputs, others)
        in_place &= _is_slowest(operand, inputs) and _leads(i.shape, outputs, dynamic[0])
    if in_place:
        return padded(e.reshape(operand.data, i.shape.dims), sizes)
    return _copied(e, operand, i.shape, sizes)


def _quotient(e: Emitter, operand: Padded, inputs: range, others: int) -> HloInstruction:
    count: HloInstruction = e.scalar(1, dt.S32)
    for d in inputs:
        count = e.multiply(count, dim_size(e, operand, d))
    return e.divide(count, max(others, 1))


def _is_slowest(operand: Padded, inputs: range) -> bool:
    """True if live elements of a run of dimensions are at its front."""
    dynamic = [d for d in inputs if operand.size(d) is not None]
    return all(operand.data.shape.dims[d] == 1 for d in inputs if d < dynamic[-1])


def _leads(shape: Shape, outputs: range, dynamic: int) -> bool:
    return all(shape.dims[d] == 1 for d in outputs if d < dynamic)


def _dynamic_reshape(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    operand, *wanted = arrays(values)
    sizes: list[Size] = [
        w.data if i.shape.is_dynamic_dimension(d) else None for d, w in enumerate(wanted)
    ]
    return _copied(e, operand, i.shape, sizes)


def _copied(e: Emitter, operand: Padded, shape: Shape, sizes: Sequence[Size]) -> Value:
    """Every live element of the result is looked up by its number among the live ones."""
    kind = dt.S64 if max(operand.data.shape.size, shape.size) >= 2**31 else dt.S32
    number = e.full(0, kind, shape.dims)
    for d in range(shape.rank):
        size = sizes[d]
        length = e.scalar(shape.dims[d], kind) if size is None else e.convert(size, kind)
        number = e.add(e.multiply(number, length), e.iota(kind, shape.dims, d))
    where = _position(e, operand, number, kind)
    flat = e.reshape(operand.data, (operand.data.shape.size,))
    made = e.op(
        "gather", flat, e.reshape(where, (shape.size, 1)),
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1,
        slice_sizes=(1,),
    )  # fmt: skip
    return padded(e.reshape(made, shape.dims), sizes)


def _position(
    e: Emitter, operand: Padded, number: HloInstruction, kind: PrimitiveType
) -> HloInstruction:
    """Where in the flat data the live element of a number is."""
    dims = operand.data.shape.dims
    where, stride, rest = e.full_like(number, 0), 1, number
    for d in reversed(range(len(dims))):
        length = sz.at_least(e, e.convert(dim_size(e, operand, d), kind), 1)
        part = e.elementwise("remainder", rest, length)
        rest = e.divide(rest, length)
        where = e.add(where, e.multiply(part, stride))
        stride *= dims[d]
    return where


RULES: Rules = MappingProxyType(
    {
        "broadcast": _broadcast,
        "concatenate": _concatenate,
        "dynamic-reshape": _dynamic_reshape,
        "pad": _pad,
        "reshape": _reshape,
        "reverse": _reverse,
        "slice": _slice,
        "transpose": _transpose,
    }
)
