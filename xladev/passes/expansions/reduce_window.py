"""reduce-window as shifted slices of a padded array, combined; as a loop where they are many."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim, Window, dilated
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.nested_values import flattened
from xladev.passes.expansions.emit import Emitter, Values, begin
from xladev.passes.expansions.precision import wider_float
from xladev.passes.scalar_bodies import can_write_out, write_out
from xladev.passes.windows.sliding import windows_in_linear_time

_MOST_WRITTEN_OUT = 64


def expand_reduce_window(instruction: HloInstruction) -> HloComputation | None:
    """Windows walked in row-major order, long ones in linear time.

    None if the reducer is not elementwise.
    """
    body: HloComputation = instruction["to_apply"]
    if not can_write_out(body):
        return None
    e, operands = begin(instruction)
    linear = windows_in_linear_time(e, instruction, operands, None)
    if linear is not None:
        return e.build(linear)
    count, window = len(operands) // 2, instruction["window"]
    parts = instruction.shape.tuple_shapes or (instruction.shape,)
    types = [wider_float(s.element_type) for s in parts] * 2
    wide = [e.convert(x, t) for x, t in zip(operands, types, strict=True)]
    totals = [e.broadcast(i, s.dims, ()) for i, s in zip(wide[count:], parts, strict=True)]
    if parts[0].size:
        padded = [_padded(e, x, i, window) for x, i in zip(wide, wide[count:], strict=False)]
        totals = _combined(e, body, window, totals, padded)
    made = [e.convert(x, s.element_type) for x, s in zip(totals, parts, strict=True)]
    return e.build(e.op("tuple", *made) if instruction.shape.is_tuple else made[0])


def _padded(e: Emitter, x: HloInstruction, init: HloInstruction, window: Window) -> HloInstruction:
    padding = tuple(PadDim(w.pad_low, w.pad_high, w.base_dilation - 1) for w in window)
    return e.op("pad", x, init, padding=padding) if any(p != PadDim(0, 0) for p in padding) else x


def _combined(
    e: Emitter, body: HloComputation, window: Window, totals: Values, padded: Values
) -> list[HloInstruction]:
    dims = totals[0].shape.dims
    sizes = [w.size for w in window]
    if prod(sizes) <= _MOST_WRITTEN_OUT:
        for at in np.ndindex(*sizes):
            taken = [_shifted(e, x, window, at, dims) for x in padded]
            totals = flattened(write_out(e, body, [*totals, *taken], dims, wide=True))
        return list(totals)
    count = len(totals)
    spans = [(n - 1) * w.stride + 1 for n, w in zip(dims, window, strict=True)]
    strides = tuple(SliceDim(0, s, w.stride) for s, w in zip(spans, window, strict=True))

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        held, given = state[:count], state[count:]
        at = _offsets(e, number, window)
        taken = [e.op("slice", e.dynamic_slice(x, at, spans), slice=strides) for x in given]
        return *flattened(write_out(e, body, [*held, *taken], dims, wide=True)), *given

    return e.repeat(prod(sizes), (*totals, *padded), step)[:count]


def _shifted(
    e: Emitter, x: HloInstruction, window: Window, at: Sequence[int], dims: Sequence[int]
) -> HloInstruction:
    """The element ``at`` of each window position."""
    slices: list[SliceDim] = []
    for w, i, n in zip(window, at, dims, strict=True):
        step = w.size - 1 - i if w.reversal else i
        start = step * w.window_dilation
        slices.append(SliceDim(start, start + dilated(n, w.stride), w.stride))
    return e.op("slice", x, slice=tuple(slices))


def _offsets(e: Emitter, number: HloInstruction, window: Window) -> list[HloInstruction]:
    """Offsets of the window element with a row-major number."""
    found: list[HloInstruction] = []
    rest = number
    for w in reversed(window):
        step = e.elementwise("remainder", rest, w.size)
        rest = e.divide(rest, w.size)
        if w.reversal:
            step = e.subtract(e.scalar(w.size - 1, dt.S32), step)
        found.append(e.multiply(step, w.window_dilation))
    return found[::-1]
