"""compare of floats in total order as a comparison of integers."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, begin

_SIGNED = {8: dt.S8, 16: dt.S16, 32: dt.S32, 64: dt.S64}


def expand_compare(instruction: HloInstruction) -> HloComputation | None:
    """Only for floats of 8 bits or more in total order: -NaN, -inf .. -0, +0 .. inf, NaN."""
    element_type = instruction.operands[0].shape.element_type
    wanted = instruction["type"] == "TOTALORDER" and element_type.is_float
    if not wanted or element_type.bits not in _SIGNED:
        return None
    e, operands = begin(instruction)
    keys = [total_order_key(e, x) for x in operands]
    return e.build(e.compare(instruction["direction"], *keys))


def total_order_key(e: Emitter, x: HloInstruction) -> HloInstruction:
    """Signed integers in the total order of floats."""
    width = x.shape.element_type.bits
    bits = e.bitcast_convert(x, _SIGNED[width])
    flipped = e.elementwise("xor", bits, 2 ** (width - 1) - 1)
    return e.select(e.compare("LT", bits, 0), flipped, bits)
