"""Loops over results whose rows are shorter than a vector: lanes go from row to row.

Each column of some rows is one vector; they are laid side by side before they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import ComplexValue
from xladev.codegen.scalar.storage import store_element
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.lines import interleaved_lines

MOST_COLUMNS = 4
"""Elements of a row up to which lanes go from row to row."""

Bodies = tuple[Callable[[Value], None], Callable[[IndexValue], None]]
"""Code for a vector of rows that begins at a number, and for one row."""


class ShortRows:
    """Writes vectors of rows.

    Args:
        k: where to write.
        members: results of the same dimensions and layout, and what computes them.
        e: makes vectors of elements.

    Raises:
        NotInVectorsError: rows are longer, or there is only one.
    """

    def __init__(
        self, k: KernelBuild, members: Sequence[tuple[HloInstruction, IrArray]], e: VectorEmitter
    ) -> None:
        self.k, self.members, self.e = k, members, e
        dims = dimensions_of(members[0][1].shape)
        if dims is None:
            raise NotInVectorsError("rows that are no shorter than vectors")
        self.along, self.inner = dims
        self.shape = members[0][1].shape
        self.count = self.shape.dims[self.inner]

    @property
    def outer(self) -> list[int]:
        """The other dimensions, in the order of memory."""
        order = reversed(self.shape.minor_to_major)
        return [d for d in order if d not in (self.along, self.inner)]

    def bodies(self, outer: Index) -> Bodies:
        """Code for the rows at an index of the other dimensions."""
        at = dict(zip(self.outer, outer, strict=True))

        def index(row: IndexValue, column: int) -> Index:
            places = {**at, self.along: row, self.inner: column}
            return tuple(places[d] for d in range(self.shape.rank))

        def whole(row: Value) -> None:
            computed = [self._columns(root, index, row) for root, _ in self.members]
            for (_, result), columns in zip(self.members, computed, strict=True):
                place = self.e.offset(result, index(row, 0))
                for number, part in enumerate(interleaved_lines(self.k.b, columns)):
                    offset = self.k.e.at.add(place, number * self.e.lanes)
                    dtype = result.shape.element_type
                    store_element(
                        self.k.b, result.base, offset, dtype, part, metadata=result.metadata
                    )

        def rest(row: IndexValue) -> None:
            for column in range(self.count):
                elements = [self.k.e.element(root, index(row, column)) for root, _ in self.members]
                for (_, result), element in zip(self.members, elements, strict=True):
                    result.store(self.k.b, index(row, column), element)

        return whole, rest

    def _columns(
        self, root: HloInstruction, index: Callable[[IndexValue, int], Index], row: Value
    ) -> list[Value]:
        """A vector of each column of a result."""
        made = [self.e.element(root, index(row, n)) for n in range(self.count)]
        vectors = [x for x in made if not isinstance(x, ComplexValue)]
        if len(vectors) < len(made):
            raise NotInVectorsError("complex numbers in short rows")
        return vectors


def dimensions_of(shape: Shape) -> tuple[int, int] | None:
    """The dimensions along and across short rows; None if rows are long, or there is only one."""
    real = [d for d in shape.minor_to_major if shape.dims[d] != 1]
    if len(real) < 2 or not 2 <= shape.dims[real[0]] <= MOST_COLUMNS:
        return None
    return real[1], real[0]
