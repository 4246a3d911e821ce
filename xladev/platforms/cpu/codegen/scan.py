"""Accumulations along a dimension, which HLO spells as windows over all that came before or after.

Along rows, sixteen elements at once are accumulated in four steps, each of which combines the
vector with itself some lanes further on. Along any other dimension, vectors of neighbouring
columns are. Parts of a row or column are accumulated on their own, then combined with what came
before: rounding does not grow with the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.reductions import Reduction, reduction_of
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.vectors import store_at

LANES = 16
"""Whatever the machine's vectors: the order of sums depends on it."""
PART = 1024
"""Elements that are accumulated on their own."""
LEAST = 2 * LANES
"""Shorter rows are windows like any other."""
LEAST_COLUMN = 16
"""Shorter columns are."""
_TOGETHER = 4
"""Vectors of neighbouring columns that are accumulated together, where there are as many."""


@dataclass(frozen=True, slots=True)
class Scan:
    """An accumulation.

    Attributes:
        reduction: how elements are combined, in any order.
        axis: the dimension that is gone along.
        backward: whether from the last element to the first.
    """

    reduction: Reduction
    axis: int
    backward: bool

    @property
    def dims(self) -> tuple[int, ...]:
        """Of the operand, and of the result."""
        return self.reduction.reduce.shape.dims

    @property
    def length(self) -> int:
        """Elements that are accumulated."""
        return self.dims[self.axis]

    def coordinate(self, at: IndexMath, position: IndexValue, width: int = 1) -> IndexValue:
        """Where ``width`` elements lie that follow a position, counted from where it begins."""
        return at.sub(self.length - width, position) if self.backward else position


def scan_of(i: HloInstruction) -> Scan | None:
    """How a window over all elements before or after each accumulates, by one opcode.

    None if it does not, or what it starts with, which stands for elements beyond the ends, is not
    known to change none.
    """
    reduction = reduction_of(i) if i.opcode == "reduce-window" else None
    if reduction is None or i.operands[1].opcode != "constant" or i.shape.is_dynamic:
        return None
    dims = i.operands[0].shape.dims
    if i.operands[1]["literal"].value != reduction.identity or i.shape.dims != dims:
        return None
    moving = [d for d, w in enumerate(i["window"]) if w != WindowDim(1)]
    if len(moving) != 1:
        return None
    (axis,) = moving
    n, is_row = dims[axis], moving[0] == len(dims) - 1
    if n < (LEAST if is_row else LEAST_COLUMN) or dims[-1] < LANES:
        return None
    ends = {WindowDim(n, pad_low=n - 1): False, WindowDim(n, pad_high=n - 1): True}
    backward = ends.get(i["window"][axis])
    return None if backward is None else Scan(reduction, axis, backward)


def is_scan(i: HloInstruction) -> bool:
    """True for what `emit_scan` accumulates in linear time."""
    return scan_of(i) is not None


def emit_scan(k: KernelBuild, scan: Scan) -> None:
    """The kernel of an accumulation."""
    kind = _Rows if scan.axis == len(scan.dims) - 1 else _Columns
    if not k.attempt(lambda: kind(k, scan, VectorEmitter(k.e, LANES)).emit()):
        _each(k, scan)


def _each(k: KernelBuild, scan: Scan) -> None:
    """One element after the other."""
    reduction, axis = scan.reduction, scan.axis

    def row(at: Index) -> None:
        initial = [_start(k)]
        with k.b.carried_loop(0, scan.length, initial=initial) as loop, k.e.scope():
            index = (*at[:axis], scan.coordinate(k.e.at, loop.index), *at[axis:])
            total = reduction.combine(k.b, loop.values[0], k.e.element(k.root.operands[0], index))
            k.results[0].store(k.b, index, reduction.rounded(k.b, total))
            loop.carry(total)

    k.split_nest((*scan.dims[:axis], *scan.dims[axis + 1 :]), row)


