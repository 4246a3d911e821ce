"""stochastic-convert to integers as truncation and one comparison with the random bits."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import begin


def expand_stochastic_convert(instruction: HloInstruction) -> HloComputation | None:
    """Away from zero where the random bits are below the fraction cut off; None for floats."""
    target = instruction.shape.element_type
    source = instruction.operands[0].shape.element_type
    if not target.is_integral or source.bits < 8:
        return None
    e, (x, random) = begin(instruction)
    wide = dt.F64 if source.bits > 16 else dt.F32
    values = e.convert(x, wide)
    magnitude = e.op("abs", values)
    whole = e.op("floor", magnitude)
    scaled = e.multiply(e.subtract(magnitude, whole), 2.0**source.bits)
    threshold = e.convert(scaled, random.shape.element_type)
    up = e.compare("LT", random, threshold)
    moved = e.add(whole, e.convert(up, wide))
    negative = e.compare("LT", values, 0)
    signed = e.select(negative, e.op("negate", moved), moved)
    return e.build(e.convert(signed, target))
