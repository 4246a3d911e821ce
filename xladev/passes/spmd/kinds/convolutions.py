"""Convolutions of which each device has images, features, groups, places or kernel elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.factors import FactorKind, FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.hlo.sharding.rules.contraction import is_batch
from xladev.passes.spmd.dilated import DilatedRanges, dilated_ranges, fetch_dilated
from xladev.passes.spmd.halo import Ranges
from xladev.passes.spmd.kinds.reduction import masked_factors, may_multiply
from xladev.passes.spmd.kinds.window_place import WindowPlace, reach
from xladev.passes.spmd.local_builder import has_zero
from xladev.passes.spmd.operation import Operation

_MOST_PIECES = 32


def convolution(o: Operation) -> HloInstruction:
    """Zeros for the padding of operands, since zero times NaN is NaN, and outside of the image."""
    i, labels = o.instruction, o.instruction["dim_labels"]
    x, kernel = masked_factors(o)
    windows: list[WindowDim] = list(i["window"])
    zero = o.b.scalar(0, x.shape.element_type)
    for n, window in enumerate(i["window"]):
        d = labels.input_spatial[n]
        count = o.sharding(0).counts[d]
        if o.sharding(1).dims[labels.kernel_spatial[n]]:
            if is_batch(i, n):
                windows[n] = _batch_window(window.size // count)
                continue
            dilated = _of_kernel_part(i, n, count)
            x = fetch_dilated(o.b, x, o.sharding(0), d, dilated, zero)
            size = -(-window.size // count)
            windows[n] = replace(window, size=size, pad_low=0, pad_high=0, base_dilation=1)
        elif _moves(o, d):
            place = WindowPlace(i, window, d, labels.output_spatial[n], count)
            x = place.fetched(o.b, x, o.sharding(0), zero)
            windows[n] = place.local_window
    return o.local([x, kernel], window=tuple(windows), **_groups(o))


def _groups(o: Operation) -> dict[str, int]:
    """Each device has some of the groups; which factor they are the rule of convolutions says."""
    i = o.instruction
    features, batches = i["feature_group_count"], i["batch_group_count"]
    if features > 1:
        return {"feature_group_count": features // o.grid.count(o.division.factors[1])}
    if batches > 1:
        return {"batch_group_count": batches // o.grid.count(o.division.factors[0])}
    return {}


def _moves(o: Operation, d: int) -> bool:
    factors = o.rule.operands[0][d]
    return bool(o.sharding(0).dims[d]) and any(o.rule.kinds[f] is FactorKind.MOVE for f in factors)


def _batch_window(size: int) -> WindowDim:
    """The window that pairs element n of the image with element n of the kernel."""
    return WindowDim(size, stride=max(size - 1, 1), base_dilation=size)


def _of_kernel_part(i: HloInstruction, n: int, count: int) -> DilatedRanges:
    """What each part of a kernel's dimension meets of the image, for all results."""
    window: WindowDim = i["window"][n]
    labels = i["dim_labels"]
    size = -(-window.size // count)
    results = i.shape.dims[labels.output_spatial[n]]
    firsts: Sequence[int] = [place * size for place in range(count)]
    if window.reversal:  # the last elements meet the image first
        firsts = [window.size - first - size for first in firsts]
    begins = [first * window.window_dilation - window.pad_low for first in firsts]
    lengths = [reach(replace(window, size=size), results)] * count
    image = i.operands[0].shape.dims[labels.input_spatial[n]]
    return dilated_ranges(begins, lengths, window.base_dilation, image)


def asked(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    """What parts of the results need of a dimension of the image."""
    labels = i["dim_labels"]
    n = labels.input_spatial.index(d)
    return [WindowPlace(i, i["window"][n], d, labels.output_spatial[n], count).ranges]


def may_cut(i: HloInstruction, rule: FactorRule, factor: int, atoms: Atoms, grid: Grid) -> bool:
    """True for input features; for dimensions of a kernel if a device needs a part of the image.

    Padding must be zero, and so what is outside of the image.
    """
    if not may_multiply(i, rule, factor, atoms, grid):
        return False
    can_be_outside = has_zero(i.operands[0].shape.element_type)
    labels = i["dim_labels"]
    for n, d in enumerate(labels.kernel_spatial):
        if factor in rule.operands[1][d]:
            ranges = _of_kernel_part(i, n, grid.count(atoms)).ranges
            is_cheap = ranges.sent <= ranges.joined and ranges.pieces <= _MOST_PIECES
            return can_be_outside and is_cheap
    return True
