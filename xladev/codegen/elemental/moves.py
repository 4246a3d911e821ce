"""Kernels that move elements without looking at them."""

from __future__ import annotations

from xladev.codegen.elemental.indexing import INDEXING_RULES
from xladev.codegen.elemental.movement import MOVEMENT_RULES
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import Shape

_MOVES = frozenset({"parameter", "tuple", "concatenate", *MOVEMENT_RULES, *INDEXING_RULES}) - {
    "iota",
    "bitcast-convert",
}


def moved_as_bits(computation: HloComputation, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The shapes; with integers for narrow floats if the kernel only moves them.

    Moved as they are in memory, NaNs keep their payloads.
    """
    if any(i.opcode not in _MOVES for i in computation.instructions):
        return shapes
    bits = {8: dt.U8, 16: dt.U16}
    return tuple(
        s.with_element_type(bits[8 * s.element_type.host_nbytes])
        if s.element_type.is_float and s.element_type.bits < 32
        else s
        for s in shapes
    )
