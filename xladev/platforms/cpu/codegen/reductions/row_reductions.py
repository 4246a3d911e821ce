"""Reductions along rows: vectors of accumulators, combined at the end of the row.

The number of accumulators depends on the program alone, and they are combined in the order of their
lanes, so results are the same bits whatever the width of the machine's vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.vectors import NotInVectorsError
from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.reductions import Reduction
from xladev.codegen.scalar.elements import Element, real_of
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.reductions.accumulators import accumulators
from xladev.platforms.cpu.codegen.reductions.reduction_space import ReductionSpace
from xladev.platforms.cpu.codegen.vectors import LEAST_LANES, Member, element_nbytes, store_at

Positions = tuple[IndexValue, ...]

MOST_NBYTES = 256
"""Bytes of one set of accumulators: four of the widest vectors hide the latency of additions."""
FEW_NBYTES = 64
"""Bytes for short rows and long expressions."""
SHORT_ROW = 8
"""Rows shorter than this many sets of accumulators are short."""
LONG_EXPRESSION = 24
"""Instructions in a kernel whose loop is not to be written several times."""
FEW_ROWS = 8
"""Fewer rows than threads could want: parts of each are shared."""
MOST_PARTS = 4096
"""What as many parts of a row come to is kept on the stack."""
AHEAD_NBYTES = 4096
"""How far ahead a loop that waits for memory asks for it: the processor's own prefetching ends with
each page."""
MOST_CHAIN = 1024
"""Most terms that one accumulator takes: rounding grows with their number."""


def emit_row_reductions(
    k: KernelBuild,
    space: ReductionSpace,
    reductions: Sequence[Reduction],
    results: Sequence[IrArray],
    stored: Sequence[Member],
) -> None:
    """Reductions whose innermost axis is reduced; also stores elements as it comes by them."""
    RowReductions(k, space, reductions, stored).emit(results)


class RowReductions:
    """Writes the loops of some reductions."""

    def __init__(
        self,
        k: KernelBuild,
        space: ReductionSpace,
        reductions: Sequence[Reduction],
        stored: Sequence[Member],
    ) -> None:
        self.k, self.b, self.space = k, k.b, space
        self.reductions, self.stored = reductions, stored
        self.extent = space.axes[-1].extent
        nbytes = element_nbytes(k)
        self.terms = self._terms(nbytes)
        self.lanes = min(max(k.b.module.target.vector_nbytes // nbytes, 1), self.terms)
        if self.lanes < LEAST_LANES:
            raise NotInVectorsError("rows too short for vectors")
        self.e = space.emitter(self.lanes)
        self.e.ahead = AHEAD_NBYTES if self.terms * nbytes == MOST_NBYTES else 0
        copies = self.terms // self.lanes
        self.held = [accumulators(k.b, reduction, copies, self.lanes) for reduction in reductions]
        self.in_parts = False

    def _terms(self, nbytes: int) -> int:
        """Accumulators of one reduction: those that fit, fewer where rows are short."""
        light = len(self.k.spec.computation.instructions) <= LONG_EXPRESSION
        most, few = MOST_NBYTES // nbytes, FEW_NBYTES // nbytes
        if light and self.extent >= SHORT_ROW * most:
            return most
        return min(few, 1 << (self.extent.bit_length() - 1))

    def emit(self, results: Sequence[IrArray]) -> None:
        """All results."""
        kept = [axis.extent for axis in self.space.axes if not axis.reduced]

        def result(outer: Positions) -> None:
            positions = self._positions(outer, (0,) * (len(self.space.axes) - len(kept)))
            for reduction, total, array in zip(
                self.reductions, self.totals(outer), results, strict=True
            ):
                array.store(
                    self.b, self.space.result_index(self.k.e.at, positions, reduction), total
                )

        few = self.k.is_shared and prod(kept) < FEW_ROWS
        self.in_parts = few and self._part_count(self._reduced()) > 0
        (self.k.nest if self.in_parts else self.k.split_nest)(kept, result)

    def _reduced(self) -> list[int]:
        return [axis.extent for axis in self.space.axes if axis.reduced]

    def totals(self, outer: Positions) -> list[Element]:
        """The result of each reduction at a position on the axes that are kept."""
        initial = [self._initial(reduction) for reduction in self.reductions]
        totals = self._over(outer, (), self._reduced(), initial)
        pairs = zip(self.reductions, totals, strict=True)
        return [reduction.rounded(self.b, total) for reduction, total in pairs]

    def _initial(self, reduction: Reduction) -> Value:
        return real_of(self.k.e.element(reduction.reduce.operands[1], ()), "a reduction in vectors")

    def _positions(self, kept: Positions, reduced: Positions) -> Positions:
        outer, inner = iter(kept), iter(reduced)
        return tuple(next(inner) if axis.reduced else next(outer) for axis in self.space.axes)

    def _over(
        self, outer: Positions, at: Positions, extents: Sequence[int], held: Sequence[Value]
    ) -> Sequence[Value]:
        """Combines what is held with all elements of the remaining reduced axes."""
        chain = prod(extents[:-1]) * -(-extents[-1] // self.terms)
        if chain <= MOST_CHAIN:
            return self._block(outer, at, extents, (0, extents[-1]), held)
        if self.in_parts:
            return self._in_parts(outer, at, extents, held)
        if len(extents) > 1:
            with self.b.carried_loop(0, extents[0], initial=held) as loop, self.e.scope():
                loop.carry(*self._over(outer, (*at, loop.index), extents[1:], loop.values))
            return loop.values
        part = MOST_CHAIN * self.terms
        whole = extents[0] // part * part
        with self.b.carried_loop(0, whole, part, initial=held) as loop, self.e.scope():
            self.e.at.is_multiple(loop.index, part)
            loop.carry(*self._block(outer, at, extents, (loop.index, part), loop.values))
        if whole == extents[0]:
            return loop.values
        return self._block(outer, at, extents, (whole, extents[0] - whole), loop.values)

    def _part_count(self, extents: Sequence[int]) -> int:
        """How many parts `_over` combines one after the other; 0 if they are not that simple."""
        parts = extents[0] if len(extents) > 1 else extents[-1] // (MOST_CHAIN * self.terms)
        chain = prod(extents[1:-1]) * -(-extents[-1] // self.terms) if len(extents) > 1 else 0
        return parts if 1 < parts <= MOST_PARTS and chain <= MOST_CHAIN else 0

    def _in_parts(
        self, outer: Positions, at: Positions, extents: Sequence[int], held: Sequence[Value]
    ) -> Sequence[Value]:
        """As `_over`: all parts in several threads, what they come to combined in their order."""
        count, size = self._part_count(extents), MOST_CHAIN * self.terms
        length = extents[-1] if len(extents) > 1 else size
        values = 2 if length % self.terms else 1
        buffers = [
            self.b.alloca(reduction.type, count * values, align=64) for reduction in self.reductions
        ]

        def position(buffer: Value, reduction: Reduction, number: Value, n: int) -> Value:
            index = self.b.add(self.b.mul(number, values), n)
            return self.b.element_address(buffer, index, reduction.type)

        def part(begin: IndexValue, end: IndexValue) -> None:
            with self.b.loop(begin, end) as number, self.e.scope():
                if len(extents) > 1:
                    found = self._partial(outer, (*at, number), extents[1:], (0, length))
                else:
                    found = self._partial(outer, at, extents, (self.e.at.mul(number, size), size))
                for reduction, buffer, partial in zip(self.reductions, buffers, found, strict=True):
                    for n, value in enumerate(partial):
                        self.b.store(value, position(buffer, reduction, number, n))

        self.k.split(count, part, captures=(*buffers, *outer, *at))
        with self.b.carried_loop(0, count, initial=held) as loop:
            totals = list(loop.values)
            for f, (reduction, buffer) in enumerate(zip(self.reductions, buffers, strict=True)):
                for n in range(values):
                    new = self.b.load(reduction.type, position(buffer, reduction, loop.index, n))
                    totals[f] = reduction.combine(self.b, totals[f], new)
            loop.carry(*totals)
        if len(extents) > 1 or count * size == extents[0]:
            return loop.values
        rest = count * size, extents[0] - count * size
        return self._block(outer, at, extents, rest, loop.values)

    def _block(
        self,
        outer: Positions,
        at: Positions,
        extents: Sequence[int],
        row: tuple[IndexValue, int],
        held: Sequence[Value],
    ) -> Sequence[Value]:
        """Combines what is held with all these elements."""
        totals = list(held)
        for n, partial in enumerate(self._partial(outer, at, extents, row)):
            for value in partial:
                totals[n] = self.reductions[n].combine(self.b, totals[n], value)
        return totals

    def _partial(
        self, outer: Positions, at: Positions, extents: Sequence[int], row: tuple[IndexValue, int]
    ) -> list[list[Value]]:
        """One set of accumulators for all these elements; for each reduction what they come to.

        Elements that do not fill the accumulators have a total of their own.
        """
        rest = row[1] % self.terms
        state = [value for each in self.held for value in each.start()]
        count = len(state)
        state += [reduction.start(1) for reduction in self.reductions] if rest else []
        final = self._nested(outer, at, extents[:-1], row, state)
        parts = zip(self.held, self._by_reduction(final[:count]), strict=True)
        found = [[each.total(self.b, part)] for each, part in parts]
        for total, single in zip(found, final[count:], strict=bool(rest)):
            total.append(single)
        return found

    def _by_reduction(self, values: Sequence[Value]) -> list[Sequence[Value]]:
        """What each reduction holds, out of what all do."""
        left = iter(values)
        return [list(islice(left, len(each.start()))) for each in self.held]

    def _nested(
        self,
        outer: Positions,
        at: Positions,
        extents: Sequence[int],
        row: tuple[IndexValue, int],
        state: Sequence[Value],
    ) -> Sequence[Value]:
        if not extents:
            return self._row(outer, at, row, state)
        with self.b.carried_loop(0, extents[0], initial=state) as loop, self.e.scope():
            inner = (*at, loop.index)
            loop.carry(*self._nested(outer, inner, extents[1:], row, loop.values))
        return loop.values

    def _row(
        self, outer: Positions, at: Positions, row: tuple[IndexValue, int], state: Sequence[Value]
    ) -> Sequence[Value]:
        """Vectors of one row into the accumulators, then its last elements one by one."""
        start, count = row
        whole = count // self.terms * self.terms
        singles = len(self.reductions) if count % self.terms else 0
        vectors = len(state) - singles
        base = self.k.e.at.value(start)
        end = self.k.e.at.value(self.e.at.add(start, whole))
        with self.b.carried_loop(base, end, self.terms, initial=state[:vectors]) as loop:
            self.e.at.start(loop.index, self.terms)
            loop.carry(*self._vectors(outer, (*at, loop.index), loop.values))
        if whole == count:
            return loop.values
        stop = self.k.e.at.value(self.e.at.add(start, count))
        with self.b.carried_loop(end, stop, initial=state[vectors:]) as last, self.k.e.scope():
            positions = self._positions(outer, (*at, last.index))
            index = self.space.dims_at(self.k.e.at, positions)
            self._store_single(index)
            last.carry(
                *(
                    reduction.combine(
                        self.b, held, self.k.e.element(reduction.reduce.operands[0], index)
                    )
                    for reduction, held in zip(self.reductions, last.values, strict=True)
                )
            )
        return (*loop.values, *last.values)

    def _vectors(self, outer: Positions, at: Positions, held: Sequence[Value]) -> Sequence[Value]:
        """All accumulators once; copy c of each takes the vector ``c * lanes`` elements on."""
        found: list[list[Value]] = [[] for _ in self.reductions]
        for c in range(self.terms // self.lanes):
            with self.e.scope():
                moved = self.e.at.add(at[-1], c * self.lanes)
                index = self.space.vector_index(self.e, self._positions(outer, (*at[:-1], moved)))
                self._store_vectors(index)
                for reduction, new in zip(self.reductions, found, strict=True):
                    new.append(
                        real_of(self.e.element(reduction.reduce.operands[0], index), "a reduction")
                    )
        parts = zip(self.held, self._by_reduction(held), found, strict=True)
        return [value for each, part, new in parts for value in each.take(self.b, part, new)]

    def _store_vectors(self, index: tuple[IndexValue, ...]) -> None:
        elements = [self.e.element(root, index) for root, _ in self.stored]
        for (_, result), element in zip(self.stored, elements, strict=True):
            store_at(self.k, result, self.e.offset(result, index), element)

    def _store_single(self, index: tuple[IndexValue, ...]) -> None:
        elements: list[Element] = [self.k.e.element(root, index) for root, _ in self.stored]
        for (_, result), element in zip(self.stored, elements, strict=True):
            result.store(self.b, index, element)
