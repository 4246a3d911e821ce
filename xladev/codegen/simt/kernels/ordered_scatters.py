"""Scatter of many windows: they are sorted by where they go, then each place takes its own in turn.

Windows that go to the same place keep their order, so results are those of one thread. The work
grows with the updates, not with the size of the array times their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.choose import flat, unflat
from xladev.codegen.elemental.computation import emit_computation
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
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
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import I1, Value
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.simt.grids import each_thread
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.kernels.copies import copy_stages
from xladev.codegen.simt.kernels.sorts import sort_kind
from xladev.codegen.simt.machine import SimtMachine
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array

MOST_NUMBERED = 1 << 31
"""Places and windows that one sorted number has bits for."""
_NOWHERE = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """The windows of a scatter, sorted: places in the upper halves, numbers in the lower ones.

    Attributes:
        scatter: whose windows never meet unless they begin at the same place.
    """

    scatter: HloInstruction

    @property
    def count(self) -> int:
        """How many windows there are."""
        return prod(batch_sizes(self.scatter))

    @property
    def shape(self) -> Shape:
        """Of the numbers."""
        return array(dt.U64, (self.count,))

    @property
    def part_nbytes(self) -> int:
        """Of one array of numbers in the workspace, of which there are three."""
        return -(-8 * self.count // 64) * 64

    def sort(self) -> KernelSpec:
        """The sort of the numbers, as a kernel."""
        less, order = HloBuilder("less"), HloBuilder("order")
        scalar = array(dt.U64)
        pair = less.parameter(scalar), less.parameter(scalar)
        comparator = less.build(less.op("compare", *pair, direction="LT"))
        numbers = order.parameter(self.shape)
        root = order.op("sort", numbers, dimensions=(0,), to_apply=comparator)
        return KernelSpec("order", order.build(root))

    def numbers(self, t: ThreadBuild, part: int) -> IrArray:
        """One of the arrays of the workspace."""
        return IrArray(t.b.byte_address(t.scratch, part * self.part_nbytes), self.shape)


def starts_tell_apart(i: HloInstruction) -> bool:
    """True if windows that begin at different places have no element in common."""
    sizes = window_sizes(i)
    return all(sizes[d] == 1 for d in i["scatter_dims_to_operand_dims"])


def can_be_ordered(i: HloInstruction) -> bool:
    """True if `starts_tell_apart` windows, and numbers have the bits."""
    return (
        starts_tell_apart(i) and max(i.operands[0].shape.size, prod(batch_sizes(i))) < MOST_NUMBERED
    )


def ordered_scatter(spec: KernelSpec, machine: SimtMachine) -> KernelKind:
    """The launches of a scatter that `can_be_ordered`."""
    order = WindowOrder(spec.computation.root)
    inner = order.sort()
    kind = sort_kind(inner, machine)
    sorting = [] if kind is None else [
        Stage(partial(_sorted, order, inner, stage), stage.shared_nbytes) for stage in kind.stages
    ]  # fmt: skip
    stages = (*copy_stages(spec), Stage(partial(_number, order)), *sorting,
              Stage(partial(_apply, order)))  # fmt: skip
    return KernelKind("scatter in order", stages, 3 * order.part_nbytes)


def _number(order: WindowOrder, t: ThreadBuild) -> LaunchDimensions:
    """A thread for each window: where it goes, and which it is."""
    i, b, e = order.scatter, t.b, t.e

    def one(window: Value) -> None:
        batch = e.at.delinear(window, batch_sizes(i))
        starts = window_starts(e, i, batch)
        fits = e.at.all_of(window_fits(e, i, starts))
        origin = target_index(e, i, batch, starts, (0,) * len(i["update_window_dims"]))
        place = e.at.value(e.at.linear(origin, i.operands[0].shape.dims))
        condition = fits if isinstance(fits, Value) else b.const(I1, fits)
        place = b.select(condition, place, _NOWHERE)
        order.numbers(t, 0).store(b, (window,), b.or_(b.shl(place, 32), window))

    return each_thread(t, order.count, one)


def _sorted(
    order: WindowOrder, inner: KernelSpec, stage: Stage, t: ThreadBuild
) -> LaunchDimensions:
    """A launch of the sort, from the first array of the workspace to the second."""
    source = order.numbers(t, 0)
    (numbers,) = inner.computation.parameters
    e = ElementalEmitter(t.b, ELEMENT_RULES, {numbers: (source,)})
    spare = order.numbers(t, 2).base
    return stage.emit(ThreadBuild(inner, t.machine, e, (source,), (order.numbers(t, 1),), spare))


def _apply(order: WindowOrder, t: ThreadBuild) -> LaunchDimensions:
    """A thread for each element of each window; those of the first to a place take all to it."""
    i, b, e = order.scatter, t.b, t.e
    window = update_window(i)
    size = prod(window)

    def number(at: Value) -> Value:
        return real_of(order.numbers(t, 1).load(b, (at,)), "a number")

    def one(thread: Value) -> None:
        at = b.udiv(thread, size)
        inner = e.at.delinear(b.urem(thread, size), window)
        own = number(at)
        before = number(b.sub(b.intrinsic("umax", at, 1), 1))
        is_first = b.or_(b.icmp("eq", at, 0), b.icmp("ne", _place(t, before), _place(t, own)))
        somewhere = b.icmp("ne", _place(t, own), _NOWHERE)
        with b.when(b.and_(is_first, somewhere)), e.scope():
            _take_all(order, t, at, inner)

    return each_thread(t, order.count * size, one)


def _place(t: ThreadBuild, number: Value) -> Value:
    return t.b.lshr(number, 32)


def _take_all(order: WindowOrder, t: ThreadBuild, first: Value, inner: Index) -> None:
    """Combines an element of the result with all updates to it."""
    i, b, e, count = order.scatter, t.b, t.e, operand_count(order.scatter)
    numbers = order.numbers(t, 1)

    def batch_of(number: Value) -> Index:
        return e.at.delinear(b.and_(number, _NOWHERE), batch_sizes(i))

    own = real_of(numbers.load(b, (first,)), "a number")
    batch = batch_of(own)
    target = target_index(e, i, batch, window_starts(e, i, batch), inner)
    initial = tuple(r.load(b, target) for r in t.results)

    def same_place(values: Sequence[Value]) -> Value:
        at = b.intrinsic("umin", values[0], order.count - 1)
        other = _place(t, real_of(numbers.load(b, (at,)), "a number"))
        inside = b.icmp("ult", values[0], order.count)
        return b.and_(inside, b.icmp("eq", other, _place(t, own)))

    def take(values: Sequence[Value]) -> Sequence[Value]:
        at, *held = values
        with e.scope():
            batch = batch_of(real_of(numbers.load(b, (at,)), "a number"))
            full = update_index(i, batch, inner)
            new = tuple(e.element(u, full) for u in i.operands[count + 1 :])
            after = emit_computation(e, i["to_apply"], unflat(tuple(held), initial) + new)
        return (b.add(at, 1), *flat(after))

    _, *final = b.while_loop((first, *flat(initial)), same_place, take)
    for result, element in zip(t.results, unflat(tuple(final), initial), strict=True):
        result.store(b, target, element)
