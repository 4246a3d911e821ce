"""logistic as 1 / (1 + exp(-x))."""

from __future__ import annotations

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import begin
from xladev.passes.expansions.precision import working_type


def expand_logistic(instruction: HloInstruction) -> HloComputation:
    """The sigmoid; floats narrower than f32 are computed in f32."""
    e, (x,) = begin(instruction)
    element_type = x.shape.element_type
    wide = e.convert(x, working_type(element_type))
    power = e.op("exponential", e.op("negate", wide))
    return e.build(e.convert(e.divide(1, e.add(power, 1)), element_type))
