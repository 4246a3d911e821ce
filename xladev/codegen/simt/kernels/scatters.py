"""Scatter: in the order of the updates, whatever threads do, so that results are always the same.

Four ways, the first that fits:

* updates that cannot meet are written by a thread each;
* integers are combined by atomic operations, whose order does not matter;
* many windows are sorted by where they go (`codegen.simt.kernels.ordered_scatters`);
* each element of the result goes through all windows, and takes what is meant for it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xladev.codegen.elemental.choose import choose_many
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.reduction import reduction_loop
from xladev.codegen.elemental.scatter_index import (
    batch_sizes,
    fixed_batch,
    operand_count,
    target_index,
    update_index,
    update_shape,
    update_window,
    window_fits,
    window_sizes,
    window_starts,
)
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import I1, Value
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import storage_type
from xladev.codegen.simt.atomics import atomic_operation, atomic_update
from xladev.codegen.simt.grids import each_thread, index_in_layout
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.kernels.copies import copy_stages
from xladev.codegen.simt.kernels.ordered_scatters import (
    can_be_ordered,
    ordered_scatter,
    starts_tell_apart,
)
from xladev.codegen.simt.machine import SimtMachine
from xladev.hlo.ir import HloInstruction

MOST_LOOKED_AT = 1 << 18
"""Pairs of an element and a window above which windows are sorted."""

_Change = Callable[[Index, Index], None]


def scatter_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that end with a scatter."""
    i = spec.computation.root
    if i.opcode != "scatter":
        return None
    if _never_meet(i):
        return KernelKind("scatter of apart", (*copy_stages(spec), Stage(_each_update)))
    if _operation(i, machine):
        return KernelKind("scatter by atomics", (*copy_stages(spec), Stage(_each_atomic_update)))
    if i.operands[0].shape.size * prod(batch_sizes(i)) > MOST_LOOKED_AT and can_be_ordered(i):
        return ordered_scatter(spec, machine)
    return KernelKind("scatter by location", (Stage(_each_location),))


def _never_meet(i: HloInstruction) -> bool:
    """True if no element of the operand is the target of two updates."""
    return prod(batch_sizes(i)) <= 1 or (i["unique_indices"] and starts_tell_apart(i))


def _operation(i: HloInstruction, machine: SimtMachine) -> str:
    if operand_count(i) != 1:
        return ""
    return atomic_operation(i["to_apply"], i.operands[0].shape.element_type, machine)


def _each_update(t: ThreadBuild) -> LaunchDimensions:
    """A thread for each update, which nobody else's meets."""
    i = t.spec.computation.root
    return _each_target(t, lambda at, full: _combine(t, i, at, full))


def _combine(t: ThreadBuild, i: HloInstruction, at: Index, full: Index) -> None:
    before = tuple(r.load(t.b, at) for r in t.results)
    new = tuple(t.e.element(u, full) for u in i.operands[operand_count(i) + 1 :])
    after = emit_computation(t.e, i["to_apply"], before + new)
    for result, element in zip(t.results, after, strict=True):
        result.store(t.b, at, element)


def _each_atomic_update(t: ThreadBuild) -> LaunchDimensions:
    """A thread for each update, which changes its target in one step."""
    i, result = t.spec.computation.root, t.results[0]
    stored = storage_type(result.shape.element_type)

    def change(at: Index, full: Index) -> None:
        place = t.e.at.value(result.offset(t.b, at))
        value = real_of(t.e.element(i.operands[2], full), "an update")
        atomic_update(
            t.b, _operation(i, t.machine), t.b.element_address(result.base, place, stored), value
        )

    return _each_target(t, change)


def _each_target(t: ThreadBuild, change: _Change) -> LaunchDimensions:
    """Runs ``change(target, update)`` for each update whose window fits, in a thread of its own."""
    i, e = t.spec.computation.root, t.e
    batches, window = batch_sizes(i), update_window(i)

    def one(position: Value) -> None:
        place = e.at.delinear(position, (*batches, *window))
        batch, inner = place[: len(batches)], place[len(batches) :]
        starts = window_starts(e, i, batch)
        inside = e.at.all_of(window_fits(e, i, starts))
        with t.b.when(inside if isinstance(inside, Value) else t.b.const(I1, inside)), e.scope():
            change(target_index(e, i, batch, starts, inner), update_index(i, batch, inner))

    return each_thread(t, prod(update_shape(i)), one)


def _each_location(t: ThreadBuild) -> LaunchDimensions:
    """A thread for each element of the result, which goes through all windows in their order."""
    i, e = t.spec.computation.root, t.e
    count, shape = operand_count(i), t.results[0].shape

    def one(position: Value) -> None:
        at = index_in_layout(e, shape, position)
        fixed = fixed_batch(i, at)
        extents = [1 if d in fixed else n for d, n in enumerate(batch_sizes(i))]

        def step(place: Index, held: Elements) -> Elements:
            batch = tuple(fixed.get(d, x) for d, x in enumerate(place))
            hit, inner = _hit(t, i, at, batch)

            def combined() -> Elements:
                full = update_index(i, batch, inner)
                new = tuple(e.element(u, full) for u in i.operands[count + 1 :])
                return emit_computation(e, i["to_apply"], held + new)

            return choose_many(e, hit, combined, lambda: held)

        initial = tuple(e.element(o, at) for o in i.operands[:count])
        after = initial if 0 in extents else reduction_loop(e, extents, initial, step)
        for result, element in zip(t.results, after, strict=True):
            result.store(t.b, at, element)

    return each_thread(t, shape.size, one)


def _hit(t: ThreadBuild, i: HloInstruction, at: Index, batch: Index) -> tuple[Value | bool, Index]:
    """Whether the window of a batch fits and has an element, and where within the window."""
    e, sizes = t.e, window_sizes(i)
    starts = window_starts(e, i, batch)
    batching = {*i["input_batching_dims"]}
    skipped = batching | {*i["inserted_window_dims"]}
    conditions = window_fits(e, i, starts)
    inner: list[IndexValue] = []
    for d, x in enumerate(at):
        start = starts.get(d)
        offset = x if start is None else e.at.sub(x, start)
        if d not in batching:
            conditions.append(e.at.within(offset, 0, sizes[d]))
        if d not in skipped:
            inner.append(offset)
    return e.at.all_of(conditions), tuple(inner)