def _start(k: KernelBuild) -> Value:
    return real_of(k.e.element(k.root.operands[1], ()), "an accumulation")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The loops of one kernel along rows, in vectors of elements that follow one another."""

    k: KernelBuild
    scan: Scan
    e: VectorEmitter

    def emit(self) -> None:
        """All rows."""
        self.k.split_nest(self.scan.dims[:-1], self._row)

    def _row(self, outer: Index) -> None:
        extent = self.scan.length
        whole = extent // PART * PART
        before = _start(self.k)
        if whole:
            with self.k.b.carried_loop(0, whole, PART, initial=[before]) as loop, self.e.scope():
                self.e.at.is_multiple(loop.index, PART)
                loop.carry(self._part(outer, loop.index, PART, loop.values[0]))
            before = loop.values[0]
        if whole < extent:
            self._part(outer, whole, extent - whole, before)

    def _part(self, outer: Index, start: IndexValue, count: int, before: Value) -> Value:
        """Accumulates ``count`` elements; what all up to the last of them combine to."""
        b, reduction = self.k.b, self.scan.reduction
        vectors = count // LANES * LANES
        initial = [reduction.start(1)]
        with b.carried_loop(0, vectors, LANES, initial=initial) as loop, self.e.scope():
            self.e.at.is_multiple(loop.index, LANES)
            position = self.e.at.add(start, loop.index)
            loop.carry(self._vector(outer, position, loop.values[0], before))
        held = loop.values[0]
        if vectors < count:
            with b.carried_loop(vectors, count, initial=[held]) as rest, self.k.e.scope():
                position = self.k.e.at.add(start, rest.index)
                rest.carry(self._single(outer, position, rest.values[0], before))
            held = rest.values[0]
        return reduction.combine(b, before, held)

    def _single(self, outer: Index, position: IndexValue, held: Value, before: Value) -> Value:
        """Accumulates and stores one element, with what is held."""
        b, reduction = self.k.b, self.scan.reduction
        index = (*outer, self.scan.coordinate(self.k.e.at, position))
        total = reduction.combine(b, held, self.k.e.element(self.k.root.operands[0], index))
        both = reduction.combine(b, before, total)
        self.k.results[0].store(b, index, reduction.rounded(b, both))
        return total

    def _vector(self, outer: Index, position: IndexValue, held: Value, before: Value) -> Value:
        """Accumulates and stores a vector; its last lane, with what is held."""
        b, reduction, backward = self.k.b, self.scan.reduction, self.scan.backward
        first = self.e.at.value(self.scan.coordinate(self.e.at, position, LANES))
        self.e.at.start(first, self.e.at.divisor(first))
        index = (*outer, first)
        total = real_of(self.e.element(self.k.root.operands[0], index), "an accumulation")
        for shift in (1, 2, 4, 8):
            lanes = _lanes(-shift if backward else shift)
            total = reduction.combine(b, b.shuffle(reduction.start(LANES), total, lanes), total)
        total = reduction.combine(b, b.splat(held, LANES), total)
        both: Element = reduction.combine(b, b.splat(before, LANES), total)
        result = self.k.results[0]
        store_at(self.k, result, self.e.offset(result, index), reduction.rounded(b, both))
        return b.extract(total, 0 if backward else LANES - 1)


def _lanes(shift: int) -> tuple[int, ...]:
    """Lanes of a second vector moved by a shift; where none comes, any of a first one."""
    return tuple(n - shift + LANES if 0 <= n - shift < LANES else 0 for n in range(LANES))


@dataclass(frozen=True, slots=True)
class _Columns:
    """The loops of one kernel along another dimension, in vectors of neighbouring columns."""

    k: KernelBuild
    scan: Scan
    e: VectorEmitter

    def emit(self) -> None:
        """All columns: several vectors together, then one, then single ones."""
        done, width = 0, self.scan.dims[-1]
        for lanes in (_TOGETHER * LANES, LANES, 1):
            count = (width - done) // lanes
            if count:
                self._chunks(done, lanes, count)
            done += count * lanes

    def _chunks(self, first: int, lanes: int, count: int) -> None:
        """``count`` times ``lanes`` columns from the column ``first`` on."""
        dims, axis = self.scan.dims, self.scan.axis
        e = self.e if lanes > 1 else self.k.e

        def chunk(at: Index) -> None:
            with e.scope():
                column = e.at.value(e.at.add(first, e.at.mul(at[-1], lanes)))
                if lanes > 1:
                    self.e.at.start(column, LANES)
                columns = [e.at.add(column, n) for n in range(0, lanes, LANES)]
                self._down(lambda i: [(*at[:axis], i, *at[axis:-1], c) for c in columns], lanes)

        self.k.split_nest((*dims[:axis], *dims[axis + 1 : -1], count), chunk)

    def _down(self, indices: Callable[[IndexValue], Sequence[Index]], lanes: int) -> None:
        """From the first element to the last, in parts."""
        b, length = self.k.b, self.scan.length
        whole = length // PART * PART
        vectors = len(indices(0))
        start = _start(self.k)
        before = [b.splat(start, LANES) if lanes > 1 else start] * vectors
        if whole:
            with b.carried_loop(0, whole, PART, initial=before) as loop, self.e.scope():
                loop.carry(*self._part(indices, loop.index, PART, loop.values, lanes))
            before = list(loop.values)
        if whole < length:
            self._part(indices, whole, length - whole, before, lanes)

    def _part(
        self,
        indices: Callable[[IndexValue], Sequence[Index]],
        start: IndexValue,
        count: int,
        before: Sequence[Value],
        lanes: int,
    ) -> list[Value]:
        """Accumulates ``count`` rows; what all up to the last of them combine to."""
        b, reduction = self.k.b, self.scan.reduction
        e = self.e if lanes > 1 else self.k.e
        initial = [reduction.start(LANES if lanes > 1 else 1)] * len(before)
        with b.carried_loop(0, count, initial=initial) as loop, e.scope():
            at = self.scan.coordinate(e.at, e.at.add(start, loop.index))
            totals = []
            for index, held, earlier in zip(indices(at), loop.values, before, strict=True):
                element = e.element(self.k.root.operands[0], index)
                totals.append(reduction.combine(b, held, element))
                both = reduction.rounded(b, reduction.combine(b, earlier, totals[-1]))
                self._store(index, both, lanes)
            loop.carry(*totals)
        return [reduction.combine(b, x, y) for x, y in zip(before, loop.values, strict=True)]

    def _store(self, index: Index, element: Element, lanes: int) -> None:
        result = self.k.results[0]
        if lanes > 1:
            store_at(self.k, result, self.e.offset(result, index), element)
        else:
            result.store(self.k.b, index, element)
