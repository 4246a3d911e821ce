"""Windows of any size in a time that does not grow with it: van Herk, Gil and Werman.

A dimension is cut into blocks of the window's length, which are accumulated forward and backward.
A window begins in one block and ends at the corresponding place of the next: it is what the first
accumulates from its begin on, combined with what the second accumulates up to its end. A window
that is a block is taken from one of them alone, so that nothing is combined twice.

No element outside of a window has a part in it, and nothing is subtracted: infinities and NaN stay
in their windows, and the error of a sum is bounded by the magnitudes within it (`accumulation`).

M. van Herk, A fast algorithm for local minimum and maximum filters on rectangular and octagonal
kernels, 1992. J. Gil, M. Werman, Computing 2-D min, median, and max filters, 1993.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, Window, WindowDim, dilated
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.windows.accumulation import Accumulation, Spares, padded_along
from xladev.passes.windows.combiner import Combiner, combiner_of

LONG = 32
"""Windows of fewer elements along the last dimension are combined one by one."""
LONG_COLUMN = 16
"""The same of any other dimension, where neighbours are accumulated together."""
SHORTEST = 64
"""Shorter accumulations are left alone: their windows cost less than the steps."""
_STEPS = 12
"""What accumulating forward and backward costs, in elements combined for each one."""
_WORTH = 1 << 14
"""Elements combined in all windows below which nothing is gained."""
GAIN = 1.4
"""How often fewer elements must be combined: measured on the CPU, where 3x3 windows gain the same
as they lose by going through memory twice."""
_EDGES = 2
"""What an element is worth where the last dimension has edges or holes, and no vectors are read."""

_FEW = 4
"""Elements combined for each one below which windows of an accumulation are any windows."""

_IDEMPOTENT = frozenset({"maximum", "minimum", "and", "or"})


def windows_in_linear_time(
    e: Emitter, instruction: HloInstruction, operands: Values, spares: Spares, gain: float = GAIN
) -> HloInstruction | None:
    """A reduce-window with dimensions gone along one after the other, long windows in blocks.

    Args:
        e: receives the instructions.
        instruction: the reduce-window; what its operands are says what its initial values are.
        operands: what stands for its operands.
        spares: windows over all that came before that the backend computes by itself.
        gain: how often fewer elements must be combined where windows accumulate nothing.

    Returns:
        An array, or a tuple of arrays; None where nothing is gained, or the reducer forbids it.
    """
    window: Window = instruction["window"]
    combiner = combiner_of(instruction) if _is_worthwhile(instruction, gain) else None
    if combiner is None or any(w.reversal for w in window) and not combiner.opcode:
        return None
    count = len(operands) // 2
    pairs = zip(operands, combiner.types * 2, strict=True)
    wide = [e.convert(x, t) for x, t in pairs]
    made = _Windows(e, combiner, spares).over(wide[:count], wide[count:], window)
    parts = instruction.shape.tuple_shapes or (instruction.shape,)
    narrow = [e.convert(x, s.element_type) for x, s in zip(made, parts, strict=True)]
    return e.op("tuple", *narrow) if instruction.shape.is_tuple else narrow[0]


def _is_worthwhile(instruction: HloInstruction, gain: float) -> bool:
    """True for accumulations, and where windows in several dimensions or long ones cost much."""
    count = len(instruction.operands) // 2
    x, window = instruction.operands[0].shape, instruction["window"]
    result = (instruction.shape.tuple_shapes or (instruction.shape,))[0]
    dynamic = instruction.shape.is_dynamic or any(o.shape.is_dynamic for o in instruction.operands)
    if dynamic or not count or not result.size or not x.size:
        return False
    moving = [d for d, w in enumerate(window) if w != WindowDim(1)]
    if len(moving) == 1 and direction_of(window[moving[0]], x.dims[moving[0]]) is not None:
        return True
    combined = result.size * prod(w.size for w in window)
    combined *= _EDGES if window and _has_edges(window[-1]) else 1
    return combined >= _WORTH and combined >= gain * _cost(x.dims, window)


def _cost(dims: tuple[int, ...], window: Window) -> int:
    """Elements combined if dimensions are gone along one after the other, last one first."""
    sizes = [_places(n, w) for n, w in zip(dims, window, strict=True)]
    total = 0
    for d in reversed(range(len(dims))):
        w, before = window[d], sizes[d]
        sizes[d] = w.output_size(dims[d])
        outer = prod(sizes) // max(1, sizes[d])
        is_long = _is_long(w, d == len(dims) - 1)
        total += outer * (_STEPS * before if is_long else w.size * sizes[d])
    return total


def _places(n: int, w: WindowDim) -> int:
    return w.pad_low + dilated(n, w.base_dilation) + w.pad_high


def _has_edges(w: WindowDim) -> bool:
    return w.size > 1 and (w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1)


def _is_long(w: WindowDim, is_last: bool) -> bool:
    """True if combining one by one, at every stride, costs more than all positions at once."""
    return w.size >= (LONG if is_last else LONG_COLUMN) * w.stride


def direction_of(w: WindowDim, n: int) -> bool | None:
    """False if windows over n elements hold all up to some element, True: all from one on.

    None if they do neither, or are too few or too short to matter.
    """
    if (w.stride, w.base_dilation, w.window_dilation) != (1, 1, 1) or n < SHORTEST:
        return None
    count = w.output_size(n)
    if count * w.size < _FEW * n:
        return None
    first_end, last_begin = w.size - 1 - w.pad_low, count - 1 - w.pad_low
    if last_begin <= 0 and first_end + count <= n:
        return False
    return True if w.pad_low <= 0 and first_end >= n - 1 else None


@dataclass(frozen=True, slots=True)
class _Windows:
    """One reduce-window: its arrays, a dimension after the other."""

    e: Emitter
    combiner: Combiner
    spares: Spares

    def over(self, values: Values, inits: Values, window: Window) -> list[HloInstruction]:
        """All windows; the last dimension first, so that elements keep their order."""
        dims = values[0].shape.dims
        turns = [direction_of(w, n) if self.combiner.starts_neutral else None
                 for w, n in zip(window, dims, strict=True)]  # fmt: skip
        held = self._padded(values, inits, window, turns)
        for axis in reversed(range(len(window))):
            backward = turns[axis]
            if backward is None:
                held = self._along(held, axis, window[axis])
            else:
                held = self._accumulated(held, axis, window[axis], backward)
        if not self.combiner.starts or self._is_left(held):
            return held
        starts = [self.e.broadcast(i, held[0].shape.dims, ()) for i in inits]
        return self.combiner.combine(self.e, starts, held)

    def _is_left(self, held: Values) -> bool:
        """True for an instruction of the backend's, which begins with the initial value."""
        return held[0].opcode == "reduce-window" and self.combiner.starts_neutral

    def _padded(
        self, values: Values, inits: Values, window: Window, turns: Sequence[bool | None]
    ) -> list[HloInstruction]:
        """Arrays with the holes and edges of all windows, but of those that accumulate."""
        none = PadDim(0, 0)
        pads = tuple(
            none if turn is not None else PadDim(w.pad_low, w.pad_high, w.base_dilation - 1)
            for w, turn in zip(window, turns, strict=True)
        )
        if all(p == none for p in pads):
            return list(values)
        pairs = zip(values, inits, strict=True)
        return [self.e.op("pad", x, i, padding=pads) for x, i in pairs]

    def _accumulated(
        self, values: Values, axis: int, w: WindowDim, backward: bool
    ) -> list[HloInstruction]:
        """Windows over all up to some element, or from one on."""
        n = values[0].shape.dims[axis]
        made = Accumulation(self.e, self.combiner, self.spares, backward).along(values, axis)
        first = -w.pad_low if backward else w.size - 1 - w.pad_low
        high = first + w.output_size(n) - n
        return padded_along(self.e, self.combiner, made, axis, -first, high)

    def _along(self, values: Values, axis: int, w: WindowDim) -> list[HloInstruction]:
        """Windows over a dimension without edges and holes."""
        if not _is_long(w, axis == values[0].shape.rank - 1):
            return self._one_by_one(values, axis, w)
        made = self._dilated(values, axis, w.size, w.window_dilation)
        extent = made[0].shape.dims[axis]
        return [self.e.slice_in(x, axis, 0, extent, w.stride) for x in made]

    def _one_by_one(self, values: Values, axis: int, w: WindowDim) -> list[HloInstruction]:
        plain = WindowDim(w.size, w.stride, window_dilation=w.window_dilation)
        if plain == WindowDim(1):
            return list(values)
        window = [WindowDim(1)] * values[0].shape.rank
        window[axis] = plain
        starts = self.combiner.scalars(self.e)
        reducer = self.combiner.computation()
        made = self.e.op("reduce-window", *values, *starts, window=tuple(window), to_apply=reducer)
        return self.e.parts(made) if made.shape.is_tuple else [made]

    def _dilated(self, values: Values, axis: int, size: int, step: int) -> list[HloInstruction]:
        """Windows whose elements are ``step`` places apart: one in ``step`` columns each."""
        if step == 1:
            return self._sliding(values, axis, size)
        dims = values[0].shape.dims
        rows = -(-dims[axis] // step)
        grown = padded_along(self.e, self.combiner, values, axis, 0, rows * step - dims[axis])
        split = (*dims[:axis], rows, step, *dims[axis + 1 :])
        made = self._sliding([self.e.reshape(x, split) for x in grown], axis, size)
        whole = (*dims[:axis], (rows - size + 1) * step, *dims[axis + 1 :])
        count = dims[axis] - (size - 1) * step
        return [self.e.slice_in(self.e.reshape(x, whole), axis, 0, count) for x in made]

    def _sliding(self, values: Values, axis: int, size: int) -> list[HloInstruction]:
        """All windows of neighbours: the end of one block, and the begin of the next."""
        dims = values[0].shape.dims
        n = dims[axis]
        blocks = -(-n // size)
        grown = padded_along(self.e, self.combiner, values, axis, 0, blocks * size - n)
        split = (*dims[:axis], blocks, size, *dims[axis + 1 :])
        whole = (*dims[:axis], blocks * size, *dims[axis + 1 :])
        cut = [self.e.reshape(x, split) for x in grown]

        def accumulated(backward: bool, start: int) -> list[HloInstruction]:
            each = Accumulation(self.e, self.combiner, self.spares, backward)
            made = [self.e.reshape(x, whole) for x in each.along(cut, axis + 1)]
            return [self.e.slice_in(x, axis, start, start + n - size + 1) for x in made]

        ends, begins = accumulated(True, 0), accumulated(False, size - 1)
        both = self.combiner.combine(self.e, ends, begins)
        if self.combiner.opcode in _IDEMPOTENT:
            return both
        at = self.e.iota(dt.U32, both[0].shape.dims, axis)
        whole_block = self.e.compare("EQ", self.e.elementwise("remainder", at, size), 0)
        pairs = zip(begins, both, strict=True)
        return [self.e.select(whole_block, alone, x) for alone, x in pairs]
