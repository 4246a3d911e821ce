"""Uniform and normal numbers from random bits.

Floats take their mantissa from the high bits (``1.m - 1``, so that [0, 1) is evenly covered),
integers the remainder of 64 bits by the width of the range, and normal numbers are those of Box and
Muller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape
from xladev.passes.expansions.emit import Emitter

Bits = Callable[[PrimitiveType, tuple[int, ...]], HloInstruction]
"""Fresh random bits of an unsigned type and dimensions."""


def uniform(
    e: Emitter, bits: Bits, shape: Shape, low: HloInstruction, high: HloInstruction
) -> HloInstruction:
    """Numbers from ``low`` to below ``high``; of pred, either of both.

    Where ``high`` of integers is below ``low``, it is taken as that much past their largest: so XLA
    does, and TensorFlow asks for all 32-bit integers but one by 0 and -1.
    """
    element_type, dims = shape.element_type, shape.dims
    if element_type is dt.PRED:
        coin = e.compare("EQ", e.elementwise("and", bits(dt.U8, dims), 1), 1)
        return e.select(coin, _spread(e, high, dims), _spread(e, low, dims))
    if element_type.is_float:
        return _uniform_float(e, bits, shape, low, high)
    first, last = (e.convert(x, dt.U64) for x in (low, high))
    width = e.elementwise("and", e.subtract(last, first), (1 << element_type.bits) - 1)
    width = e.elementwise("maximum", width, 1)
    drawn = e.elementwise("remainder", bits(dt.U64, dims), _spread(e, width, dims))
    return e.convert(e.add(drawn, _spread(e, first, dims)), element_type)


def _spread(e: Emitter, x: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    return e.broadcast(x, dims, ())


def _uniform_float(
    e: Emitter, bits: Bits, shape: Shape, low: HloInstruction, high: HloInstruction
) -> HloInstruction:
    element_type, dims = shape.element_type, shape.dims
    wide = dt.F64 if element_type is dt.F64 else dt.F32
    first, last = e.convert(low, wide), e.convert(high, wide)
    scale, start = _spread(e, e.subtract(last, first), dims), _spread(e, first, dims)
    values = e.add(e.multiply(unit_interval(e, bits, wide, dims), scale), start)
    rounded = e.convert(values, element_type)
    bottom, top = _spread(e, low, dims), _spread(e, high, dims)
    past = e.op("and", e.compare("GE", rounded, top), e.compare("LT", bottom, top))
    return e.select(past, bottom, rounded)


def unit_interval(
    e: Emitter, bits: Bits, element_type: PrimitiveType, dims: tuple[int, ...]
) -> HloInstruction:
    """f32 or f64 numbers from 0 to below 1, evenly spaced."""
    double = element_type is dt.F64
    words = bits(dt.U64 if double else dt.U32, dims)
    mantissa = e.elementwise("shift-right-logical", words, 12 if double else 9)
    one = 0x3FF << 52 if double else 0x7F << 23
    return e.subtract(e.bitcast_convert(e.elementwise("or", mantissa, one), element_type), 1)


def normal(
    e: Emitter, bits: Bits, shape: Shape, mean: HloInstruction, deviation: HloInstruction
) -> HloInstruction:
    """Normally distributed floats: two from each pair of uniform ones."""
    element_type, count = shape.element_type, prod(shape.dims)
    wide = dt.F64 if element_type is dt.F64 else dt.F32
    half = (-(-count // 2),)
    above_zero = e.subtract(1, unit_interval(e, bits, wide, half))
    radius = e.op("sqrt", e.multiply(e.op("log", above_zero), -2))
    angle = e.multiply(unit_interval(e, bits, wide, half), 2 * math.pi)
    both = [e.multiply(radius, e.op(function, angle)) for function in ("cosine", "sine")]
    drawn = e.reshape(e.slice_in(e.concatenate(both, 0), 0, 0, count), shape.dims)
    scaled = e.multiply(drawn, _spread(e, e.convert(deviation, wide), shape.dims))
    shifted = e.add(scaled, _spread(e, e.convert(mean, wide), shape.dims))
    return e.convert(shifted, element_type)
