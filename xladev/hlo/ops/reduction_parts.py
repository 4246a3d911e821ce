"""A typed view of reduce and reduce-window, which may combine several arrays at once."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.attributes import Window
from xladev.hlo.ir import HloComputation, HloInstruction


@dataclass(frozen=True, slots=True)
class ReductionParts:
    """What a reduction combines, and how (``Reduce``, ``ReduceWindow`` of XLA's semantics).

    Attributes:
        arrays: what is combined; n arrays of the same dimensions.
        inits: n scalars to begin with.
        reducer: combines n held scalars with n new ones.
        dims: what a reduce reduces, in any order; empty for reduce-window.
        window: what a reduce-window reduces, one entry for each dimension; empty for reduce.
    """

    arrays: tuple[HloInstruction, ...]
    inits: tuple[HloInstruction, ...]
    reducer: HloComputation
    dims: tuple[int, ...]
    window: Window

    @staticmethod
    def of(i: HloInstruction) -> ReductionParts:
        """Those of a reduce or reduce-window."""
        count = len(i.operands) // 2
        reductions = i.opcode == "reduce"
        dims, window = (i["dimensions"], ()) if reductions else ((), i["window"])
        return ReductionParts(
            i.operands[:count], i.operands[count:], i["to_apply"], tuple(dims), window
        )

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions of the arrays that a reduce does not reduce, in order."""
        return tuple(d for d in range(self.arrays[0].shape.rank) if d not in self.dims)
