"""logistic as exp(x) / (1 + exp(x)) below zero, 1 / (1 + exp(-x)) above: right to denormals."""

from __future__ import annotations

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import begin
from xladev.passes.expansions.precision import wider_float


def expand_logistic(instruction: HloInstruction) -> HloComputation:
    """The sigmoid; floats narrower than f32 are computed in f32.

    ``exp(-x)`` overflows before the quotient is zero: in f32 at -88.8, where the result is a
    denormal down to -104. So reals take the exponential of ``-|x|``, which never does; complex
    numbers, whose phase counts, take that of ``-x``.
    """
    e, (x,) = begin(instruction)
    element_type = x.shape.element_type
    wide = e.convert(x, wider_float(element_type))
    if element_type.is_complex:
        power = e.op("exponential", e.op("negate", wide))
        return e.build(e.divide(1, e.add(power, 1)))
    power = e.op("exponential", e.op("negate", e.op("abs", wide)))
    above = e.select(e.compare("LT", wide, 0), power, 1)
    return e.build(e.convert(e.divide(above, e.add(power, 1)), element_type))
