"""compare of floats in total order as a comparison of integers."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
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
    return _flipped(e, e.bitcast_convert(x, _SIGNED[width]))


def from_total_order_key(
    e: Emitter, key: HloInstruction, element_type: PrimitiveType
) -> HloInstruction:
    """The floats whose `total_order_key` these are, bit for bit."""
    return e.bitcast_convert(_flipped(e, key), element_type)


def _flipped(e: Emitter, bits: HloInstruction) -> HloInstruction:
    """Negative numbers in the opposite order; twice is not at all."""
    others = 2 ** (bits.shape.element_type.bits - 1) - 1
    return e.select(e.compare("LT", bits, 0), e.elementwise("xor", bits, others), bits)
