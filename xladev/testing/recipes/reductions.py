"""Recipes for opcodes that run a computation of scalars over many elements."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim
from xladev.hlo.dtype import ARRAY_TYPES, FLOATS, INTEGERS
from xladev.hlo.ir import HloInstruction
from xladev.testing.draw import Dims, Draw, Recipe
from xladev.testing.recipes.computations import (
    comparator,
    largest_with_index,
    reducer,
    scalar_function,
    selection,
    variadic_reducer,
)

_NUMBERS = (dt.F32, dt.F64, dt.BF16, dt.F16, dt.S32, dt.S8, dt.U8, dt.S64, dt.U32, dt.C64, dt.C128)
_ORDERED = (*FLOATS, *INTEGERS, dt.PRED)


def _reduce(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    dtype = value.shape.element_type
    dimensions = d.subset(value.shape.rank)
    if d.chance(0.15):
        return _argument_of_largest(d, value, dimensions)
    if d.chance(0.15):
        return _reduce_many(d, value, dimensions)
    init = d.value(dtype, ())
    return d.op("reduce", value, init, dimensions=dimensions, to_apply=reducer(d, dtype))


def _reduce_many(d: Draw, value: HloInstruction, dimensions: Dims) -> HloInstruction:
    values = [value]
    for _ in range(d.integer(1, 2)):
        values.append(d.value(d.pick(_NUMBERS), value.shape.dims))
    types = [v.shape.element_type for v in values]
    inits = [d.value(t, ()) for t in types]
    return d.op(
        "reduce", *values, *inits, dimensions=dimensions, to_apply=variadic_reducer(d, types)
    )


def _argument_of_largest(d: Draw, value: HloInstruction, dimensions: Dims) -> HloInstruction:
    """A variadic reduce with a reducer of its own: the largest value and its index."""
    value = value if value.shape.element_type in INTEGERS else d.any_value(INTEGERS, exact=True)
    dimensions = tuple(x for x in dimensions if x < value.shape.rank)
    dtype = value.shape.element_type
    index = d.value(dt.S32, value.shape.dims, exact=True)
    inits = d.value(dtype, (), exact=True), d.value(dt.S32, (), exact=True)
    body = largest_with_index(d, dtype)
    return d.op("reduce", value, index, *inits, dimensions=dimensions, to_apply=body)


def _window(d: Draw, dims: Dims, *, dilate: bool = True) -> tuple[WindowDim, ...]:
    made: list[WindowDim] = []
    for size in dims:
        made.append(
            WindowDim(
                size=d.integer(1, max(min(size, 3), 1)),
                stride=d.integer(1, 2),
                pad_low=d.pick((0, 0, 1, 2, -1)) if size > 2 else d.integer(0, 1),
                pad_high=d.pick((0, 0, 1, 2, -1)) if size > 2 else d.integer(0, 1),
                base_dilation=d.pick((1, 1, 2)) if dilate else 1,
                window_dilation=d.pick((1, 1, 2)) if dilate else 1,
            )
        )
    return tuple(made)


def _reduce_window(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    types = [value.shape.element_type]
    values = [value]
    if d.chance(0.1):
        values.append(d.value(d.pick(_NUMBERS), value.shape.dims))
        types.append(values[1].shape.element_type)
    body = reducer(d, types[0]) if len(types) == 1 else variadic_reducer(d, types)
    inits = [d.value(t, ()) for t in types]
    window = _window(d, value.shape.dims)
    return d.op("reduce-window", *values, *inits, window=window, to_apply=body)


def _select_and_scatter(d: Draw) -> HloInstruction:
    operand = d.any_value((*FLOATS, *INTEGERS), exact=True)
    dims, dtype = operand.shape.dims, operand.shape.element_type
    window = tuple(
        WindowDim(
            d.integer(1, max(min(size, 3), 1)), d.integer(1, 2), d.integer(0, 1), d.integer(0, 1)
        )
        for size in dims
    )
    source = tuple(w.output_size(size) for w, size in zip(window, dims, strict=True))
    return d.op(
        "select-and-scatter",
        operand,
        d.value(dtype, source),
        d.value(dtype, ()),
        window=window,
        select=selection(d, dtype),
        scatter=reducer(d, dtype),
    )


def _map(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    others = [
        d.value(
            d.pick((value.shape.element_type, d.dtype(ARRAY_TYPES))), value.shape.dims, exact=True
        )
        for _ in range(d.integer(0, 2))
    ]
    operands = [value, *others]
    body = scalar_function(d, [o.shape.element_type for o in operands])
    return d.op("map", *operands, dimensions=tuple(range(value.shape.rank)), to_apply=body)


def _sort(d: Draw) -> HloInstruction:
    keys = d.known_bits(_ORDERED, least_rank=1)
    others = [
        d.value(d.dtype(ARRAY_TYPES), keys.shape.dims, exact=True) for _ in range(d.integer(0, 2))
    ]
    operands = [keys, *others]
    types = [o.shape.element_type for o in operands]
    if len(types) > 1 and types[1].is_complex:
        types = [types[0]]
    body = comparator(d, [o.shape.element_type for o in operands], second=len(types) > 1)
    axis = d.integer(0, keys.shape.rank - 1)
    return d.op("sort", *operands, dimensions=(axis,), is_stable=d.chance(0.8), to_apply=body)


def _topk(d: Draw) -> HloInstruction:
    value = d.known_bits((*FLOATS, *INTEGERS), least_rank=1)
    if value.shape.dims[-1] == 0:
        value = d.new_value(dt.F32, (5,))
    k = d.integer(1, value.shape.dims[-1])
    return d.op("topk", value, k=k, largest=d.chance(0.5), is_stable=True)


REDUCTIONS: Mapping[str, Recipe] = MappingProxyType(
    {
        "reduce": _reduce,
        "reduce-window": _reduce_window,
        "select-and-scatter": _select_and_scatter,
        "map": _map,
        "sort": _sort,
        "topk": _topk,
    }
)
"""Recipe by opcode."""
