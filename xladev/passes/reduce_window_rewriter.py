"""Reduce-window rewriter: windows take a time that does not grow with their size.

A window as long as its dimension, padded on one side, combines n elements at each of n positions:
it becomes an accumulation. Other long windows become two accumulations, and windows of several
dimensions one of each dimension, after `passes/windows/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xladev.hlo.attributes import PadDim, Window, WindowDim
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RewriteRule, RuleSet, rewrite
from xladev.passes.splats import splat_of
from xladev.passes.windows.accumulation import Spares
from xladev.passes.windows.sliding import GAIN, direction_of, windows_in_linear_time


def _in_linear_time(spares: Spares, gain: float) -> RewriteRule:
    @rewrite(m.Opcode("reduce-window").where(lambda i: not (spares and spares(i)), "not spared"))
    def windows(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
        """Long windows, accumulations and windows of several dimensions, dimension by dimension."""
        return windows_in_linear_time(r, root, root.operands, spares, gain)

    return windows


_PADDED = m.Pad(m.Op("x"), m.Op("value"), capture="pad")


@rewrite(m.ReduceWindow(_PADDED, m.Op("init")))
def padding_of_windows(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    value: HloInstruction,
    pad: HloInstruction,
    init: HloInstruction,
) -> HloInstruction | None:
    """What an array is padded with before it is accumulated is padding of its windows."""
    return _with_padding(r, root, x, pad, value)


@rewrite(m.ReduceWindow(m.Convert(_PADDED), m.Op("init")))
def converted_padding_of_windows(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    value: HloInstruction,
    pad: HloInstruction,
    init: HloInstruction,
) -> HloInstruction | None:
    """The same where the padded array is converted in between."""
    wide = r.convert(x, root.operands[0].shape.element_type)
    return _with_padding(r, root, wide, pad, value)


def _with_padding(
    r: Rewriter, root: HloInstruction, x: HloInstruction, pad: HloInstruction, value: HloInstruction
) -> HloInstruction | None:
    """The windows with the array's padding in them; None if they then accumulate nothing."""
    padding: tuple[PadDim, ...] = pad["padding"]
    if not _is_start(root, value) or any(p.interior or min(p.low, p.high) < 0 for p in padding):
        return None
    if any(w.base_dilation != 1 for w in root["window"]):
        return None
    joined: Window = tuple(
        replace(w, pad_low=w.pad_low + p.low, pad_high=w.pad_high + p.high)
        for w, p in zip(root["window"], padding, strict=True)
    )
    pairs = zip(joined, x.shape.dims, strict=True)
    if not any(w != WindowDim(1) and direction_of(w, n) is not None for w, n in pairs):
        return None
    init, reducer = root.operands[1], root["to_apply"]
    return r.op("reduce-window", x, init, window=joined, to_apply=reducer)


def _is_start(root: HloInstruction, value: HloInstruction) -> bool:
    """True if padding has the value that windows start with, once it is converted."""
    start, padded = splat_of(root.operands[1]), splat_of(value)
    if start is None or padded is None:
        return False
    with np.errstate(all="ignore"):
        return padded.astype(start.dtype).tobytes() == start.tobytes()


_PADDING = (padding_of_windows, converted_padding_of_windows)


@dataclass(frozen=True, slots=True)
class ReduceWindowRewriter(HloModulePass):
    """Rewrites cumulative reductions, long windows and windows of several dimensions.

    Their cost is then that of a few passes over the array. For pipelines of backends whose window
    reductions visit every element of every window. Sums of floats are combined in another order;
    their error is bounded by fewer roundings than one by one.

    Attributes:
        spares: what the backend computes in linear time by itself.
        gain: how often fewer elements must be combined where windows accumulate nothing.
    """

    spares: Spares = None
    gain: float = GAIN
    name = "reduce-window-rewriter"
    only_for = frozenset({"reduce-window"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return RuleSet([*_PADDING, _in_linear_time(self.spares, self.gain)]).run(module)
