"""Accumulations along rows, which HLO spells as windows over all that came before.

Sixteen elements at once are accumulated in four steps, each of which combines the vector with
itself some lanes further on. Parts of a row are accumulated on their own, then combined with what
came before: rounding does not grow with the length of the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexValue
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
LEAST = 4 * LANES
"""Shorter rows are windows like any other."""


def is_row_scan(i: HloInstruction) -> bool:
    """True for a window over all earlier elements of the last dimension, by one opcode.

    What it starts with, which stands for elements before the first, must be known to change none.
    """
    reduction = reduction_of(i) if i.opcode == "reduce-window" else None
    if reduction is None or i.operands[1].opcode != "constant":
        return False
    if i.operands[1]["literal"].value != reduction.identity:
        return False
    dims = i.operands[0].shape.dims
    if not dims or i.shape.is_dynamic or dims[-1] < LEAST or i.shape.dims != dims:
        return False
    *outer, last = i["window"]
    whole = WindowDim(dims[-1], pad_low=dims[-1] - 1)
    return last == whole and all(w == WindowDim(1) for w in outer)


def emit_row_scan(k: KernelBuild) -> None:
    """The kernel of what `is_row_scan` accepts."""
    reduction = reduction_of(k.root)
    if reduction is not None and not k.attempt(
        lambda: _Scan(k, reduction, VectorEmitter(k.e, LANES)).emit()
    ):
        _each(k, reduction)


def _each(k: KernelBuild, reduction: Reduction) -> None:
    """One element after the other."""
    *outer, extent = k.root.shape.dims

    def row(at: Index) -> None:
        initial = [real_of(k.e.element(k.root.operands[1], ()), "an accumulation")]
        with k.b.carried_loop(0, extent, initial=initial) as loop, k.e.scope():
            index = (*at, loop.index)
            total = reduction.combine(k.b, loop.values[0], k.e.element(k.root.operands[0], index))
            k.results[0].store(k.b, index, reduction.rounded(k.b, total))
            loop.carry(total)

    k.split_nest(outer, row)


@dataclass(frozen=True, slots=True)
class _Scan:
    """The loops of one kernel, in vectors."""

    k: KernelBuild
    reduction: Reduction
    e: VectorEmitter

    def emit(self) -> None:
        """All rows."""
        self.k.split_nest(self.k.root.shape.dims[:-1], self._row)

    def _row(self, outer: Index) -> None:
        extent = self.k.root.shape.dims[-1]
        whole = extent // PART * PART
        before = real_of(self.k.e.element(self.k.root.operands[1], ()), "an accumulation")
        if whole:
            with self.k.b.carried_loop(0, whole, PART, initial=[before]) as loop, self.e.scope():
                self.e.at.is_multiple(loop.index, PART)
                loop.carry(self._part(outer, loop.index, PART, loop.values[0]))
            before = loop.values[0]
        if whole < extent:
            self._part(outer, whole, extent - whole, before)

    def _part(self, outer: Index, start: IndexValue, count: int, before: Value) -> Value:
        """Accumulates ``count`` elements; what all up to the last of them combine to."""
        b = self.k.b
        vectors = count // LANES * LANES
        initial = [self.reduction.start(1)]
        with b.carried_loop(0, vectors, LANES, initial=initial) as loop, self.e.scope():
            self.e.at.start(loop.index, LANES)
            index = (*outer, self.e.at.add(start, loop.index))
            loop.carry(self._vector(index, loop.values[0], before))
        held = loop.values[0]
        if vectors < count:
            with b.carried_loop(vectors, count, initial=[held]) as rest, self.k.e.scope():
                index = (*outer, self.k.e.at.add(start, rest.index))
                new = self.k.e.element(self.k.root.operands[0], index)
                total = self.reduction.combine(b, rest.values[0], new)
                both = self.reduction.combine(b, before, total)
                self.k.results[0].store(b, index, self.reduction.rounded(b, both))
                rest.carry(total)
            held = rest.values[0]
        return self.reduction.combine(b, before, held)

    def _vector(self, index: Index, held: Value, before: Value) -> Value:
        """Accumulates and stores a vector; its last lane, with what is held."""
        b, reduction = self.k.b, self.reduction
        total = real_of(self.e.element(self.k.root.operands[0], index), "an accumulation")
        for shift in (1, 2, 4, 8):
            lanes = tuple(LANES - shift + n if n < shift else n - shift + LANES
                          for n in range(LANES))  # fmt: skip
            total = reduction.combine(b, b.shuffle(reduction.start(LANES), total, lanes), total)
        total = reduction.combine(b, b.splat(held, LANES), total)
        both: Element = reduction.combine(b, b.splat(before, LANES), total)
        result = self.k.results[0]
        store_at(self.k, result, self.e.offset(result, index), reduction.rounded(b, both))
        return b.extract(total, LANES - 1)
