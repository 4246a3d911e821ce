"""Opcodes that move elements along a dimension that is cut: each device fetches a range.

Where a permutation for each neighbour costs no less than all parts, the dimension is joined
instead (`may_move`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim, WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.spmd.halo import Ranges, fetch, permutation
from xladev.passes.spmd.kinds import cumulative, reduction
from xladev.passes.spmd.local_builder import has_zero
from xladev.passes.spmd.operation import Operation

Affine = tuple[int, int, int]
"""Operand elements that result element r needs: ``r * step + first``, and how many from there."""


def moved_dims(o: Operation, number: int = 0) -> list[int]:
    """Dimensions of an operand that are cut and along which elements move."""
    cut, tensor = o.sharding(number), o.rule.operands[number]
    return [
        d
        for d, factors in enumerate(tensor)
        if cut.dims[d] and any(o.rule.kinds[f] is FactorKind.MOVE for f in factors)
    ]


def _ranges(size: int, result: int, count: int, need: Affine) -> Ranges:
    """The ranges of an operand of ``size`` elements for ``count`` parts of a result."""
    step, first, extent = need
    local = -(-result // count)
    starts = tuple(place * local * step + first for place in range(count))
    return Ranges(starts, (local - 1) * step + extent, -(-size // count), size)


def slice_(o: Operation) -> HloInstruction:
    """Ranges that begin where the slice does."""
    i, x = o.instruction, o.operands[0]
    parts = list(i["slice"])
    for d in range(len(parts)):
        if o.sharding(0).dims[d]:
            parts[d] = SliceDim(0, x.shape.dims[d])
    for d in moved_dims(o):
        stride = i["slice"][d].stride
        x = fetch(o.b, x, o.sharding(0), d, _of_slice(i, d, _count(o, d)))
        parts[d] = SliceDim(0, x.shape.dims[d], stride)
    return o.local([x], slice=tuple(parts))


def _of_slice(i: HloInstruction, d: int, count: int) -> Ranges:
    part = i["slice"][d]
    need = part.stride, part.start, 1
    return _ranges(i.operands[0].shape.dims[d], i.shape.dims[d], count, need)


def pad(o: Operation) -> HloInstruction:
    """Ranges that begin before the array, filled with the padding value."""
    i, x = o.instruction, o.operands[0]
    edges = list(i["padding"])
    for d in moved_dims(o):
        x = fetch(o.b, x, o.sharding(0), d, _of_pad(i, d, _count(o, d)), o.operands[1])
        edges[d] = PadDim(0, 0)
    return o.local([x, o.operands[1]], padding=tuple(edges))


def _of_pad(i: HloInstruction, d: int, count: int) -> Ranges:
    need = 1, -i["padding"][d].low, 1
    return _ranges(i.operands[0].shape.dims[d], i.shape.dims[d], count, need)


def reverse(o: Operation) -> HloInstruction:
    """Ranges from the end; of even parts, each is another one's whole."""
    i, x = o.instruction, o.operands[0]
    for d in moved_dims(o):
        count = _count(o, d)
        if i.shape.dims[d] % count == 0:
            turned = [(count - 1 - place, place) for place in range(count)]
            x = o.b.permute(x, permutation(o.grid, o.sharding(0), d, turned))
            continue
        x = fetch(o.b, x, o.sharding(0), d, _of_reverse(i, d, _count(o, d)))
    return o.local([x])


