"""The loops of a reduction in vectors: which go over what stays, which over what is reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.elemental.vectors import (
    FlatEmitter,
    NotInVectorsError,
    VectorEmitter,
    is_row_major,
)
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.reductions import Reduction
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.codegen.build import KernelBuild

MOST_MERGED = 1 << 16
"""Most elements of reduced dimensions that become one loop: one accumulator would lose digits."""


@dataclass(frozen=True, slots=True)
class ReductionAxis:
    """One loop: neighbouring dimensions of the operand, of one kind.

    Attributes:
        extent: number of elements.
        reduced: whether they are reduced.
        dims: the dimensions, outermost first.
    """

    extent: int
    reduced: bool
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReductionSpace:
    """The elements of reduces of operands of the same dimensions.

    Attributes:
        k: the kernel.
        operand: shape of the operands.
        flat: whether elements are found by their row-major position.
        axes: all loops, in the order of memory.
    """

    k: KernelBuild
    operand: Shape
    flat: bool
    axes: tuple[ReductionAxis, ...]

    def emitter(self, lanes: int) -> VectorEmitter:
        """A new emitter of vectors along the innermost axis."""
        return FlatEmitter(self.k.e, lanes) if self.flat else VectorEmitter(self.k.e, lanes)

    def dims_at(self, at: IndexMath, positions: Sequence[IndexValue]) -> Index:
        """The index of an operand from the position on each axis."""
        found: dict[int, IndexValue] = {}
        for axis, position in zip(self.axes, positions, strict=True):
            sizes = [self.operand.dims[d] for d in axis.dims]
            found.update(zip(axis.dims, at.delinear(position, sizes), strict=True))
        return tuple(found.get(d, 0) for d in range(self.operand.rank))

    def vector_index(self, e: VectorEmitter, positions: Sequence[IndexValue]) -> Index:
        """The index of lane 0."""
        if not self.flat:
            return self.dims_at(e.at, positions)
        return (e.at.linear(positions, [axis.extent for axis in self.axes]),)

    def result_index(
        self, at: IndexMath, positions: Sequence[IndexValue], reduction: Reduction
    ) -> Index:
        """The index of the result from the position on each axis; reduced ones are ignored."""
        reduced: tuple[int, ...] = reduction.reduce["dimensions"]
        kept: dict[int, IndexValue] = {}
        for axis, position in zip(self.axes, positions, strict=True):
            if not axis.reduced:
                sizes = [self.operand.dims[d] for d in axis.dims]
                kept.update(zip(axis.dims, at.delinear(position, sizes), strict=True))
        return tuple(kept.get(d, 0) for d in range(self.operand.rank) if d not in reduced)


def reduction_space(k: KernelBuild, reductions: Sequence[Reduction], flat: bool) -> ReductionSpace:
    """The loops of some reductions over the same dimensions.

    Raises:
        NotInVectorsError: there are no elements, or an array is not in the order of positions.
    """
    operand = reductions[0].reduce.operands[0].shape
    reduced: tuple[int, ...] = reductions[0].reduce["dimensions"]
    if not operand.size or (flat and not is_row_major(operand)):
        raise NotInVectorsError("no order of positions")
    axes: list[ReductionAxis] = []
    for d in reversed(operand.minor_to_major):
        size = operand.dims[d]
        if size == 1:
            continue
        last = axes[-1] if axes else None
        same = flat and last is not None and last.reduced == (d in reduced)
        if same and last is not None and (not last.reduced or last.extent * size <= MOST_MERGED):
            axes[-1] = ReductionAxis(last.extent * size, last.reduced, (*last.dims, d))
        else:
            axes.append(ReductionAxis(size, d in reduced, (d,)))
    if not any(axis.reduced for axis in axes):
        raise NotInVectorsError("nothing is reduced")
    return ReductionSpace(k, operand, flat, tuple(axes))
