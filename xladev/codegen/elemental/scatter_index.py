"""Where the updates of a scatter go: from indices and attributes to elements of the operand."""

from __future__ import annotations

from collections.abc import Mapping

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.indexing import index_vector
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims


def update_shape(i: HloInstruction) -> tuple[int, ...]:
    """Dimensions that all updates of a scatter have."""
    return i.operands[operand_count(i) + 1].shape.dims


def operand_count(i: HloInstruction) -> int:
    """How many arrays a scatter updates."""
    return (len(i.operands) - 1) // 2


def batch_sizes(i: HloInstruction) -> tuple[int, ...]:
    """Sizes of the dimensions of the updates that count windows."""
    window = IndexDims.of_scatter(i).window
    return tuple(size for d, size in enumerate(update_shape(i)) if d not in window)


def update_window(i: HloInstruction) -> tuple[int, ...]:
    """Sizes of the dimensions of the updates that are within a window."""
    return tuple(update_shape(i)[d] for d in IndexDims.of_scatter(i).window)


def window_sizes(i: HloInstruction) -> dict[int, int]:
    """Size of the update window by operand dimension; 1 where the dimension is inserted."""
    hidden = IndexDims.of_scatter(i).hidden
    window = iter(update_window(i))
    rank = i.operands[0].shape.rank
    return {d: 1 if d in hidden else next(window) for d in range(rank)}


def window_starts(e: ElementalEmitter, i: HloInstruction, batch: Index) -> dict[int, Value]:
    """Where the window of a batch begins, by operand dimension; i64, anything at all."""
    indices = i.operands[operand_count(i)]
    return index_vector(e, indices, batch, IndexDims.of_scatter(i))


def window_fits(
    e: ElementalEmitter, i: HloInstruction, starts: Mapping[int, Value]
) -> list[Value | bool]:
    """Conditions that all hold if a window is within the operand."""
    sizes, dims = window_sizes(i), i.operands[0].shape.dims
    return [e.at.within(s, 0, dims[d] - sizes[d] + 1) for d, s in starts.items()]


def update_index(i: HloInstruction, batch: Index, inner: Index) -> Index:
    """Coordinates of an update from those of its window and of its batch."""
    at_window = dict(zip(IndexDims.of_scatter(i).window, inner, strict=True))
    rest = iter(batch)
    return tuple(
        at_window[d] if d in at_window else next(rest) for d in range(len(update_shape(i)))
    )


def target_index(
    e: ElementalEmitter,
    i: HloInstruction,
    batch: Index,
    starts: Mapping[int, Value],
    inner: Index,
) -> Index:
    """Coordinates of the element of the operand that an update changes."""
    dims = IndexDims.of_scatter(i)
    batching, window = dims.batch_numbers, iter(inner)
    at: list[IndexValue] = []
    for d in range(i.operands[0].shape.rank):
        if d in batching:
            at.append(batch[batching[d]])
            continue
        offset: IndexValue = 0 if d in dims.dropped else next(window)
        start = starts.get(d)
        at.append(offset if start is None else e.at.add(start, offset))
    return tuple(at)


def fixed_batch(i: HloInstruction, index: Index) -> dict[int, IndexValue]:
    """Coordinates of the batches that may change an element, by number, as far as they are known.

    Args:
        i: the scatter.
        index: of the element of the operand.
    """
    return {number: index[d] for d, number in IndexDims.of_scatter(i).batch_numbers.items()}
