"""The loops of a fold in vectors: which go over what stays, which over what is folded."""

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
"""Most elements of folded dimensions that become one loop: one accumulator would lose digits."""


@dataclass(frozen=True, slots=True)
class ReductionAxis:
    """One loop: neighbouring dimensions of the operand, of one kind.

    Attributes:
        extent: number of elements.
        folded: whether they are folded.
        dims: the dimensions, outermost first.
    """

    extent: int
    folded: bool
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoldSpace:
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

    def dims_at(self, at: IndexMath, places: Sequence[IndexValue]) -> Index:
        """The index of an operand from the place on each axis."""
        found: dict[int, IndexValue] = {}
        for axis, place in zip(self.axes, places, strict=True):
            sizes = [self.operand.dims[d] for d in axis.dims]
            found.update(zip(axis.dims, at.delinear(place, sizes), strict=True))
        return tuple(found.get(d, 0) for d in range(self.operand.rank))

    def vector_index(self, e: VectorEmitter, places: Sequence[IndexValue]) -> Index:
        """The index of lane 0."""
        if not self.flat:
            return self.dims_at(e.at, places)
        return (e.at.linear(places, [axis.extent for axis in self.axes]),)

    def result_index(self, at: IndexMath, places: Sequence[IndexValue], fold: Reduction) -> Index:
        """The index of the result from the place on each axis; folded ones are not looked at."""
        folded: tuple[int, ...] = fold.reduce["dimensions"]
        kept: dict[int, IndexValue] = {}
        for axis, place in zip(self.axes, places, strict=True):
            if not axis.folded:
                sizes = [self.operand.dims[d] for d in axis.dims]
                kept.update(zip(axis.dims, at.delinear(place, sizes), strict=True))
        return tuple(kept.get(d, 0) for d in range(self.operand.rank) if d not in folded)


def fold_space(k: KernelBuild, folds: Sequence[Reduction], flat: bool) -> FoldSpace:
    """The loops of some folds over the same dimensions.

    Raises:
        NotInVectorsError: there are no elements, or an array is not in the order of positions.
    """
    operand = folds[0].reduce.operands[0].shape
    folded: tuple[int, ...] = folds[0].reduce["dimensions"]
    if not operand.size or (flat and not is_row_major(operand)):
        raise NotInVectorsError("no order of positions")
    axes: list[ReductionAxis] = []
    for d in reversed(operand.minor_to_major):
        size = operand.dims[d]
        if size == 1:
            continue
        last = axes[-1] if axes else None
        same = flat and last is not None and last.folded == (d in folded)
        if same and last is not None and (not last.folded or last.extent * size <= MOST_MERGED):
            axes[-1] = ReductionAxis(last.extent * size, last.folded, (*last.dims, d))
        else:
            axes.append(ReductionAxis(size, d in folded, (d,)))
    if not any(axis.folded for axis in axes):
        raise NotInVectorsError("nothing is folded")
    return FoldSpace(k, operand, flat, tuple(axes))
