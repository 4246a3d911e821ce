"""Which instructions only rename an array: the same bytes, so that nothing runs for them."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Layout, Shape

_VIEWS = frozenset({"reshape", "bitcast"})


def is_view(i: HloInstruction) -> bool:
    """True if an instruction gives the same bytes, in the same order, other dimensions."""
    if i.opcode not in _VIEWS:
        return False
    shapes = i.operands[0].shape, i.shape
    same = shapes[0].element_type is shapes[1].element_type
    return same and all(_is_row_major(shape) for shape in shapes)


def _is_row_major(shape: Shape) -> bool:
    order = tuple(reversed(range(shape.rank)))
    is_plain = shape.layout is None or shape.layout == Layout(order)
    return is_plain and not shape.is_dynamic
