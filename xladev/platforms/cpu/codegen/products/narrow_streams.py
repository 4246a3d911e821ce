"""Few rows times weights that a kernel makes numbers of in registers, as it reads them.

Weights are read once. Where their columns are neighbours in memory, some lines are gone through at
once along all columns of a block, so that memory is read in long runs; sums go to the second cache
and back between, in the order in which pieces of elements come. Where a column lies along memory,
sums do, too (`few_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from xladev.codegen.elemental.pieces import value_side_by_side
from xladev.codegen.elemental.vectors import NotInVectorsError
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, FunctionBuilder, Value, vector
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import cut
from xladev.platforms.cpu.codegen.products.few_rows import (
    FewRows,
    FewRowsArguments,
    FewRowsPlan,
    columns_at_once,
    emit_few_rows,
)
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.narrow_rounding import (
    RoundingEmitter,
    in_own_order,
    rounding_emitter,
)
from xladev.platforms.cpu.codegen.products.narrow_weights import NarrowWeights, Weights
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing

MOST_ROWS = 8
"""Rows up to which weights are made numbers of for each tile of rows, and not stored between."""
RUN = 32
"""Lines of a run: what is the same in all of them, such as scales, is made once."""
LINES = 32
"""Lines that are gone through at once; the next ones are asked for meanwhile, since processors
foresee no run of so many."""
LEAST_BLOCK, MOST_BLOCK = 256, 4096
"""Columns of a block."""
LINES_IN_MEMORY, AHEAD_IN_MEMORY = 8, 1024
"""Lines, and bytes of each that are asked for ahead, where nothing but wider numbers is made of
weights: fewer runs, which are foreseen."""
ASKED_VECTORS = 2
"""Vectors for which a line is asked for: as many as a line has elements of 16 bits."""
LEAST_ASKED_NBYTES = 256 << 10
"""Bytes of arrays for which it pays."""
BLOCKS = 8
"""Blocks to share among threads."""


def emit_along_depth(k: KernelBuild, plan: NarrowWeights, pieces: int) -> None:
    """Writes the kernel for columns that lie along memory; for pieces, see `pieces_of`.

    Raises:
        NotInVectorsError: their elements are no neighbours where they come from.
    """

    def emit(kind: ProductKind, a: FewRowsArguments, batch: Index, column: IndexValue) -> None:
        weights = Weights(k, plan, kind.lanes * pieces, pieces)
        is_rounded = kind.right is not kind.total  # then instructions take longer than memory
        weights.e.ahead = 0 if is_rounded else columns_at_once(kind) * _column_nbytes(k, plan)
        weights.e.least_asked_nbytes = LEAST_ASKED_NBYTES

        def read(columns: Sequence[Value], start: Value, lanes: int) -> list[Value]:
            found = []
            if lanes > 1:
                weights.e.at.start(start, lanes)
            with weights.e.scope():
                for number in columns:
                    place = k.e.at.add(column, number)
                    made = weights.vector if lanes > 1 else weights.one
                    found.append(weights.summed(made(batch, start, place), kind))
            return found

        rows = min(plan.matrices.left.extent, 4)
        FewRows(k.b, kind, a, read, 1 << (rows - 1).bit_length(), pieces, is_rounded).emit()

    emit_few_rows(k, FewRowsPlan(plan.matrices, plan.batch, plan.kept), emit)


def _column_nbytes(k: KernelBuild, plan: NarrowWeights) -> int:
    """Bytes of a column in memory, of the largest array that it is made of; at most as numbers."""
    left = k.root.operands[0]
    given = (p.shape.nbytes for p in k.spec.computation.parameters if p is not left)
    found = max(given, default=0) // (prod(plan.batch) * plan.matrices.right.extent)
    size = plan.dot.operands[1].shape.element_type.host_nbytes
    return min(found, plan.matrices.right.depth * size)


def emit_along_columns(k: KernelBuild, plan: NarrowWeights, pieces: int) -> None:
    """Writes the kernel for columns that are neighbours in memory; for pieces, see `pieces_of`.

    Raises:
        NotInVectorsError: elements are no neighbours where they come from.
    """
    lanes = plan.kind(k).lanes * pieces
    rounding = rounding_emitter(k.e, lanes, plan.dot.operands[1])
    if rounding is None or not k.attempt(lambda: _Stream(k, plan, pieces, rounding).emit()):
        _Stream(k, plan, pieces).emit()


def stream_workspace_nbytes(plan: NarrowWeights) -> int:
    """The sums of a block, where the result does not take them."""
    if plan.kept is plan.matrices.total or plan.is_along_depth:
        return 0
    columns = min(plan.matrices.right.extent, MOST_BLOCK)
    return plan.matrices.left.extent * columns * plan.matrices.total.host_nbytes


def line_nbytes(plan: NarrowWeights) -> int:
    """Bytes from one line of weights to the next in memory, in the array that has most of them."""
    found, seen, waiting = 0, set[HloInstruction](), [plan.dot.operands[1]]
    lines = prod(plan.batch) * plan.matrices.right.depth
    while waiting:
        value = waiting.pop()
        if value in seen or not value.shape.is_array:
            continue
        seen.add(value)
        is_slice = value.opcode in ("slice", "dynamic-slice")
        if value.opcode == "parameter" or (is_slice and value.operands[0].opcode == "parameter"):
            nbytes = value.shape.nbytes
            if is_slice and value.shape.rank:  # columns that are cut out of longer lines
                whole = value.operands[0].shape.dims[-1]
                nbytes = nbytes * whole // max(1, value.shape.dims[-1])
            found = max(found, nbytes // lines)
        else:
            waiting += value.operands
    return found


class _Stream:
    def __init__(
        self,
        k: KernelBuild,
        plan: NarrowWeights,
        pieces: int,
        rounding: RoundingEmitter | None = None,
    ) -> None:
        self.k, self.b, self.plan, self.pieces = k, k.b, plan, pieces
        self.kind = plan.kind(k)
        self.lanes = self.kind.lanes * pieces
        self.rounding = rounding
        self.weights = Weights(k, plan, self.lanes, pieces, rounding)
        self.weights.e.least_asked_nbytes = LEAST_ASKED_NBYTES
        rows = plan.matrices.left.extent * pieces
        most = 16 if self.kind.nbytes == WIDEST_NBYTES and pieces == 1 else 8
        self.vectors = 4 if 4 * rows <= most else 2 if 2 * rows <= most else 1
        is_in_memory = plan.dot.operands[1].opcode == "parameter"
        self.lines = LINES_IN_MEMORY if is_in_memory else LINES
        self.ahead = AHEAD_IN_MEMORY if is_in_memory else LINES * line_nbytes(plan)
        self.run = gcd(min(RUN, self.lines), plan.matrices.right.depth)
        self.asked = ASKED_VECTORS * pieces
        width = self.vectors * self.lanes
        parts = -(-BLOCKS // prod(plan.batch)) if k.is_shared else 1
        self.columns = cut(plan.matrices.right.extent, parts, width, LEAST_BLOCK, MOST_BLOCK)
        self.columns = -(-self.columns // width) * width

    def emit(self) -> None:
        """Blocks of columns for each batch index, all of them apart."""
        b, at, plan = self.b, self.k.e.at, self.plan
        extents = (*plan.batch, -(-plan.matrices.right.extent // self.columns))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                *batch, block = at.delinear(number, extents)
                self._block(tuple(batch), at.value(at.mul(block, self.columns)))

        self.k.split(prod(extents), part, private_nbytes=stream_workspace_nbytes(plan))

    def _block(self, batch: Index, column: Value) -> None:
        k, b, at, plan = self.k, self.b, self.k.e.at, self.plan
        total, left, right, result = plan.matrices
        count = b.intrinsic("smin", b.sub(b.const(I64, right.extent), column), self.columns)
        kept_nbytes = plan.kept.host_nbytes
        place = at.add(at.strided(batch, result.batch), column)
        kept = b.byte_address(k.results[0].base, at.value(at.mul(place, kept_nbytes)))
        kept_row = b.const(I64, result.row * kept_nbytes)
        sums, sums_row = kept, kept_row
        if plan.kept is not total:
            sums = k.scratch
            sums_row = b.const(I64, min(right.extent, self.columns) * self.kind.size)
        nbytes = self.kind.left.host_nbytes
        base = k.e.arrays[k.root.operands[0]][0].base
        base = b.byte_address(base, at.value(at.mul(at.strided(batch, left.batch), nbytes)))
        rows = [b.byte_address(base, r * left.free * nbytes) for r in range(left.extent)]
        self._columns(batch, column, count, rows, (sums, sums_row))
        if plan.kept is not total:
            height = b.const(I64, left.extent)
            narrowing = NarrowingArguments(sums, sums_row, kept, kept_row, height, count)
            call_narrowing(b, self.kind, plan.kept, narrowing)

    def _columns(
        self,
        batch: Index,
        column: Value,
        count: Value,
        rows: Sequence[Value],
        sums: tuple[Value, Value],
    ) -> None:
        """Some lines at once, all columns of the block: whole tiles, vectors, single columns."""
        b, lanes = self.b, self.lanes
        width, extent = self.vectors * lanes, self.plan.matrices.right.extent
        end = b.add(column, count)
        with b.loop(0, self.plan.matrices.right.depth, self.lines) as first:
            start = column
            for step, vectors in ((width, self.vectors), (lanes, 1), (1, 0)):
                if start is not column and extent % (width if vectors else lanes) == 0:
                    continue
                stop = b.sub(end, b.urem(b.sub(end, start), step))
                with b.loop(start, stop, step) as x, self.weights.e.scope():
                    if vectors:
                        self.weights.e.at.start(x, lanes)
                    place = b.mul(b.sub(x, column), self.kind.size)
                    targets = [
                        b.byte_address(b.byte_address(sums[0], b.mul(sums[1], r)), place)
                        for r in range(len(rows))
                    ]
                    self._tile(batch, first, x, vectors, rows, targets)
                start = stop
        if self.pieces > 1 or self.rounding is not None:
            self._side_by_side(count, sums)

    def _side_by_side(self, count: Value, sums: tuple[Value, Value]) -> None:
        """Lays the sums of whole vectors in the order of their columns."""
        b, lanes, size = self.b, self.lanes, self.kind.size
        type_ = vector(self.kind.element, lanes)
        whole = b.sub(count, b.urem(count, lanes))
        with b.loop(0, self.plan.matrices.left.extent) as row, b.loop(0, whole, lanes) as x:
            line = b.byte_address(sums[0], b.mul(sums[1], row))
            place = b.byte_address(line, b.mul(x, size))
            held = b.load(type_, place, align=size)
            if self.rounding is not None:
                held = in_own_order(b, held)
            b.store(value_side_by_side(b, held, self.pieces), place, align=size)

    def _tile(
        self,
        batch: Index,
        first: Value,
        x: Value,
        vectors: int,
        rows: Sequence[Value],
        targets: Sequence[Value],
    ) -> None:
        """Goes on with the sums of a tile; of single columns where it has no vectors."""
        b, kind, left = self.b, self.kind, self.plan.matrices.left
        lanes, count = (self.lanes if vectors else 1), max(vectors, 1)
        type_ = vector(kind.element, lanes)
        columns = [self.weights.e.at.add(x, n * lanes) for n in range(vectors)]
        places = [
            b.byte_address(target, v * lanes * kind.size)
            for target in targets
            for v in range(count)
        ]
        begun = b.branch(
            b.icmp("ne", first, 0),
            lambda: tuple(b.load(type_, place, align=kind.size) for place in places),
            lambda: tuple(b.const(type_, 0) for _ in places),
        )
        stop = b.intrinsic("smin", b.add(first, self.lines), left.depth)
        with (
            b.carried_loop(first, stop, self.run, initial=list(begun)) as loop,
            self.weights.e.scope(),
        ):
            self._first_of_run(batch, loop.index, columns)
            loop.carry(*self._of_run(batch, loop.index, (x, columns), rows, loop.values))
        for value, place in zip(loop.values, places, strict=True):
            b.store(value, place, align=kind.size)

    def _of_run(
        self,
        batch: Index,
        first: Value,
        columns: tuple[Value, Sequence[IndexValue]],
        rows: Sequence[Value],
        held: Sequence[Value],
    ) -> Sequence[Value]:
        """Goes on with the sums by the lines of a run, rounded by whichever instructions may be."""

        def lines(*, has_normal_scales: bool) -> tuple[Value, ...]:
            if self.rounding is not None:
                self.rounding.has_normal_scales = has_normal_scales
            with self.weights.e.scope():
                return tuple(self._lines(batch, first, columns, rows, held))

        if self.rounding is None or not columns[1]:
            return lines(has_normal_scales=False)
        return self.b.branch(
            self.rounding.are_normal(),
            lambda: lines(has_normal_scales=True),
            lambda: lines(has_normal_scales=False),
        )

    def _lines(
        self,
        batch: Index,
        first: Value,
        columns: tuple[Value, Sequence[IndexValue]],
        rows: Sequence[Value],
        held: Sequence[Value],
    ) -> Sequence[Value]:
        b, kind, left, (x, vectors) = self.b, self.kind, self.plan.matrices.left, columns
        lanes = self.lanes if vectors else 1
        with b.carried_loop(0, self.run, initial=list(held)) as loop:
            depth = b.add(first, b.and_(loop.index, self.run - 1))
            self.weights.e.at.is_in_run(depth, first, self.run)
            with self.weights.e.scope():
                values = [
                    self._value(batch, depth, column, 0 if n % self.asked else self.ahead)
                    for n, column in enumerate(vectors)
                ] or [self.weights.summed(self.weights.one(batch, depth, x), kind)]
            offset = b.mul(depth, left.step * kind.left.host_nbytes)
            sums = list(loop.values)
            for r, row in enumerate(rows):
                factor = self._factor(b, b.byte_address(row, offset), lanes)
                for at, value in enumerate(values, r * len(values)):
                    sums[at] = kind.multiply_add(b, factor, value, sums[at])
            loop.carry(*sums)
        return loop.values

    def _first_of_run(self, batch: Index, depth: Value, columns: Sequence[IndexValue]) -> None:
        """Makes what is the same in a run, such as scales; LLVM drops its first line's weights."""
        weights = self.weights
        weights.e.at.is_in_run(depth, depth, self.run)
        weights.e.ahead = 0
        if self.rounding is not None:
            self.rounding.found.clear()
            self.rounding.is_beginning = True
        for column in columns:
            weights.vector(batch, depth, column)
        if self.rounding is not None:
            self.rounding.is_beginning = False
            if columns and not self.rounding.found:
                raise NotInVectorsError("a product before pieces are laid side by side")

    def _value(self, batch: Index, depth: Value, column: IndexValue, ahead: int) -> Value:
        self.weights.e.ahead = ahead
        return self.weights.summed(self.weights.vector(batch, depth, column), self.kind)

    def _factor(self, b: FunctionBuilder, address: Value, lanes: int) -> Value:
        if lanes == self.kind.lanes:
            return self.kind.spread(b, address)
        factor = self.kind.read(b, address, self.kind.left, 1)
        return b.splat(factor, lanes) if lanes > 1 else factor
