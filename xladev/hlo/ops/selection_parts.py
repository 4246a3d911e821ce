"""A typed view of select-and-scatter."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.attributes import Window
from xladev.hlo.ir import HloComputation, HloInstruction


@dataclass(frozen=True, slots=True)
class SelectionParts:
    """Where a select-and-scatter adds what (``SelectAndScatter`` of XLA's semantics).

    Attributes:
        operand: the array whose windows select an element each.
        source: one element for each window, of the operand's rank.
        init: scalar that the result, of the operand's dimensions, begins with.
        window: one entry for each dimension.
        select: says of two scalars of the operand whether the first stays selected.
        scatter: combines an element of the result with one of the source.
    """

    operand: HloInstruction
    source: HloInstruction
    init: HloInstruction
    window: Window
    select: HloComputation
    scatter: HloComputation

    @staticmethod
    def of(i: HloInstruction) -> SelectionParts:
        """Those of a select-and-scatter."""
        operand, source, init = i.operands
        return SelectionParts(operand, source, init, i["window"], i["select"], i["scatter"])

    @property
    def extents(self) -> tuple[int, ...]:
        """Sizes of a window."""
        return tuple(w.size for w in self.window)
