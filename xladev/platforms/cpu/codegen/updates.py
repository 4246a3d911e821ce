"""Kernels that change part of an array: dynamic-update-slice, scatter, select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.codegen.elemental.computation import emit_computation
from xladev.codegen.elemental.indexing import clamped_starts
from xladev.codegen.elemental.scatter_index import (
    batch_sizes,
    operand_count,
    target_index,
    update_index,
    update_window,
    window_fits,
    window_sizes,
    window_starts,
)
from xladev.codegen.elemental.selection import selected
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.platforms.cpu.codegen.build import Extent, KernelBuild
from xladev.platforms.cpu.codegen.selected import select_and_scatter_in_vectors, windows_apart

LEAST_WINDOW = 128
"""Elements of each window that a thread writes at least: it must go through all indices for them.
"""
ROW_PARTS = 8
"""Parts of the positions along a dimension: each goes through all indices for its own."""


def emit_dynamic_update_slice(k: KernelBuild) -> None:
    """Copies the operand unless it is the result, then writes the window."""
    i = k.root
    starts = clamped_starts(k.e, i.operands[2:], i.shape.dims, i.operands[1].shape.dims)
    copy_unless_in_place(k, 0)

    def write(index: Index) -> None:
        at = tuple(k.e.at.add(x, s) for x, s in zip(index, starts, strict=True))
        k.results[0].store(k.b, at, k.e.operand(i, 1, index))

    k.split_nest(i.operands[1].shape.dims, write, captures=starts)


def copy_unless_in_place(k: KernelBuild, number: int) -> None:
    """Fills result ``number`` from the root's operand of that number, unless they are one."""
    source, result = k.root.operands[number], k.results[number]
    if not _is_in_place(k, number):
        k.nest_in_layout(result, lambda at: result.store(k.b, at, k.e.element(source, at)))


def _is_in_place(k: KernelBuild, number: int) -> bool:
    source, parameters = k.root.operands[number], k.spec.computation.parameters
    return source in parameters and (number, parameters.index(source)) in k.spec.in_place


def _copy_places(
    k: KernelBuild, number: int, dimension: int, positions: tuple[IndexValue, IndexValue]
) -> None:
    """As `copy_unless_in_place`, some positions along one dimension."""
    if _is_in_place(k, number):
        return
    source, result = k.root.operands[number], k.results[number]
    dims = result.shape.dims
    order = tuple(reversed(result.shape.minor_to_major))

    def copy(physical: Index) -> None:
        at = dict(zip(order, physical, strict=True))
        index = tuple(at[d] for d in range(len(dims)))
        result.store(k.b, index, k.e.element(source, index))

    k.nest([positions if d == dimension else dims[d] for d in order], copy)


def emit_scatter(k: KernelBuild) -> None:
    """Applies updates one after another; those whose window does not fit are dropped."""
    i = k.root
    count, batches = operand_count(i), batch_sizes(i)
    window: list[Extent] = list(update_window(i))
    limits: list[tuple[int, Value, Value]] = []

    def per_batch(batch: Index) -> None:
        starts = window_starts(k.e, i, batch)
        own = [_is_between(k, starts[d], low, high) for d, low, high in limits]
        inside = k.e.at.all_of([*own, *window_fits(k.e, i, starts)])
        if isinstance(inside, bool):
            if inside:
                _write_window(k, i, batch, starts, window)
            return
        with k.b.when(inside), k.e.scope():
            _write_window(k, i, batch, starts, window)

    def rows(begin: IndexValue, end: IndexValue) -> None:
        """Some of the positions along a dimension, and updates of these, in their order.

        They are updated by the thread that copied them, in whose cache they are.
        """
        positions = i.operands[0].shape.dims[target]
        low, most = (k.e.at.value(k.e.at.mul(u, -(-positions // ROW_PARTS))) for u in (begin, end))
        high = k.b.intrinsic("smin", most, positions)
        for number in range(count):
            _copy_places(k, number, target, (low, high))
        limits.append((target, low, high))
        k.nest(batches, per_batch)

    def columns(begin: IndexValue, end: IndexValue) -> None:
        """Part of the window of each update."""
        window[free] = begin, end
        k.nest(batches, per_batch)

    target, free = _target_of_rows(i), _free_window_dimension(i)
    if k.is_shared and target >= 0:
        k.split(ROW_PARTS, rows)
        return
    for number in range(count):
        copy_unless_in_place(k, number)
    if k.is_shared and free >= 0:
        k.split(update_window(i)[free], columns, least=LEAST_WINDOW)
    else:
        k.nest(batches, per_batch)


def _is_between(k: KernelBuild, x: Value, low: Value, high: Value) -> Value:
    return k.b.and_(k.b.icmp("sge", x, low), k.b.icmp("slt", x, high))


def _target_of_rows(i: HloInstruction) -> int:
    """The longest dimension in which each update has one position; -1 if none is worth parting.

    Each thread goes through all indices, which costs little where windows are large.
    """
    sizes, dims = window_sizes(i), i.operands[0].shape.dims
    single = [d for d in IndexDims.of_scatter(i).index_map
              if sizes[d] == 1 and dims[d] >= ROW_PARTS]  # fmt: skip
    if prod(sizes.values()) < LEAST_WINDOW:
        return -1
    return max(single, key=lambda d: dims[d], default=-1)


def _free_window_dimension(i: HloInstruction) -> int:
    """The longest dimension of windows, by number, that begin where their target does; or -1.

    Parts of windows along it never meet other parts.
    """
    dims = IndexDims.of_scatter(i)
    targets = dims.windowed(i.operands[0].shape.rank)
    free = [number for number, d in enumerate(targets) if d not in dims.index_map]
    sizes = update_window(i)
    return max(free, key=lambda number: sizes[number], default=-1)


def _write_window(
    k: KernelBuild,
    i: HloInstruction,
    batch: Index,
    starts: dict[int, Value],
    window: Sequence[Extent],
) -> None:
    updates = i.operands[operand_count(i) + 1 :]

    def write(inner: Index) -> None:
        at = target_index(k.e, i, batch, starts, inner)
        full = update_index(i, batch, inner)
        before = tuple(r.load(k.b, at) for r in k.results)
        new = tuple(k.e.element(u, full) for u in updates)
        after = emit_computation(k.e, i["to_apply"], before + new)
        for result, element in zip(k.results, after, strict=True):
            result.store(k.b, at, element)

    k.nest(window, write)


def emit_select_and_scatter(k: KernelBuild) -> None:
    """Adds each source element to the base element that its window selects."""
    i = k.root
    source, init = i.operands[1:]
    result = k.results[0]
    k.nest_in_layout(result, lambda at: result.store(k.b, at, k.e.element(init, ())))

    def per_source(index: Index) -> None:
        found, at = selected(k.e, i, index)
        with k.b.when(found), k.e.scope():
            before = result.load(k.b, at)
            (after,) = emit_computation(k.e, i["scatter"], (before, k.e.element(source, index)))
            result.store(k.b, at, after)

    if not select_and_scatter_in_vectors(k, per_source):
        dims = source.shape.dims
        apart = windows_apart(i, range(len(dims)))
        k.split_nest(
            dims[:apart], lambda outer: k.nest(dims[apart:], lambda at: per_source((*outer, *at)))
        )
