"""Arithmetic on live sizes: s32 scalars computed beside the data."""

from __future__ import annotations

from xladev.hlo.attributes import PadDim, WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter


def at_least(e: Emitter, size: HloInstruction, least: int) -> HloInstruction:
    """The larger of both."""
    return e.elementwise("maximum", size, least)


def dilated(e: Emitter, size: HloInstruction, dilation: int) -> HloInstruction:
    """Extent of ``size`` elements with ``dilation - 1`` holes between each two."""
    if dilation == 1:
        return size
    spread = e.add(e.multiply(e.subtract(size, 1), dilation), 1)
    return at_least(e, spread, 0)


def after_padding(e: Emitter, size: HloInstruction, pad: PadDim) -> HloInstruction:
    """Live size of a dimension after padding."""
    total = e.add(dilated(e, size, pad.interior + 1), pad.low + pad.high)
    return at_least(e, total, 0)


def after_window(e: Emitter, size: HloInstruction, window: WindowDim) -> HloInstruction:
    """How many positions a window has over ``size`` elements."""
    extent = 0 if window.size == 0 else (window.size - 1) * window.window_dilation + 1
    total = e.add(dilated(e, size, window.base_dilation), window.pad_low + window.pad_high)
    steps = e.divide(e.subtract(total, extent), window.stride)
    fits = e.compare("GE", total, max(extent, 1))
    return e.select(fits, e.add(steps, 1), 0)


def after_slice(
    e: Emitter, size: HloInstruction, start: int, limit: int, stride: int
) -> HloInstruction:
    """How many of ``size`` elements are in a slice."""
    inside = e.subtract(e.elementwise("minimum", size, limit), start)
    return e.divide(e.add(at_least(e, inside, 0), stride - 1), stride)
