"""Computations of kernels with fewer dimensions: neighbours that nothing tells apart become one.

A batch norm of (images, channels, 28, 28) reads its operands along channels and along pixels; no
instruction tells rows of pixels from columns. With the two as one dimension of 784, vectors go on
over the ends of rows, and indices have fewer parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Literal
from xladev.hlo.shape import Shape, row_major, tuple_of
from xladev.platforms.cpu.codegen.touched_dimensions import (
    Touched,
    merged_attributes,
    merged_operands,
    touched,
)

Boundary = tuple[HloInstruction, int]
"""Between a dimension of an array and the next."""


def with_merged_dimensions(computation: HloComputation) -> HloComputation:
    """The same computation on the same memory, with as few dimensions as its instructions allow.

    Dimensions that a broadcast makes, or a reduction takes away, may merge with one another, and
    those that a transpose leaves side by side, or that a slice, a window and the like leave alone
    (`touched_dimensions.py`); all of an instruction that moves elements otherwise, or whose array
    is not row-major, stay. Returns the computation itself where none merge.
    """
    bounds = _Boundaries(computation)
    if not bounds.some_merge:
        return computation
    made: dict[HloInstruction, HloInstruction] = {}
    for i in computation.instructions:
        made[i] = _rebuilt(i, tuple(made[o] for o in i.operands), bounds)
    instructions = tuple(made.values())
    return HloComputation(computation.name, instructions, made[computation.root])


class _Boundaries:
    """Which boundaries stay: a forest of those that stay or go together."""

    def __init__(self, computation: HloComputation) -> None:
        self._above: dict[Boundary, Boundary] = {}
        self._kept: set[Boundary] = set()
        for i in computation.instructions:
            self._note(i)
        bounds = (b for i in computation.instructions for b in _boundaries(i))
        self.some_merge = any(not self.is_kept(b) for b in bounds)

    def is_kept(self, boundary: Boundary) -> bool:
        """Whether what lies on both sides stays apart."""
        return self._top(boundary) in self._kept

    def groups(self, i: HloInstruction) -> list[tuple[int, ...]]:
        """Dimensions of an array that become one, in order."""
        found: list[tuple[int, ...]] = []
        for d in range(i.shape.rank):
            if d and not self.is_kept((i, d - 1)):
                found[-1] += (d,)
            else:
                found.append((d,))
        return found

    def _top(self, boundary: Boundary) -> Boundary:
        path = []
        while (above := self._above.get(boundary, boundary)) != boundary:
            path.append(boundary)
            boundary = above
        self._above.update(dict.fromkeys(path, boundary))
        return boundary

    def _keep(self, boundary: Boundary) -> None:
        self._kept.add(self._top(boundary))

    def _join(self, one: Boundary, other: Boundary) -> None:
        a, b = self._top(one), self._top(other)
        if a != b:
            self._above[a] = b
            if a in self._kept:
                self._kept.add(b)

    def _note(self, i: HloInstruction) -> None:
        """What an instruction says of its own boundaries and of its operands'."""
        if not _is_plain(i.shape):
            for bound in _boundaries(i):
                self._keep(bound)
        if i.opcode in ("parameter", "constant"):
            return
        if i.opcode == "tuple":
            self._note_results(i.operands)
        elif i.opcode == "broadcast":
            self._note_map(i.operands[0], i, i["dimensions"])
        elif i.opcode == "reduce" and i.shape.is_array:
            gone = set(i["dimensions"])
            left = [d for d in range(i.operands[0].shape.rank) if d not in gone]
            self._note_map(i, i.operands[0], left)
        elif i.opcode == "transpose":
            order = i["dimensions"]
            self._note_map(i.operands[0], i, [order.index(d) for d in range(len(order))])
        elif i.opcode == "iota":
            for bound in _boundaries(i):
                if i["iota_dimension"] in (bound[1], bound[1] + 1):
                    self._keep(bound)
        elif i.op.elementwise and all(o.shape.rank in (0, i.shape.rank) for o in i.operands):
            for operand in i.operands:
                for d in range(operand.shape.rank - 1):
                    self._join((operand, d), (i, d))
        elif (found := touched(i)) is not None:
            self._note_touched(i, found)
        else:
            for each in (i, *i.operands):
                for bound in _boundaries(each):
                    self._keep(bound)

    def _note_results(self, results: Sequence[HloInstruction]) -> None:
        """Results of equal dimensions keep them so: one loop reads before it writes in place."""
        first: dict[tuple[int, ...], HloInstruction] = {}
        for result in results:
            alike = first.setdefault(result.shape.dims, result) if result.shape.is_array else result
            for d in range(result.shape.rank - 1 if alike is not result else 0):
                self._join((alike, d), (result, d))

    def _note_touched(self, i: HloInstruction, found: Touched) -> None:
        for d in range(i.shape.rank - 1):
            for array in found.arrays:
                self._join((array, d), (i, d))
            if not found.may_merge(d):
                self._keep((i, d))

    def _note_map(self, few: HloInstruction, many: HloInstruction, dims: Sequence[int]) -> None:
        """Dimensions of one array are some of another one's, in the order given."""
        place = {d: at for at, d in enumerate(dims)}
        joined: set[int] = set()
        for d in range(many.shape.rank - 1):
            left, right = place.get(d), place.get(d + 1)
            if left is None and right is None:
                continue
            if left is not None and right == left + 1:
                self._join((few, left), (many, d))
                joined.add(left)
            else:
                self._keep((many, d))
        for at in range(few.shape.rank - 1):
            if at not in joined:
                self._keep((few, at))


