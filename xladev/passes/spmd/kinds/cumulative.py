"""Cumulative sums along a dimension that is cut: each part by itself, and what lies before it.

A window as long as its dimension, with padding on one side only, combines all elements up to a
place, or from one on. Each device does so with its part; of the others it needs their totals.
"""

from __future__ import annotations

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reducers import monoid_of
from xladev.passes.spmd.local_builder import identity_of
from xladev.passes.spmd.operation import Operation


def is_backward(i: HloInstruction, d: int) -> bool | None:
    """Whether a reduce-window accumulates a dimension from its end; None if it does not at all.

    The initial value stands for elements outside of the array too, so it must change nothing.
    """
    n, window = i.operands[0].shape.dims[d], i["window"][d]
    if n < 2 or len(i.operands) != 2 or not _starts_with_identity(i):
        return None
    if window == WindowDim(n, pad_low=n - 1):
        return False
    return True if window == WindowDim(n, pad_high=n - 1) else None


def _starts_with_identity(i: HloInstruction) -> bool:
    body, init = i["to_apply"], i.operands[1]
    if init.opcode != "constant" or monoid_of(body) is None:
        return False
    neutral = identity_of(body.root.opcode, i.shape.element_type)
    if neutral is None:
        return False
    value = np.asarray(neutral).astype(i.shape.element_type.np)
    return np.array_equal(np.asarray(init["literal"].value), value)


def window_of_part(o: Operation, d: int) -> WindowDim:
    """The window that accumulates a device's part."""
    size = o.operands[0].shape.dims[d]
    if is_backward(o.instruction, d):
        return WindowDim(size, pad_high=size - 1)
    return WindowDim(size, pad_low=size - 1)


def with_others(o: Operation, made: HloInstruction, d: int) -> HloInstruction:
    """A part that is accumulated along ``d``, combined with the totals of all parts before it."""
    i, b, cut = o.instruction, o.b, o.sharding(0)
    backward = is_backward(i, d)
    end = 0 if backward else made.shape.dims[d] - 1
    total = b.slice_in(made, d, end, end + 1)
    totals = b.all_gather(total, o.grid, cut.dims[d], d)
    place = b.chosen(o.grid.index(cut.dims[d]))
    at = b.iota(dt.S32, totals.shape.dims, d)
    neutral = identity_of(i["to_apply"].root.opcode, i.shape.element_type)
    assert neutral is not None
    before = b.select(b.compare("GT" if backward else "LT", at, place), totals, neutral)
    kept = [axis for axis in range(made.shape.rank) if axis != d]
    carry = b.op(
        "reduce", before, b.scalar(neutral, i.shape.element_type),
        dimensions=(d,), to_apply=i["to_apply"],
    )  # fmt: skip
    spread = b.broadcast(carry, made.shape.dims, kept)
    return b.op(i["to_apply"].root.opcode, spread, made)


def masked(o: Operation, x: HloInstruction, d: int) -> HloInstruction:
    """A part whose padding along ``d`` changes no total."""
    i = o.instruction
    neutral = identity_of(i["to_apply"].root.opcode, i.shape.element_type)
    assert neutral is not None
    return o.b.masked(x, i.operands[0].shape.dims, o.sharding(0), [d], neutral)
