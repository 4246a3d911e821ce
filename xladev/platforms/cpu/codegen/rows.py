"""Row programs: each row is reduced in some passes, then written in a last one.

Full values that are dear to compute are kept for later passes in memory of one row; what else a
pass needs, it computes again from the operands, which are in the cache by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.reduction import reduce_together
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.reductions import reduction_of
from xladev.codegen.row_program import Phase, RowProgram
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import storage_type
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.reductions.reduction_space import reduction_space
from xladev.platforms.cpu.codegen.reductions.row_reductions import RowReductions
from xladev.platforms.cpu.codegen.vectors import Member, in_vectors_and_rest, lanes_for, store_at


def emit_rows(k: KernelBuild, program: RowProgram) -> None:
    """The kernel of a row program: in vectors, or element by element."""
    if not k.attempt(lambda: _InVectors(k, program).emit()):
        _Rows(k, program).emit()


class _Rows:
    """The loops of one kernel, element by element."""

    def __init__(self, k: KernelBuild, program: RowProgram) -> None:
        self.program, self.space, self.b = program, program.space, k.b
        self.arrays = dict(k.e.arrays)
        self.scalars: dict[HloInstruction, tuple[Element, ...]] = {}
        self.k = replace(k, e=ElementalEmitter(k.b, ELEMENT_RULES, self.arrays, self.scalars))
        self.result = k.results[0]
        self.buffers: dict[HloInstruction, IrArray] = {}

    def emit(self) -> None:
        """All rows."""
        self.k.split_nest(self.space.dims[: self.space.kept], self._row)

    def _row(self, outer: Index) -> None:
        with self.k.e.scope():
            self._row_values(outer, 0)
            for number, phase in enumerate(self.program.phases):
                stored = [(i, self._buffer(i)) for i in phase.stores]
                totals = self.totals(outer, phase, stored)
                self.scalars.update(
                    {i: (total,) for i, total in zip(phase.reductions, totals, strict=True)}
                )
                self.arrays.update({i: (buffer,) for i, buffer in stored})
                self._row_values(outer, number + 1)
            if self.space.is_full(self.program.root):
                self.last_pass(outer)
            else:
                index = self._row_index(self.program.root, outer)
                self.result.store(self.b, index, self.k.e.element(self.program.root, index))

    def _row_index(self, i: HloInstruction, outer: Index) -> Index:
        return (*outer, *(0,) * (i.shape.rank - self.space.kept))

    def _row_values(self, outer: Index, level: int) -> None:
        """Computes what is known of the row by now, once for all passes that follow."""
        for i in self.program.row_values(level):
            self.k.e.element(i, self._row_index(i, outer))

    def _buffer(self, i: HloInstruction) -> IrArray:
        """Memory for one row; of complex numbers, for both parts of each."""
        if i not in self.buffers:
            dims = (*(1,) * self.space.kept, *self.space.row)
            shape = array(i.shape.element_type, dims)
            count = shape.size * (1 + i.shape.element_type.is_complex)
            stored = storage_type(i.shape.element_type)
            self.buffers[i] = IrArray(self.b.alloca(stored, count, align=64), shape)
        return self.buffers[i]

    def totals(self, outer: Index, phase: Phase, stored: Sequence[Member]) -> Sequence[Element]:
        """One pass: the result of each reduction."""

        def keep(index: Index) -> None:
            for i, buffer in stored:
                buffer.store(self.b, index, self.k.e.element(i, index))

        return reduce_together(self.k.e, phase.reductions, outer, keep)

    def last_pass(self, outer: Index) -> None:
        """Writes the row."""

        def write(inner: Index) -> None:
            index = (*outer, *inner)
            self.result.store(self.b, index, self.k.e.element(self.program.root, index))

        self.k.nest(self.space.row, write)


class _InVectors(_Rows):
    """The same in vectors."""

    def __init__(self, k: KernelBuild, program: RowProgram) -> None:
        super().__init__(k, program)
        reductions = [f for i in program.phases[0].reductions if (f := reduction_of(i)) is not None]
        self.reductions = reduction_space(self.k, reductions, flat=False)
        self.lanes = lanes_for(self.k, self.space.row[-1])
        if self.lanes == 1 or self.reductions.axes[-1].dims != (len(self.space.dims) - 1,):
            raise NotInVectorsError("rows in another order")
        self.e = VectorEmitter(self.k.e, self.lanes)

    def totals(self, outer: Index, phase: Phase, stored: Sequence[Member]) -> Sequence[Element]:
        """One pass: the result of each reduction."""
        reductions = [f for i in phase.reductions if (f := reduction_of(i)) is not None]
        positions = tuple(
            outer[axis.dims[0]] for axis in self.reductions.axes if axis.dims[0] < self.space.kept
        )
        return RowReductions(self.k, self.reductions, reductions, stored).totals(positions)

    def last_pass(self, outer: Index) -> None:
        """Writes the row."""
        *around, last = self.space.row

        def line(inner: Index) -> None:
            def whole(x: Value) -> None:
                index = (*outer, *inner, x)
                element = self.e.element(self.program.root, index)
                store_at(self.k, self.result, self.e.offset(self.result, index), element)

            def rest(x: IndexValue) -> None:
                index = (*outer, *inner, x)
                self.result.store(self.b, index, self.k.e.element(self.program.root, index))

            in_vectors_and_rest(self.e, 0, last, whole, rest)

        self.k.nest(around, line)
