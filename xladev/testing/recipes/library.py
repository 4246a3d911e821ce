"""Recipes for custom calls, and for random numbers, of which only bounds can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import ARRAY_TYPES, INTEGERS
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array, tuple_of
from xladev.testing.draw import Dims, Draw, Recipe
from xladev.testing.recipes.computations import known_reducer
from xladev.testing.recipes.solvers import positive_definite

_FUNCTIONS = ("mhlo.erf", "chlo.tan", "mhlo.asinh", "chlo.acosh", "mhlo.cosh", "chlo.logistic")
_WIDE_FLOATS = (dt.F32, dt.F64, dt.BF16, dt.F16)
_WIDE_INTEGERS = tuple(t for t in INTEGERS if t.bits >= 8)
_MARKERS = ("Sharding", "LayoutConstraint", "MoveToDevice", "xla.sdy.PropagationBarrier")


def _custom_call(d: Draw) -> HloInstruction:
    return d.pick((_function, _marker, _top_k, _factors))(d)


def _function(d: Draw) -> HloInstruction:
    value = d.any_value((dt.F32, dt.F64, dt.BF16))
    shape = value.shape.without_layout()
    return d.op("custom-call", value, shape=shape, custom_call_target=d.pick(_FUNCTIONS))


def _marker(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES)
    shape = value.shape.without_layout()
    return d.op("custom-call", value, shape=shape, custom_call_target=d.pick(_MARKERS))


def _top_k(d: Draw) -> HloInstruction:
    value = d.value(d.pick((dt.F32, dt.S32)), d.dims(1, 2, least=2), exact=True)
    dims = (*value.shape.dims[:-1], d.integer(1, value.shape.dims[-1]))
    shape = tuple_of(array(value.shape.element_type, dims), array(dt.S32, dims))
    return d.op("custom-call", value, shape=shape, custom_call_target="TopK")


def _factors(d: Draw) -> HloInstruction:
    dtype = d.pick((dt.F32, dt.F64))
    size = d.integer(1, 4)
    batch: Dims = d.pick(((), (2,)))
    # of full rank: else the last reflectors are made of rounding errors
    value = positive_definite(d, dtype, batch, size)
    scales = array(dtype, (*batch, size))
    shape = tuple_of(value.shape.without_layout(), scales)
    return d.op("custom-call", value, shape=shape, custom_call_target="Qr")


def _rng(d: Draw) -> HloInstruction:
    """Whether all numbers are where they should."""
    kind = d.pick(("rng_uniform", "rng_normal"))
    dtype = d.dtype((*_WIDE_FLOATS, *_WIDE_INTEGERS) if kind == "rng_uniform" else _WIDE_FLOATS)
    dims = d.dims()
    low, high = (d.builder.constant(x, dtype) for x in (1, 5))
    made = d.builder.op("rng", low, high, shape=array(dtype, dims), distribution=kind)
    if kind == "rng_normal":
        inside = d.builder.op("is-finite", made)
    else:
        inside = d.builder.op("and", _compared(d, made, low, "GE"), _compared(d, made, high, "LE"))
    every = known_reducer(d, dt.PRED, ("and",))
    true = d.builder.constant(True, dt.PRED)
    return d.op("reduce", inside, true, dimensions=tuple(range(len(dims))), to_apply=every)


def _counter(d: Draw) -> HloInstruction:
    """How far the hidden counter moves between two looks at it: its start is nobody's business."""
    step = d.integer(0, 2**40)
    looks = [
        d.builder.op("rng-get-and-update-state", shape=array(dt.U64, (2,)), delta=step)
        for _ in range(2)
    ]
    return d.op("subtract", looks[1], looks[0])


def _compared(
    d: Draw, value: HloInstruction, bound: HloInstruction, direction: str
) -> HloInstruction:
    spread = d.builder.op("broadcast", bound, shape=value.shape, dimensions=())
    return d.builder.op("compare", value, spread, direction=direction)


LIBRARY: Mapping[str, Recipe] = MappingProxyType(
    {"custom-call": _custom_call, "rng": _rng, "rng-get-and-update-state": _counter}
)
"""Recipe by opcode."""