def _boundaries(i: HloInstruction) -> Iterator[Boundary]:
    return ((i, d) for d in range(i.shape.rank - 1)) if i.shape.is_array else iter(())


def _is_plain(shape: Shape) -> bool:
    """Whether neighbouring dimensions are neighbours in memory, if it is one array at all."""
    if not shape.is_array or shape.dynamic:
        return False
    return shape.layout is None or shape.layout == row_major(shape.rank)


def _rebuilt(
    i: HloInstruction, operands: tuple[HloInstruction, ...], bounds: _Boundaries
) -> HloInstruction:
    if not i.shape.is_array:
        same = operands == i.operands
        shape = i.shape if i.opcode != "tuple" else tuple_of(*(o.shape for o in operands))
        return i if same else replace(i, shape=shape, operands=operands)
    groups = bounds.groups(i)
    shape = _merged(i.shape, groups)
    if operands == i.operands and shape == i.shape:
        return i
    attrs = dict(i.attrs)
    if i.opcode == "broadcast":
        attrs["dimensions"] = _firsts(i["dimensions"], groups)
    elif i.opcode in ("reduce", "transpose"):
        attrs["dimensions"] = _firsts(i["dimensions"], bounds.groups(i.operands[0]))
    elif i.opcode == "iota":
        attrs["iota_dimension"] = _firsts((i["iota_dimension"],), groups)[0]
    elif touched(i) is not None:
        attrs = dict(merged_attributes(i, groups))
        operands = merged_operands(i, operands, groups)
    elif i.opcode == "constant":
        array = np.asarray(i["literal"].value).reshape(shape.dims)
        attrs["literal"] = Literal(shape, array)
    return replace(i, shape=shape, operands=operands, attrs=attrs)


def _merged(shape: Shape, groups: Sequence[Sequence[int]]) -> Shape:
    dims = tuple(prod(shape.dims[d] for d in group) for group in groups)
    if len(dims) == shape.rank:
        return shape
    layout = None if shape.layout is None else row_major(len(dims))
    return Shape(shape.element_type, dims, layout)


def _firsts(dims: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Numbers of the merged dimensions in which some are, each once."""
    place = {d: number for number, group in enumerate(groups) for d in group}
    return tuple(dict.fromkeys(place[d] for d in dims))
