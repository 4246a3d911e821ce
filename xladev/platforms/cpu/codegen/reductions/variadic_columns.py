"""Reduces of several operands across rows, such as the place of the largest element.

A vector of neighbouring columns goes down all rows, and what is held stays in registers. Some such
vectors go together, so that memory is read in longer runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.elemental.reduction import accumulation, reduce_elements, reduction_loop
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter, position
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import Element, splat
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reduction_parts import ReductionParts
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.vectors import lanes_for, store_at

VECTORS = 4
"""Vectors of columns that go together where there are so many: a block of a kernel's loop."""

Elements = tuple[Element, ...]


def emit_variadic_columns(k: KernelBuild) -> None:
    """A reduce of several operands whose innermost dimension stays.

    Raises:
        NotInVectorsError: it is reduced, or has too few elements for vectors.
    """
    _VariadicColumns(k).emit()


def _goes_in_vectors(i: HloInstruction) -> bool:
    """True if all lanes do the same in a reducer's instruction."""
    return i.op.elementwise or i.opcode in ("parameter", "constant", "tuple", "get-tuple-element")


class _VariadicColumns:
    def __init__(self, k: KernelBuild) -> None:
        self.k, self.b = k, k.b
        self.parts = ReductionParts.of(k.root)
        if not all(map(_goes_in_vectors, self.parts.reducer.instructions)):
            raise NotInVectorsError("a reducer that branches")
        shape = self.parts.arrays[0].shape
        order = shape.minor_to_major
        self.dims, self.reduced = shape.dims, tuple(self.parts.dims)
        self.inner = next((d for d in order if self.dims[d] > 1), order[0] if order else -1)
        if self.inner < 0 or self.inner in self.reduced:
            raise NotInVectorsError("the innermost dimension is reduced")
        self.columns = self.dims[self.inner]
        self.lanes = lanes_for(k, self.columns)
        if self.lanes == 1:
            raise NotInVectorsError("too few columns for vectors")
        self.kept = tuple(d for d in range(shape.rank) if d not in self.reduced)

    def emit(self) -> None:
        """Blocks of vectors, then vectors, then single columns."""
        block = VECTORS * self.lanes
        blocks = self.columns // block
        vectors = (self.columns - blocks * block) // self.lanes
        done = blocks * block + vectors * self.lanes
        for first, count, size in ((0, blocks, VECTORS), (blocks * block, vectors, 1)):
            if count:
                self._vectors(first, count, size)
        if done < self.columns:
            self._singles(done)

    def _outer(self) -> list[int]:
        return [self.dims[d] for d in self.kept if d != self.inner]

    def _index(self, outer: Index, column: IndexValue) -> Index:
        """Of the results."""
        left = iter(outer)
        return tuple(column if d == self.inner else next(left) for d in self.kept)

    def _vectors(self, start: int, count: int, size: int) -> None:
        def body(places: Index) -> None:
            *outer, number = places
            with self.k.e.scope():
                first = self.b.mul(self.k.e.at.value(number), size * self.lanes)
                first = self.b.add(first, start)
                self._block(tuple(outer), first, size)

        self.k.split_nest([*self._outer(), count], body)

    def _block(self, outer: Index, first: Value, size: int) -> None:
        emitters = [VectorEmitter(self.k.e, self.lanes) for _ in range(size)]
        columns = [self.b.add(first, n * self.lanes) if n else first for n in range(size)]
        for e, column in zip(emitters, columns, strict=True):
            e.at.start(column, self.lanes)
        initial = tuple(
            splat(self.b, self.k.e.element(init, ()), self.lanes) for init in self.parts.inits
        )
        combine = [accumulation(e, self.k.root) for e in emitters]
        indices = [self._index(outer, column) for column in columns]

        def step(inner: Index, held: Elements) -> Elements:
            made: list[Element] = []
            for n, (e, index) in enumerate(zip(emitters, indices, strict=True)):
                own = held[n * len(initial) : (n + 1) * len(initial)]
                with e.scope():
                    full = self._full(index, inner)
                    new = tuple(e.element(a, full) for a in self.parts.arrays)
                    made += combine[n](own, new)
            return tuple(made)

        extents = [self.dims[d] for d in range(len(self.dims)) if d in self.reduced]
        found = reduction_loop(self.k.e, extents, initial * size, step)
        for n, (e, index) in enumerate(zip(emitters, indices, strict=True)):
            own = found[n * len(initial) : (n + 1) * len(initial)]
            self._store(e, index, own)

    def _full(self, index: Index, inner: Index) -> Index:
        """Of the operands."""
        kept, reduced = iter(index), iter(inner)
        return tuple(
            next(reduced) if d in self.reduced else next(kept) for d in range(len(self.dims))
        )

    def _store(self, e: VectorEmitter, index: Index, elements: Sequence[Element]) -> None:
        for result, element in zip(self.k.results, elements, strict=True):
            place = position(e.at, result.shape, index)
            if not e.at.moves(place):
                raise NotInVectorsError("results in another order")
            store_at(self.k, result, place, element)

    def _singles(self, start: int) -> None:
        def body(places: Index) -> None:
            *outer, number = places
            column = self.k.e.at.add(number, start)
            index = self._index(tuple(outer), column)
            elements = reduce_elements(self.k.e, self.k.root, index)
            for result, element in zip(self.k.results, elements, strict=True):
                result.store(self.b, index, element)

        self.k.split_nest([*self._outer(), self.columns - start], body)
