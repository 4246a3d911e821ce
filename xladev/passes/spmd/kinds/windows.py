"""Opcodes that move elements along a dimension that is cut: each device fetches a range.

Where a permutation for each neighbour costs no less than all parts, the dimension is joined
instead (`may_move`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.spmd.dilated import DilatedRanges, dilated_ranges, fetch_dilated
from xladev.passes.spmd.halo import Ranges, fetch, permutation
from xladev.passes.spmd.kinds import convolutions, cumulative
from xladev.passes.spmd.kinds.window_place import WindowPlace, valid
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
    length = (local - 1) * step + extent
    return Ranges(starts, length, -(-size // count), size, _used(result, local, starts, need))


def _used(result: int, local: int, starts: Sequence[int], need: Affine) -> tuple[int, ...]:
    """How much each place needs."""
    step, _, extent = need
    return tuple((n - 1) * step + extent if n else 0 for n in valid(result, local, len(starts)))


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
        ranges = _of_pad(i, d, _count(o, d))
        x = fetch_dilated(o.b, x, o.sharding(0), d, ranges, o.operands[1])
        edges[d] = PadDim(0, 0)
    return o.local([x, o.operands[1]], padding=tuple(edges))


def _of_pad(i: HloInstruction, d: int, count: int) -> DilatedRanges:
    edge, size = i["padding"][d], i.shape.dims[d]
    local = -(-size // count)
    begins = [place * local - edge.low for place in range(count)]
    lengths = valid(size, local, count)
    return dilated_ranges(begins, lengths, edge.interior + 1, i.operands[0].shape.dims[d])


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
    windows = list(i["window"])
    moved = moved_dims(o)
    summed = [d for d in moved if cumulative.is_backward(i, d) is not None]
    for d in summed:
        arrays = [cumulative.masked(o, x, d) for x in arrays]
        windows[d] = cumulative.window_of_part(o, d)
    for d in [d for d in moved if d not in summed]:
        place = WindowPlace(i, windows[d], d, d, _count(o, d))
        arrays = [
            place.fetched(o.b, x, o.sharding(n), init)
            for n, (x, init) in enumerate(zip(arrays, inits, strict=True))
        ]
        windows[d] = place.local_window
    made = o.local([*arrays, *inits], window=tuple(windows))
    for d in summed:
        made = cumulative.with_others(o, made, d)
    return made


def _count(o: Operation, d: int) -> int:
    return o.sharding(0).counts[d]


_MOST_PIECES = 32


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
    if not ranges or any(r.pieces > _MOST_PIECES for r in ranges):
        return False
    if i.opcode == "reverse" and i.shape.dims[d] % count == 0:
        return True  # each part moves once
    moved = sum(r.sent for r in ranges)
    joined = sum(r.joined for r in ranges)
    return moved < joined or (count == 2 and moved == joined)


def _asked_slice(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [_of_slice(i, d, count)]


def _asked_pad(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [_of_pad(i, d, count).ranges]


def _asked_reverse(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [_of_reverse(i, d, count)]


def _asked_concatenate(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [] if any(not o.shape.size for o in i.operands) else _of_concatenate(i, d, count)


def _asked_window(i: HloInstruction, d: int, count: int) -> list[Ranges]:
    return [WindowPlace(i, i["window"][d], d, d, count).ranges]


_RANGES: Mapping[str, Callable[[HloInstruction, int, int], list[Ranges]]] = MappingProxyType(
    {
        "slice": _asked_slice,
        "pad": _asked_pad,
        "reverse": _asked_reverse,
        "concatenate": _asked_concatenate,
        "reduce-window": _asked_window,
        "convolution": convolutions.asked,
    }
)
"""What each operand needs of a dimension in so many parts; nothing where that is not known."""
