"""Tiles of 16 by 16 elements that are transposed in registers: whole lines are read and written.

Of fewer innermost elements, such as the channels of an image, a tile has all: the lines are
interleaved, and what is written is one run of memory.
"""

from __future__ import annotations

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter, position
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import TargetTraits, Value
from xladev.codegen.scalar.elements import real_of
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.lines import interleaved_lines, transposed_lines
from xladev.platforms.cpu.codegen.tiling import LINE_NBYTES, LoopTile
from xladev.platforms.cpu.codegen.vectors import store_at

SIDE = 16
"""Elements of a tile's side: of four bytes each, a line of memory."""

WORD_NBYTES = 4
"""Elements that are interleaved, whose lanes go anywhere by one instruction."""

TILES = 4
"""Tiles side by side in an operand, whose lines memory fetches together."""


def emit_transposed(k: KernelBuild, root: HloInstruction, result: IrArray, tile: LoopTile) -> bool:
    """Computes a result from operands that are across it; False if something is along it."""
    return k.attempt(lambda: _Transposed(k, root, result, tile).emit())


def _fits_registers(result: IrArray, target: TargetTraits) -> bool:
    """True if the lines of a tile do, and lanes of such elements can change places there.

    Of eight bytes they do where there are 32 registers of 64 bytes; without any vectors, parts of a
    word would be cut out one by one.
    """
    dtype = result.shape.element_type
    if dtype.is_complex:
        return False
    least = 1 if target.vector_nbytes >= SIDE else 4
    most = 8 if target.vector_nbytes >= LINE_NBYTES else 4
    return least <= dtype.host_nbytes <= most


class _Transposed:
    """The loops of one kernel. The last tiles overlap those before where sizes do not fit."""

    def __init__(
        self, k: KernelBuild, root: HloInstruction, result: IrArray, tile: LoopTile
    ) -> None:
        self.k, self.root, self.result, self.tile = k, root, result, tile
        self.dims = result.shape.dims
        self.order = tuple(reversed(result.shape.minor_to_major))
        if not _fits_registers(result, k.b.module.target) or self.dims[tile.crossed] < SIDE:
            raise NotInVectorsError("tiles of other elements")
        self.is_interleaved = self.dims[tile.inner] < SIDE
        if self.is_interleaved and not self._is_one_run():
            raise NotInVectorsError("few elements, and others between them")
        self.e = VectorEmitter(k.e, SIDE)

    def _is_one_run(self) -> bool:
        """True if a tile with all of the inner dimension, of words, is without gaps in memory."""
        kept = [d for d in self.order if self.dims[d] > 1]
        is_word = self.result.shape.element_type.host_nbytes == WORD_NBYTES
        return is_word and kept[-2:] == [self.tile.crossed, self.tile.inner]

    def emit(self) -> None:
        """All tiles."""
        tiled = (self.tile.crossed, self.tile.inner)
        counts = {d: -(-self.dims[d] // SIDE) if d in tiled else self.dims[d] for d in self.order}
        crossed = self.tile.crossed
        if counts[crossed] % TILES:
            self.k.split_nest([counts[d] for d in self.order], self._tile)
            return
        counts[crossed] //= TILES

        def tiles(places: Index) -> None:
            at = dict(zip(self.order, places, strict=True))
            with self.k.b.loop(0, TILES) as n, self.k.e.scope():
                number = self.k.e.at.add(self.k.e.at.mul(at[crossed], TILES), n)
                self._tile(tuple({**at, crossed: number}[d] for d in self.order))

        self.k.split_nest([counts[d] for d in self.order], tiles)

    def _start(self, dimension: int, number: IndexValue) -> Value:
        at = self.k.e.at
        start = at.value(at.mul(number, SIDE))
        if self.dims[dimension] % SIDE:
            latest = max(self.dims[dimension] - SIDE, 0)
            return self.k.b.intrinsic("smin", start, latest)
        return self.k.b.add(start, 0)

    def _tile(self, places: Index) -> None:
        at = dict(zip(self.order, places, strict=True))
        crossed, inner = self.tile.crossed, self.tile.inner
        first = {d: self._start(d, at[d]) for d in (crossed, inner)}
        with self.e.scope():
            self.e.at.start(first[crossed], 1 if self.dims[crossed] % SIDE else SIDE)
            lines = [
                self._line({**at, **first, inner: self.e.at.add(first[inner], n)})
                for n in range(min(SIDE, self.dims[inner]))
            ]
        if self.is_interleaved:
            for n, line in enumerate(interleaved_lines(self.k.b, lines)):
                outer, rest = divmod(n * SIDE, len(lines))
                self._store(line, {**at, **first}, outer, rest)
            return
        for n, line in enumerate(transposed_lines(self.k.b, lines)):
            self._store(line, {**at, **first}, n, 0)

    def _store(self, line: Value, at: dict[int, IndexValue], crossed: int, inner: int) -> None:
        """From an element of the tile on."""
        math = self.k.e.at
        steps = {self.tile.crossed: crossed, self.tile.inner: inner}
        index = tuple(math.add(at[d], steps.get(d, 0)) for d in range(len(self.dims)))
        store_at(self.k, self.result, position(math, self.result.shape, index), line)

    def _index(self, at: dict[int, IndexValue]) -> Index:
        return tuple(at[d] for d in range(len(self.dims)))

    def _line(self, at: dict[int, IndexValue]) -> Value:
        """Elements along the crossed dimension."""
        return real_of(self.e.element(self.root, self._index(at)), "a tile")
