"""Accumulations along one dimension: element i of the result is all elements up to i, combined.

Blocks of 32 elements are accumulated in five doubling steps, then the totals of blocks the same
way, and what came before a block is combined with all of it. An element is combined with those up
to it alone, in their order, so infinities and NaN stay behind it. A sum of n floats passes at most
``6 * ceil(log32(n))`` roundings, where one by one it is n - 1 (Higham, Accuracy and Stability of
Numerical Algorithms, 4.2: the bound on the error is that number times the sum of magnitudes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.hlo.attributes import PadDim, WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.windows.combiner import Combiner

BLOCK = 32

Spares = Callable[[HloInstruction], bool] | None
"""Whether a backend computes a reduce-window in linear time by itself; None if it never does."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """Accumulates arrays of equal dimensions by one combiner.

    Attributes:
        e: receives the instructions.
        combiner: how elements are combined.
        spares: windows over all that came before that are left to the backend.
        backward: True from the last element to the first: all elements from i on.
    """

    e: Emitter
    combiner: Combiner
    spares: Spares
    backward: bool = False

    def along(self, values: Values, axis: int) -> list[HloInstruction]:
        """The arrays accumulated along a dimension, in the combiner's types."""
        left = self._left_to_backend(values[0], axis) if len(values) == 1 else None
        return self._in_blocks(values, axis) if left is None else [left]

    def _left_to_backend(self, x: HloInstruction, axis: int) -> HloInstruction | None:
        """As one instruction, along this dimension or, moved there, along the last one."""
        spares, rank = self.spares, x.shape.rank
        if spares is None or not self.combiner.opcode:
            return None
        there = self._as_window(x, axis)
        if spares(there) or axis == rank - 1:
            return there if spares(there) else None
        order = [*(d for d in range(rank) if d != axis), axis]
        last = self._as_window(self.e.transpose(x, order), rank - 1)
        if not spares(last):
            return None
        return self.e.transpose(last, [order.index(d) for d in range(rank)])

    def _as_window(self, x: HloInstruction, axis: int) -> HloInstruction:
        n = x.shape.dims[axis]
        low, high = (0, n - 1) if self.backward else (n - 1, 0)
        window = [WindowDim(1)] * x.shape.rank
        window[axis] = WindowDim(n, pad_low=low, pad_high=high)
        made = self.combiner.computation()
        (start,) = self.combiner.scalars(self.e)
        return self.e.op("reduce-window", x, start, window=tuple(window), to_apply=made)

    def _in_blocks(self, values: Values, axis: int) -> list[HloInstruction]:
        dims = values[0].shape.dims
        n = dims[axis]
        if n <= BLOCK:
            return self._doubling(values, axis)
        count = -(-n // BLOCK)
        split = (*dims[:axis], count, BLOCK, *dims[axis + 1 :])
        grown = self._padded(values, axis, 0, count * BLOCK - n)
        blocks = self._doubling([self.e.reshape(x, split) for x in grown], axis + 1)
        at = 0 if self.backward else BLOCK - 1
        ends = [self.e.slice_in(x, axis + 1, at, at + 1) for x in blocks]
        totals = [self.e.reshape(x, (*dims[:axis], count, *dims[axis + 1 :])) for x in ends]
        others = self._shifted(self._in_blocks(totals, axis), axis, 1)
        kept = [d for d in range(len(split)) if d != axis + 1]
        made = self._in_order([self.e.broadcast(x, split, kept) for x in others], blocks)
        whole = (*dims[:axis], count * BLOCK, *dims[axis + 1 :])
        return [self.e.slice_in(self.e.reshape(x, whole), axis, 0, n) for x in made]

    def _doubling(self, values: Values, axis: int) -> list[HloInstruction]:
        """Steps of 1, 2, 4...: each doubles how many elements are combined."""
        held, shift = list(values), 1
        while shift < values[0].shape.dims[axis]:
            held = self._in_order(self._shifted(held, axis, shift), held)
            shift *= 2
        return held

    def _in_order(self, before: Values, here: Values) -> list[HloInstruction]:
        """What was accumulated before some elements, with them; backward it comes after them."""
        left, right = (here, before) if self.backward else (before, here)
        return self.combiner.combine(self.e, left, right)

    def _shifted(self, values: Values, axis: int, shift: int) -> list[HloInstruction]:
        """Each place has what was ``shift`` places before it, in the order of accumulation."""
        low, high = (-shift, shift) if self.backward else (shift, -shift)
        return self._padded(values, axis, low, high)

    def _padded(self, values: Values, axis: int, low: int, high: int) -> list[HloInstruction]:
        return padded_along(self.e, self.combiner, values, axis, low, high)


def padded_along(
    e: Emitter, combiner: Combiner, values: Values, axis: int, low: int, high: int
) -> list[HloInstruction]:
    """Arrays with neutral elements at the ends of a dimension; negative: elements left out."""
    if not low and not high:
        return list(values)
    rank = values[0].shape.rank
    pads: Sequence[PadDim] = [PadDim(low, high) if d == axis else PadDim(0, 0) for d in range(rank)]
    pairs = zip(values, combiner.scalars(e), strict=True)
    return [e.op("pad", x, neutral, padding=tuple(pads)) for x, neutral in pairs]
