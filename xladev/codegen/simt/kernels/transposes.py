"""Transposes in tiles: read along the operand's rows, written along the result's.

A block reads 64 x 64 or 32 x 32 elements into shared memory, whose rows are four bytes longer so
that columns are in different banks, waits, and writes them in the other order. Each thread has
neighbours on both sides, as many as fill 16 bytes where rows are whole numbers of them. What
computes the operand's elements is fused in, and so is what is computed from the result's, element
by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from xladev.codegen.elemental.choose import flat, unflat
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.moves import moved_as_bits
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter, is_row_major
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value, vector
from xladev.codegen.scalar.elements import ComplexValue, Element
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild, single
from xladev.codegen.simt.launch_plan import ACCESS_NBYTES, BLOCK, MOST_LANES
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape

SMALL, LARGE = 32, 64
"""Rows and columns of a tile."""
LEAST_BLOCKS = 264
"""Large tiles below which small ones keep more of a GPU busy: two for each multiprocessor."""
MOST_TILES = 4
"""Arrays that are transposed by one kernel; of others, elements are read one by one."""
_BANKS = 32
"""Words of shared memory that are read at once, unless two are in one bank."""
LEAST = 16
"""Elements of either dimension below which tiles are mostly empty."""


@dataclass(frozen=True, slots=True)
class TiledTranspose:
    """Transposes that move the innermost dimension, all in the same way.

    Attributes:
        transposes: the instructions; each has a tile.
        roots: what is computed from them, of the same dimensions.
        size: rows and columns of a tile.
    """

    transposes: tuple[HloInstruction, ...]
    roots: tuple[HloInstruction, ...]
    size: int = SMALL

    @property
    def dims(self) -> tuple[int, ...]:
        """Of the operands."""
        return self.transposes[0].operands[0].shape.dims

    @property
    def order(self) -> tuple[int, ...]:
        """For each dimension of the results, that of the operands."""
        order: tuple[int, ...] = self.transposes[0]["dimensions"]
        return order

    @property
    def across(self) -> int:
        """Dimension of the operands that is innermost in the results."""
        return self.order[-1]

    @property
    def spaces(self) -> tuple[int, ...]:
        """Tiles along each dimension of the operands; single elements along most."""
        tiled = (self.across, len(self.dims) - 1)
        return tuple(-(-n // self.size) if d in tiled else n for d, n in enumerate(self.dims))

    @property
    def dimensions(self) -> LaunchDimensions:
        """A block for each tile."""
        return LaunchDimensions((prod(self.spaces), 1, 1), (BLOCK, 1, 1))

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes of an element of each tile."""
        return tuple(max(1, i.shape.element_type.host_nbytes) for i in self.transposes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each tile begins in shared memory, then the size of all; in bytes."""
        found = [0]
        for width in self.widths:
            nbytes = self.size * pitch(self.size, width) * width
            found.append(found[-1] + -(-nbytes // 16) * 16)
        return tuple(found)

    @property
    def most_lanes(self) -> int:
        """Neighbours of a thread that no tile has too few of."""
        return 4 if self.size == SMALL else MOST_LANES

    def with_size(self, shared_nbytes: int) -> TiledTranspose:
        """In large tiles, if they fit, are many, or are what it takes to fill 16 bytes."""
        large = replace(self, size=LARGE)
        ends = (self.dims[self.across], self.dims[-1])
        is_whole = all(n % 4 == 0 and n > SMALL for n in ends)
        is_worth_it = min(self.widths) < 4 or prod(large.spaces) >= LEAST_BLOCKS
        fits = large.offsets[-1] <= shared_nbytes
        return large if is_whole and is_worth_it and fits else self


def pitch(size: int, width: int) -> int:
    """Elements from one row of a tile to the next: a bank of four bytes more than it has."""
    return size + max(1, 4 // width)


def tiled_transpose(root: HloInstruction, machine: SimtMachine) -> TiledTranspose | None:
    """How a kernel of this root goes in tiles; None if its rows stay rows, or are short.

    What follows the transposes must be elementwise, so that all of it has their dimensions.
    """
    roots = root.operands if root.opcode == "tuple" else (root,)
    if any(r.shape.dims != roots[0].shape.dims or not is_row_major(r.shape) for r in roots):
        return None
    found = [i for i in _read_in_step(roots) if _moves_rows(i)]
    alike = [i for i in found if i["dimensions"] == found[0]["dimensions"]]
    if not alike:
        return None
    tiled = TiledTranspose(tuple(alike[:MOST_TILES]), roots).with_size(machine.shared_nbytes)
    return tiled if tiled.offsets[-1] <= machine.shared_nbytes else None


def _read_in_step(roots: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Instructions whose elements the roots read at their own index."""
    found = dict.fromkeys(r for r in roots if r.shape.is_array)
    pending = list(found)
    while pending:
        i = pending.pop(0)
        if i.op.elementwise:
            new = [o for o in i.operands if o.shape.dims == i.shape.dims and o not in found]
            found.update(dict.fromkeys(new))
            pending += new
    return list(found)


def _moves_rows(i: HloInstruction) -> bool:
    """True for a transpose that makes long columns of long rows."""
    if i.opcode != "transpose" or not i.shape.size or i.shape.rank < 2:
        return False
    operand, across = i.operands[0].shape, i["dimensions"][-1]
    inner = operand.rank - 1
    if across == inner or not is_row_major(operand) or not is_row_major(i.shape):
        return False
    return min(operand.dims[across], operand.dims[inner]) >= LEAST


def transpose_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that transpose, and compute with what they transposed."""
    tiled = tiled_transpose(spec.computation.root, machine)
    if tiled is None:
        return None
    return single(
        "tiled transpose",
        lambda t: _Thread(t, tiled).emit(),
        tiled.dimensions,
        tiled.offsets[-1],
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """What a thread does in one step: some neighbours of a tile.

    Attributes:
        e: emits them.
        index: of the first, in the operands.
        at: its row and column in the tile.
    """

    e: ElementalEmitter
    index: tuple[IndexValue, ...]
    at: tuple[Value, Value]


class _Thread:
    """Writes the code of one thread."""

    def __init__(self, t: ThreadBuild, tiled: TiledTranspose) -> None:
        self.t, self.b, self.tiled = t, t.b, tiled
        self.tid = thread_in_block(t.b)
        self.place: Index = t.e.at.delinear(block_number(t.b), tiled.spaces)
        shared = shared_memory(t.b)
        self.tiles = [
            (i, t.b.byte_address(shared, offset), _tile_type(t, i), pitch(tiled.size, width))
            for i, offset, width in zip(tiled.transposes, tiled.offsets, tiled.widths, strict=False)
        ]

    def emit(self) -> None:
        """Reads a tile, waits, and writes it."""
        tiled, inner = self.tiled, len(self.tiled.dims) - 1
        sizes = [s for s in self.t.spec.operands if s.size == prod(tiled.dims)]
        self._in_widest(inner, self._lanes(sizes), self._read)
        barrier(self.b)
        self._in_widest(tiled.across, self._lanes(self.t.spec.results), self._write)

    def _lanes(self, shapes: Sequence[Shape]) -> int:
        """Neighbours that fill 16 bytes of the narrowest array."""
        widths = [max(1, s.element_type.host_nbytes) for s in shapes]
        narrowest = min((*widths, *self.tiled.widths))
        return max(1, min(ACCESS_NBYTES // narrowest, self.tiled.most_lanes))

    def _in_widest(self, along: int, widest: int, body: Callable[[_Part], None]) -> None:
        """All steps of one side, with as many neighbours along a dimension as there can be."""
        b, e = self.b, self.t.e
        for lanes in (8, 4, 2):
            if lanes > widest or self.tiled.dims[along] % lanes:
                continue
            mark, functions, held = b.mark(), b.module.mark(), e.scopes()
            try:
                self._steps(VectorEmitter(e, lanes), along, lanes, body)
            except NotInVectorsError:
                b.reset(mark)
                b.module.reset(functions)
                e.leave(held)
                continue
            return
        self._steps(e, along, 1, body)

    def _steps(
        self, e: ElementalEmitter, along: int, lanes: int, body: Callable[[_Part], None]
    ) -> None:
        """Threads go along the dimension for all banks; then come other rows, then the rest."""
        b, size = self.b, self.tiled.size
        beside = min(max(_BANKS // lanes, 8), size // lanes)
        first = b.mul(b.urem(self.tid, beside), lanes)
        row = b.udiv(self.tid, beside)
        for below in range(0, size, BLOCK // beside):
            for right in range(0, size, beside * lanes):
                self._step(e, along, (b.add(row, below), b.add(first, right)), body)

    def _step(
        self,
        e: ElementalEmitter,
        along: int,
        at: tuple[Value, Value],
        body: Callable[[_Part], None],
    ) -> None:
        """Runs ``body`` on what is ``at[1]`` along a dimension and ``at[0]`` along the other.

        Where the array has it, that is: of neighbours it has all or none.
        """
        b, tiled, inner = self.b, self.tiled, len(self.tiled.dims) - 1
        other = tiled.across if along == inner else inner
        index, conditions = list(self.place), []
        for d, offset in ((other, at[0]), (along, at[1])):
            start = self.t.e.at.value(self.t.e.at.mul(self.place[d], tiled.size))
            index[d] = found = b.add(start, offset)
            if tiled.dims[d] % tiled.size:
                conditions.append(b.icmp("ult", found, tiled.dims[d]))
            if d == along and isinstance(e, VectorEmitter):
                e.at.start(found, e.lanes)
        part = _Part(e, tuple(index), at if along == inner else (at[1], at[0]))
        if not conditions:
            with e.scope():
                body(part)
            return
        with b.when(b.and_(conditions[0], conditions[-1])), e.scope():
            body(part)

    def _read(self, part: _Part) -> None:
        b, (row, column) = self.b, part.at
        for i, tile, dtype, width in self.tiles:
            element = part.e.element(i.operands[0], part.index)
            first = b.add(b.mul(row, width), column)
            for n in range(_lanes_of(part.e)):
                store_element(b, tile, b.add(first, n), dtype, _lane(part.e, element, n))

    def _write(self, part: _Part) -> None:
        b, e, (row, column) = self.b, part.e, part.at
        moved = tuple(part.index[d] for d in self.tiled.order)
        for i, tile, dtype, width in self.tiles:
            found = [
                load_element(b, tile, b.add(b.mul(b.add(row, n), width), column), dtype)
                for n in range(_lanes_of(e))
            ]
            e.hold(i, moved, _together(e, found))
        for root, result in zip(self.tiled.roots, self.t.results, strict=True):
            element = e.element(root, moved)
            if not isinstance(e, VectorEmitter):
                result.store(b, moved, element)
                continue
            e.store(result, e.offset(result, moved), element)


def _lanes_of(e: ElementalEmitter) -> int:
    return e.lanes if isinstance(e, VectorEmitter) else 1


def _lane(e: ElementalEmitter, element: Element, n: int) -> Element:
    """One of some neighbours."""
    if not isinstance(e, VectorEmitter):
        return element
    if isinstance(element, ComplexValue):
        return ComplexValue(e.b.extract(element.real, n), e.b.extract(element.imag, n))
    return e.b.extract(element, n)


def _together(e: ElementalEmitter, found: Sequence[Element]) -> Element:
    """Neighbours, as one."""
    if not isinstance(e, VectorEmitter):
        return found[0]
    parts = tuple(zip(*(flat((one,)) for one in found), strict=True))
    vectors: list[Value] = []
    for lanes in parts:
        whole = Value("poison", vector(lanes[0].type, len(lanes)))
        for n, value in enumerate(lanes):
            whole = e.b.insert(whole, value, n)
        vectors.append(whole)
    return unflat(tuple(vectors), (found[0],))[0]


def _tile_type(t: ThreadBuild, i: HloInstruction) -> PrimitiveType:
    """What a tile holds: the bits of narrow floats, if the kernel moves them as such."""
    shapes = moved_as_bits(t.spec.computation, (i.shape,))
    return shapes[0].element_type
