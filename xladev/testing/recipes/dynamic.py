"""Recipes for dimensions whose size is known at run time only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import FLOATS, INTEGERS
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.testing.draw import Draw, Recipe
from xladev.testing.recipes.computations import known_reducer

_TYPES = [t for t in (*FLOATS, *INTEGERS) if t is not dt.F8E8M0FNU]


def _dynamic(d: Draw) -> tuple[HloInstruction, int]:
    """An array with a dynamic dimension: a parameter, or one that is cut to a size."""
    dtype, dims = d.dtype(_TYPES), d.dims(1, 3, least=1)
    axis = d.integer(0, len(dims) - 1)
    if d.parameters and d.chance(0.4):
        flags = [x == axis for x in range(len(dims))]
        return d.builder.parameter(array(dtype, dims, dynamic=flags)), axis
    least, bound = (d.builder.constant(x, dt.S32) for x in (0, dims[axis]))
    size = d.builder.op("clamp", least, d.value(dt.S32, (), exact=True), bound)
    value = d.value(dtype, dims)
    return d.builder.op("set-dimension-size", value, size, dimensions=(axis,)), axis


def _used(d: Draw) -> tuple[HloInstruction, int]:
    """The array after a few steps that keep its sizes."""
    value, axis = _dynamic(d)
    for _ in range(d.integer(0, 2)):
        opcode = d.pick(("add", "multiply", "negate", "maximum"))
        operands = (value,) if opcode == "negate" else (value, value)
        value = d.builder.op(opcode, *operands)
    d.inexact.add(value)
    return value, axis


def _set_size(d: Draw) -> HloInstruction:
    """A dynamic result, or what is left of it after a reduction."""
    value, axis = _used(d)
    if d.chance(0.4):
        return value
    dtype = value.shape.element_type
    body = known_reducer(d, dtype, ("add", "maximum"))
    init = d.builder.constant(0, dtype)
    return d.op("reduce", value, init, dimensions=(axis,), to_apply=body)


def _get_size(d: Draw) -> HloInstruction:
    value, axis = _used(d)
    return d.op("get-dimension-size", value, dimensions=(axis,))


def _dynamic_reshape(d: Draw) -> HloInstruction:
    value = d.any_value(_TYPES)
    dims = d.random.sample(value.shape.dims, value.shape.rank)
    sizes = [d.builder.constant(size, dt.S32) for size in dims]
    return d.op("dynamic-reshape", value, *sizes, shape=array(value.shape.element_type, dims))


DYNAMIC: Mapping[str, Recipe] = MappingProxyType(
    {
        "set-dimension-size": _set_size,
        "get-dimension-size": _get_size,
        "dynamic-reshape": _dynamic_reshape,
    }
)
"""Recipe by opcode."""
