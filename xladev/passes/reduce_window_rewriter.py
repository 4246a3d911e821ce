"""Reduce-window rewriter: cumulative sums and the like take time linear in their length.

A window as long as its dimension, padded on one side, combines n elements at each of n positions.
Here, blocks of 32 elements are accumulated in five doubling steps, then the totals of blocks the
same way, and what came before a block is combined with all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Window, WindowDim
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.reducers import monoid_of
from xladev.passes import pattern as m
from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.precision import working_type
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RuleSet, rewrite
from xladev.passes.splats import all_elements

_BLOCK = 32
_SHORTEST = 64
"""Shorter dimensions are left alone: their windows cost less than the steps."""


def _neutral(instruction: HloInstruction) -> complex | None:
    """The value that the reducer leaves others unchanged with; None if it is not known."""
    body = instruction["to_apply"]
    if monoid_of(body) is None:
        return None
    opcode, element_type = body.root.opcode, instruction.shape.element_type
    if opcode == "add" and element_type is not dt.PRED:
        return 0
    if opcode == "multiply" and element_type is not dt.PRED:
        return 1
    if opcode in ("maximum", "minimum") and element_type.is_float and element_type.bits >= 16:
        return float("-inf") if opcode == "maximum" else float("inf")
    return None


def _cumulative_axis(window: Window, dims: Sequence[int]) -> int | None:
    """The one dimension that a window covers whole, with padding on one side only."""
    axes = [d for d, w in enumerate(window) if w != WindowDim(1)]
    if len(axes) != 1:
        return None
    (axis,) = axes
    n = dims[axis]
    whole = (WindowDim(n, pad_low=n - 1), WindowDim(n, pad_high=n - 1))
    return axis if n >= _SHORTEST and window[axis] in whole else None


def _is_cumulative(instruction: HloInstruction) -> bool:
    if len(instruction.operands) != 2 or instruction.shape.is_dynamic:
        return False
    values, init = instruction.operands
    neutral = _neutral(instruction)
    if neutral is None or not all_elements(init, neutral):
        return False
    same = values.shape.element_type is instruction.shape.element_type
    return same and _cumulative_axis(instruction["window"], values.shape.dims) is not None


def accumulate(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A window over all that came before is an accumulation."""
    values = root.operands[0]
    axis = _cumulative_axis(root["window"], values.shape.dims)
    neutral = _neutral(root)
    if axis is None or neutral is None:
        return None
    rank = values.shape.rank
    order = [*(d for d in range(rank) if d != axis), axis]
    wide = r.convert(values, working_type(values.shape.element_type))
    backward = root["window"][axis].pad_high > 0
    moved = r.transpose(wide, order)
    moved = r.reverse(moved, -1) if backward else moved
    made = _Accumulation(r, root["to_apply"].root.opcode, neutral).along_last(moved)
    made = r.reverse(made, -1) if backward else made
    back = r.transpose(made, [order.index(d) for d in range(rank)])
    return r.convert(back, values.shape.element_type)


class _Accumulation:
    """Accumulates along the last dimension by one commutative opcode."""

    def __init__(self, e: Emitter, opcode: str, neutral: complex) -> None:
        self._e = e
        self._opcode = opcode
        self._neutral = neutral

    def along_last(self, x: HloInstruction) -> HloInstruction:
        """Element i is all elements up to i, combined."""
        n = x.shape.dims[-1]
        if n <= _BLOCK:
            return self._doubling(x)
        count = -(-n // _BLOCK)
        outer = x.shape.dims[:-1]
        grown = self._padded(x, 0, count * _BLOCK - n)
        blocks = self._doubling(self._e.reshape(grown, (*outer, count, _BLOCK)))
        totals = self._e.slice_in(blocks, -1, _BLOCK - 1, _BLOCK)
        through = self.along_last(self._e.reshape(totals, (*outer, count)))
        before = self._padded(through, 1, -1)
        spread = self._e.broadcast(before, blocks.shape.dims, tuple(range(len(outer) + 1)))
        made = self._e.op(self._opcode, spread, blocks)
        flat = self._e.reshape(made, (*outer, count * _BLOCK))
        return self._e.slice_in(flat, -1, 0, n)

    def _doubling(self, x: HloInstruction) -> HloInstruction:
        shift = 1
        while shift < x.shape.dims[-1]:
            x = self._e.op(self._opcode, self._padded(x, shift, -shift), x)
            shift *= 2
        return x

    def _padded(self, x: HloInstruction, low: int, high: int) -> HloInstruction:
        none = ((0, 0, 0),) * (x.shape.rank - 1)
        return self._e.pad(x, (*none, (low, high, 0)), self._neutral)


_PATTERN = m.Opcode("reduce-window").where(_is_cumulative, "a cumulative reduction")


def _nothing(instruction: HloInstruction) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ReduceWindowRewriter(HloModulePass):
    """Rewrites cumulative reductions (add, multiply, maximum, minimum) of 64 elements and more.

    For pipelines of backends whose window reductions visit every element of every window.

    Attributes:
        spares: what the backend computes in linear time by itself.
    """

    spares: Callable[[HloInstruction], bool] = _nothing
    name = "reduce-window-rewriter"
    only_for = frozenset({"reduce-window"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        kept = _PATTERN.where(lambda i: not self.spares(i), "not spared")
        return RuleSet([rewrite(kept)(accumulate)]).run(module)
