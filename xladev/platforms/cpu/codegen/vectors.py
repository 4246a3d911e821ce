"""Loops over results in vectors: along rows, or along all of memory where arrays agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import gcd, prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.vectors import (
    FlatEmitter,
    NotInVectorsError,
    VectorEmitter,
    is_row_major,
)
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import store_element
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.short_rows import Bodies, ShortRows, dimensions_of
from xladev.platforms.cpu.codegen.tiling import innermost

Member = tuple[HloInstruction, IrArray]
"""A result: what computes it, and where it is stored."""

LEAST_LANES = 4
"""Shorter vectors are not worth code of their own."""
MOST_CUTS = 12
"""Cuts of a row, between pieces that have loops of their own."""
MOST_STRIDE = 4
"""How far apart elements may be that become one vector; of more, too many would be read."""
BLOCK = 4096
"""Elements that one thread takes at once where others do so too; a multiple of all lanes."""
LEAST_WITH_REST = 256
"""Elements below which code for vectors and for what is left of them is not worth its time."""


def element_nbytes(k: KernelBuild) -> int:
    """Bytes of the widest type that the kernel computes in, parts of complex numbers apart."""
    widest = 1
    for i in k.spec.computation.instructions:
        for leaf in (leaf for _, leaf in i.shape.leaves() if leaf.is_array and leaf.rank):
            dtype = leaf.element_type
            nbytes = dtype.component.host_nbytes if dtype.is_complex else dtype.host_nbytes
            widest = max(widest, nbytes, 4 if dtype.is_float else 1)
    return widest


def lanes_for(k: KernelBuild, extent: int) -> int:
    """Length of vectors along ``extent`` elements; 1 where single elements are as good."""
    most = k.b.module.target.vector_nbytes // element_nbytes(k)
    lanes = min(most, 1 << (extent.bit_length() - 1)) if extent else 1
    return lanes if lanes >= LEAST_LANES else 1


def emit_in_vectors(k: KernelBuild, members: Sequence[Member]) -> bool:
    """Computes results of the same dimensions and layout in one nest; False if it cannot."""
    shape = members[0][1].shape
    if shape.size < LEAST_WITH_REST and shape.size % lanes_for(k, shape.size):
        return False
    return (
        k.attempt(lambda: _flat(k, members, shape))
        or _in_cut_rows(k, lambda cuts: _across_rows(k, members, shape, cuts))
        or _in_cut_rows(k, lambda cuts: _along_rows(k, members, shape, cuts))
    )


def _in_cut_rows(k: KernelBuild, emit: Callable[[set[int]], None]) -> bool:
    """Row by row, cut where arrays that are joined meet, and where padding begins and ends."""
    cuts: set[int] = set()
    while True:
        known = len(cuts)
        if k.attempt(lambda: emit(cuts)):
            return True
        if not known < len(cuts) <= MOST_CUTS:
            return False


def _flat(k: KernelBuild, members: Sequence[Member], shape: Shape) -> None:
    """One loop over all positions."""
    lanes = lanes_for(k, shape.size)
    if lanes == 1 or not is_row_major(shape):
        raise NotInVectorsError("no vectors of such arrays")
    e = FlatEmitter(k.e, lanes)

    def whole(at: Value) -> None:
        elements = [e.element(root, (at,)) for root, _ in members]
        for (_, result), element in zip(members, elements, strict=True):
            store_at(k, result, at, element)

    def rest(at: IndexValue) -> None:
        _store_each(k, members, k.e.at.delinear(at, shape.dims))

    _in_blocks_and_rest(k, e, (0, shape.size), whole, rest)


def _across_rows(k: KernelBuild, members: Sequence[Member], shape: Shape, cuts: set[int]) -> None:
    """Loops over short rows, many at once, from cut to cut; adds the cuts that were missing."""
    dims = dimensions_of(shape)
    lanes = 1 if dims is None else lanes_for(k, shape.dims[dims[0]])
    if lanes == 1:
        raise NotInVectorsError("no vectors of such rows")
    e = VectorEmitter(k.e, lanes)
    e.at.cuts, e.at.most_stride = cuts, MOST_STRIDE
    rows = ShortRows(k, members, e)
    extents = [shape.dims[d] for d in rows.outer]
    _from_cut_to_cut(k, e, shape.dims[rows.along], extents, rows.bodies)


def _along_rows(k: KernelBuild, members: Sequence[Member], shape: Shape, cuts: set[int]) -> None:
    """Loops over each row from cut to cut; adds the cuts that were missing."""
    inner = innermost(shape)
    lanes = 1 if inner is None else lanes_for(k, shape.dims[inner])
    if lanes == 1 or inner is None:
        raise NotInVectorsError("no vectors of such rows")
    e = VectorEmitter(k.e, lanes)
    e.at.cuts, e.at.most_stride = cuts, MOST_STRIDE
    order = [d for d in reversed(shape.minor_to_major) if d != inner]

    def bodies(outer: Index) -> Bodies:
        at = dict(zip(order, outer, strict=True))

        def whole(x: Value) -> None:
            index = tuple(at.get(d, x) for d in range(shape.rank))
            elements = [e.element(root, index) for root, _ in members]
            for (_, result), element in zip(members, elements, strict=True):
                store_at(k, result, e.offset(result, index), element)

        def rest(x: IndexValue) -> None:
            _store_each(k, members, tuple(at.get(d, x) for d in range(shape.rank)))

        return whole, rest

    _from_cut_to_cut(k, e, shape.dims[inner], [shape.dims[d] for d in order], bodies)


def _from_cut_to_cut(
    k: KernelBuild,
    e: VectorEmitter,
    extent: int,
    extents: Sequence[int],
    bodies: Callable[[Index], Bodies],
) -> None:
    """Vectors along a dimension of ``extent``, for each index of the other ones."""
    places = [0, *sorted(e.at.cuts), extent]

    def row(outer: Index) -> None:
        for start, stop in pairwise(places):
            in_vectors_and_rest(e, start, stop, *bodies(outer))

    if not k.is_shared or prod(extents) > 1:
        k.split_nest(extents, row)
        return
    for start, stop in pairwise(places):
        _in_blocks_and_rest(k, e, (start, stop), *bodies((0,) * len(extents)))


def _in_blocks_and_rest(
    k: KernelBuild,
    e: VectorEmitter,
    span: tuple[int, int],
    whole: Callable[[Value], None],
    rest: Callable[[IndexValue], None],
) -> None:
    """As `in_vectors_and_rest`, in several threads if there are some."""
    start, stop = span
    blocks = (stop - start) // BLOCK if k.is_shared else 0
    end = start + blocks * BLOCK

    def part(begin: IndexValue, until: IndexValue) -> None:
        first, last = (
            k.e.at.value(k.e.at.add(k.e.at.mul(unit, BLOCK), start)) for unit in (begin, until)
        )
        with e.b.loop(first, last, e.lanes) as at, e.scope():
            e.at.start(at, gcd(start, e.lanes), (start, end))
            whole(at)

    if blocks:
        k.split(blocks, part)
    in_vectors_and_rest(e, end, stop, whole, rest)


def in_vectors_and_rest(
    e: VectorEmitter,
    start: int,
    stop: int,
    whole: Callable[[Value], None],
    rest: Callable[[IndexValue], None],
) -> None:
    """Goes from ``start`` to ``stop`` in vectors, then one by one."""
    end = start + (stop - start) // e.lanes * e.lanes
    if end > start:
        with e.b.loop(start, end, e.lanes) as at, e.scope():
            e.at.start(at, gcd(start, e.lanes), (start, end))
            whole(at)
    if end < stop:
        with e.b.loop(end, stop) as at, e.scope():
            rest(at)


def store_at(k: KernelBuild, result: IrArray, offset: IndexValue, element: Element) -> None:
    """Writes a vector at a position."""
    dtype = result.shape.element_type
    store_element(k.b, result.base, offset, dtype, element, metadata=result.metadata)


def _store_each(k: KernelBuild, members: Sequence[Member], index: Index) -> None:
    elements = [k.e.element(root, index) for root, _ in members]
    for (_, result), element in zip(members, elements, strict=True):
        result.store(k.b, index, element)