def _of_reverse(i: HloInstruction, d: int, count: int) -> Ranges:
    size = i.shape.dims[d]
    local = -(-size // count)
    starts = tuple(size - (place + 1) * local for place in range(count))
    return Ranges(starts, local, local, size)


def concatenate(o: Operation) -> HloInstruction:
    """The range of each operand that may lie in a device's part, and of these what does."""
    moved = moved_dims(o)
    if not moved:
        return o.local()
    (d,) = moved
    i, b = o.instruction, o.b
    (cut,) = o.division.results
    dims = cut.local_dims(i.shape.dims)
    at = b.add(b.iota(dt.S32, dims, d), b.start(cut, i.shape.dims, d))
    made: HloInstruction | None = None
    for number, (x, ranges) in enumerate(
        zip(o.operands, _of_concatenate(i, d, _count(o, d)), strict=True)
    ):
        taken = fetch(b, x, o.sharding(number), d, ranges)
        first = -ranges.starts[0]
        made = taken if made is None else b.select(b.compare("LT", at, first), made, taken)
    assert made is not None
    return made


def _of_concatenate(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    found: list[Ranges] = []
    before = 0
    for operand in i.operands:
        size = operand.shape.dims[d]
        found.append(_ranges(size, i.shape.dims[d], count, (1, -before, 1)))
        before += size
    return found


def reduce_window(o: Operation) -> HloInstruction:
    """Ranges with what the windows at their ends reach; outside is the initial value.

    Cumulative sums take the totals of other parts instead.
    """
    i = o.instruction
    count = len(o.operands) // 2
    arrays, inits = list(o.operands[:count]), o.operands[count:]
    windows, results = list(i["window"]), flattened_shapes(i.shape)[0]
    moved = moved_dims(o)
    summed = [d for d in moved if cumulative.is_backward(i, d) is not None]
    for d in summed:
        arrays = [cumulative.masked(o, x, d) for x in arrays]
        windows[d] = cumulative.window_of_part(o, d)
    for d in [d for d in moved if d not in summed]:
        ranges = _of_window(i, d, windows[d], d, d, _count(o, d))
        arrays = [
            fetch(o.b, x, o.sharding(n), d, ranges, init)
            for n, (x, init) in enumerate(zip(arrays, inits, strict=True))
        ]
        windows[d] = _on_part(windows[d], o.division.results[0].local_dims(results.dims)[d])
    made = o.local([*arrays, *inits], window=tuple(windows))
    for d in summed:
        made = cumulative.with_others(o, made, d)
    return made


def convolution(o: Operation) -> HloInstruction:
    """As a reduction over windows, with zeros outside."""
    i, labels = o.instruction, o.instruction["dim_labels"]
    moved = moved_dims(o)
    if not moved:
        return reduction.convolution(o)
    x, kernel = reduction.masked_factors(o)
    windows = list(i["window"])
    for d in moved:
        n = labels.input_spatial.index(d)
        to = labels.output_spatial[n]
        ranges = _of_window(i, d, windows[n], d, to, _count(o, d))
        zero = o.b.scalar(0, x.shape.element_type)
        x = fetch(o.b, x, o.sharding(0), d, ranges, zero)
        windows[n] = _on_part(windows[n], o.division.results[0].local_dims(i.shape.dims)[to])
    return reduction.convolution(o, [x, kernel], window=tuple(windows))


def _of_window(
    i: HloInstruction, d: int, window: WindowDim, source: int, target: int, count: int
) -> Ranges:
    """The elements that windows of each part reach; dilated ones lie ``base_dilation`` apart.

    The first of them lies as far behind the beginning of the windows in each part, as
    `_are_alike` demands, which `_edges` says.
    """
    apart = window.base_dilation
    result = flattened_shapes(i.shape)[0].dims[target]
    local = -(-result // count)
    first = -(window.pad_low // apart)
    low, reach = _edges(window)[0], _reach(window, local)
    starts = tuple(first + place * local * window.stride // apart for place in range(count))
    size = i.operands[0].shape.dims[source]
    return Ranges(starts, (reach - 1 - low) // apart + 1, -(-size // count), size)


def _reach(window: WindowDim, local: int) -> int:
    """From the beginning of the first of some windows to the end of the last one."""
    return (local - 1) * window.stride + (window.size - 1) * window.window_dilation + 1


def _edges(window: WindowDim, local: int = 1) -> tuple[int, int]:
    """How far windows reach beyond the first and the last element that they meet."""
    low = window.pad_low % window.base_dilation
    return low, (_reach(window, local) - 1 - low) % window.base_dilation


def _are_alike(i: HloInstruction, window: WindowDim, target: int, count: int) -> bool:
    """True if windows begin at the same distance from an element in all parts."""
    local = -(-flattened_shapes(i.shape)[0].dims[target] // count)
    is_met = _reach(window, local) > _edges(window)[0]
    return local * window.stride % window.base_dilation == 0 and is_met


def _on_part(window: WindowDim, local: int) -> WindowDim:
    """The window on the range that was fetched for ``local`` results."""
    low, high = _edges(window, local)
    return replace(window, pad_low=low, pad_high=high)


def _count(o: Operation, d: int) -> int:
    return o.sharding(0).counts[d]


_MOST_PIECES = 16


def may_move(i: HloInstruction, rule: FactorRule, factor: int, atoms: Atoms, grid: Grid) -> bool:
    """True if fetching ranges along a factor costs less than joining the parts of a dimension."""
    ask = _RANGES.get(i.opcode)
    d = next((d for d, factors in enumerate(rule.operands[0]) if factor in factors), None)
    results = flattened_shapes(i.shape)
    if ask is None or d is None or not i.operands[0].shape.size or not results[0].size:
        return False
    if i.opcode == "convolution" and not has_zero(i.operands[0].shape.element_type):
        return False  # nothing can stand outside
    count = grid.count(atoms)
    if i.opcode == "reduce-window" and cumulative.is_backward(i, d) is not None:
        return i.operands[0].shape.dims[d] > count  # totals are fewer than elements
    ranges = ask(i, d, count)
    if not ranges or any(len(r.distances) > _MOST_PIECES for r in ranges):
        return False
    if i.opcode == "reverse" and i.shape.dims[d] % count == 0:
        return True  # each part moves once
    moved = sum(r.sent for r in ranges)
    joined = sum((count - 1) * r.part for r in ranges)
    return moved < joined or (count == 2 and moved == joined)


def _asked_slice(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [_of_slice(i, d, count)]


def _asked_pad(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [] if i["padding"][d].interior else [_of_pad(i, d, count)]


def _asked_reverse(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [_of_reverse(i, d, count)]


def _asked_concatenate(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [] if any(not o.shape.size for o in i.operands) else _of_concatenate(i, d, count)


def _asked_window(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    window = i["window"][d]
    return [_of_window(i, d, window, d, d, count)] if _are_alike(i, window, d, count) else []


def _asked_convolution(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    labels = i["dim_labels"]
    n = labels.input_spatial.index(d)
    window = i["window"][n]
    to = labels.output_spatial[n]
    return [_of_window(i, d, window, d, to, count)] if _are_alike(i, window, to, count) else []


_RANGES: Mapping[str, Callable[[HloInstruction, int, int], list[Ranges]]] = MappingProxyType(
    {
        "slice": _asked_slice,
        "pad": _asked_pad,
        "reverse": _asked_reverse,
        "concatenate": _asked_concatenate,
        "reduce-window": _asked_window,
        "convolution": _asked_convolution,
    }
)
"""What each operand needs of a dimension in so many parts; nothing where that is not known."""
