"""A matrix times a vector, where rows of the matrix are summed along memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.codegen.matrices import SUM_TYPES, Matrices, Side, matrices_of
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import CACHED_NBYTES, LEAST_PRODUCTS
from xladev.platforms.cpu.codegen.products.kinds import CACHE_LINE_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing

ROWS = 4
"""Rows that are summed at once: each is read in one long run."""
VECTORS = 4
"""Vectors of sums of a row: as many additions are under way."""
BLOCK_ROWS = 64
"""Rows that one thread takes at once."""
WIDE_NBITS = 64
"""Bits of integers that no tile holds."""
NARROWED = ((dt.F32, dt.BF16), (dt.F32, dt.F16))
"""Types of sums, and of results to which they are rounded."""


class RowSumsArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        matrix: first element of the first row.
        row: from one row to the next.
        rows: number of rows.
        vector: first of the factors.
        depth: number of elements in a row.
        result: first sum.
    """

    matrix: Value
    row: Value
    rows: Value
    vector: Value
    depth: Value
    result: Value


def call_row_sums(
    b: FunctionBuilder, kind: ProductKind, arguments: RowSumsArguments, is_far: bool = False
) -> None:
    """Calls the function, which the module has once.

    Args:
        b: where to call.
        kind: types and vectors.
        arguments: see there.
        is_far: true if the matrix is expected in no cache.
    """

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _RowSums(inner, kind, RowSumsArguments(*values), is_far).emit()

    b.call_microkernel(kind.name("row_sums.far" if is_far else "row_sums"), arguments, emit)


class _RowSums:
    def __init__(
        self, b: FunctionBuilder, kind: ProductKind, a: RowSumsArguments, is_far: bool
    ) -> None:
        self.b, self.kind, self.a, self.is_far = b, kind, a, is_far

    def emit(self) -> None:
        """Some rows at once, the last one again where there are too few.

        Far ones are each the next of a part of the block, which memory gives in one long run.
        """
        b, a, kind = self.b, self.a, self.kind
        last, part = b.sub(a.rows, 1), b.const(I64, 1)
        stop, step = a.rows, ROWS
        if self.is_far:
            stop, step = b.udiv(b.add(a.rows, ROWS - 1), ROWS), 1
            part = stop
        with b.loop(0, stop, step) as first:
            numbers = [b.intrinsic("smin", b.add(first, b.mul(part, r)), last) for r in range(ROWS)]
            rows = [b.byte_address(a.matrix, b.mul(n, a.row)) for n in numbers]
            zeros = [b.const(kind.vector, 0)] * (ROWS * VECTORS)
            start, many = self._vectors(rows, b.const(I64, 0), zeros, VECTORS)
            reduced = [self._reduced(many[r * VECTORS : (r + 1) * VECTORS]) for r in range(ROWS)]
            start, sums = self._vectors(rows, start, reduced, 1)
            totals = self._rest(rows, start, [self._total(x) for x in sums])
            for number, total in zip(numbers, totals, strict=True):
                b.store(total, b.element_address(a.result, number, kind.element))

    def _vectors(
        self, rows: list[Value], start: Value, sums: list[Value], count: int
    ) -> tuple[Value, list[Value]]:
        """Goes on in steps of so many vectors; where the next step begins, and the sums."""
        b, step = self.b, count * self.kind.lanes
        stop = b.sub(self.a.depth, b.srem(b.sub(self.a.depth, start), step))
        with b.carried_loop(start, stop, step, initial=sums) as loop:
            factors = self._read(self.a.vector, loop.index, count, self.kind.right)
            made: list[Value] = []
            for r, row in enumerate(rows):
                values = self._read(row, loop.index, count, self.kind.left)
                if self.is_far and count == VECTORS:
                    self._fetch_following(row, loop.index, count)
                held = loop.values[r * count : (r + 1) * count]
                made += [
                    self.kind.multiply_add(b, x, y, t)
                    for x, y, t in zip(values, factors, held, strict=True)
                ]
            loop.carry(*made)
        return stop, list(loop.values)

    def _read(self, base: Value, index: Value, count: int, dtype: PrimitiveType) -> list[Value]:
        b, kind = self.b, self.kind
        place = b.byte_address(base, b.mul(index, dtype.host_nbytes))
        nbytes = kind.lanes * dtype.host_nbytes
        return [
            kind.read(b, b.byte_address(place, v * nbytes), dtype, kind.lanes) for v in range(count)
        ]

    def _fetch_following(self, row: Value, index: Value, count: int) -> None:
        """The same elements of the row after this one: it is the next one of its part."""
        b, size = self.b, self.kind.left.host_nbytes
        if not b.module.target.has_prefetch:
            return
        place = b.byte_address(b.byte_address(row, self.a.row), b.mul(index, size))
        for nbytes in range(0, count * self.kind.lanes * size, CACHE_LINE_NBYTES):
            b.prefetch(b.byte_address(place, nbytes), is_near=False)

    def _rest(self, rows: list[Value], start: Value, sums: list[Value]) -> list[Value]:
        """Elements after the last whole vector."""
        b, kind, a = self.b, self.kind, self.a
        with b.carried_loop(start, a.depth, initial=sums) as loop:
            (right,) = self._one(a.vector, loop.index, kind.right)
            lefts = [self._one(row, loop.index, kind.left)[0] for row in rows]
            loop.carry(*(
                kind.multiply_add(b, x, right, t) for x, t in zip(lefts, loop.values, strict=True)
            ))  # fmt: skip
        return list(loop.values)

    def _one(self, base: Value, index: Value, dtype: PrimitiveType) -> list[Value]:
        place = self.b.byte_address(base, self.b.mul(index, dtype.host_nbytes))
        return [self.kind.read(self.b, place, dtype, 1)]

    def _add(self, x: Value, y: Value) -> Value:
        return self.b.fadd(x, y) if self.kind.element.is_float else self.b.add(x, y)

    def _reduced(self, values: list[Value]) -> Value:
        """The sum of vectors, by halves."""
        while len(values) > 1:
            half = len(values) // 2
            values = [self._add(x, y) for x, y in zip(values[:half], values[half:], strict=True)]
        return values[0]

    def _total(self, value: Value) -> Value:
        """The sum of a vector's lanes, by halves."""
        lanes = value.lanes
        while lanes > 1:
            lanes //= 2
            low = self.b.shuffle(value, value, tuple(range(lanes)))
            high = self.b.shuffle(value, value, tuple(range(lanes, 2 * lanes)))
            value = (
                self._add(low, high)
                if lanes > 1
                else self._add(self.b.extract(value, 0), self.b.extract(value, 1))
            )
        return value


@dataclass(frozen=True, slots=True)
class RowSumsPlan:
    """A dot as sums of rows; strides in elements.

    Attributes:
        matrix: number of the operand whose rows are summed; the other one is the vector.
        batch: sizes of the batch dimensions.
        rows, depth: sizes.
        sides: of the matrix and of the vector.
        result: strides along the batch.
        total: type of the sums.
        kept: type of the result, to which they are rounded once.
    """

    matrix: int
    batch: tuple[int, ...]
    rows: int
    depth: int
    sides: tuple[Side, Side]
    result: tuple[int, ...]
    total: PrimitiveType
    kept: PrimitiveType


def row_sums_plan(i: HloInstruction) -> RowSumsPlan | None:
    """How a dot is computed by sums of rows; None if it is not."""
    found = matrices_of(i)
    return None if found is None else row_sums_of(i, found)


def row_sums_of(i: HloInstruction, found: Matrices) -> RowSumsPlan | None:
    """The same for operands that will be in memory."""
    kept = i.shape.element_type
    if found.total is not kept and (found.total, kept) not in NARROWED:
        return None
    sides, result = (found.left, found.right), found.result
    sizes = [side.extent for side in sides]
    if 1 not in sizes or any(side.step != 1 for side in sides):
        return None
    matrix = 0 if sizes[1] == 1 else 1
    rows, depth = sizes[matrix], sides[0].depth
    stride = result.column if matrix else result.row
    if rows * depth < LEAST_PRODUCTS or (rows > 1 and stride != 1):
        return None
    ordered = sides[matrix], sides[1 - matrix]
    batch = i.shape.dims[: len(i["lhs_batch_dims"])]
    return RowSumsPlan(matrix, batch, rows, depth, ordered, result.batch, found.total, kept)


def is_faster_reduced(i: HloInstruction) -> bool:
    """True if a dot with a vector is better a `reduce` of products.

    That is so where there are no tiles for its type, and for many products of two vectors.
    """
    total, dims = i.shape.element_type, DotDims.of(i)
    if total not in SUM_TYPES:
        return total.is_complex or total.bits == WIDE_NBITS
    is_one = all(
        prod(o.shape.dims[d] for d in free) == 1
        for o, free in zip(
            i.operands,
            (dims.lhs_free(i.operands[0].shape.rank), dims.rhs_free(i.operands[1].shape.rank)),
            strict=True,
        )
    )
    return is_one and total.is_float and i.shape.size > 1


def emit_row_sums(k: KernelBuild, plan: RowSumsPlan) -> None:
    """Writes the kernel: blocks of rows for each batch index, all of them apart."""
    b, at = k.b, k.e.at
    extents = (*plan.batch, -(-plan.rows // BLOCK_ROWS))

    def part(begin: IndexValue, end: IndexValue) -> None:
        with b.loop(at.value(begin), at.value(end)) as number, k.e.scope():
            *batch, block = at.delinear(number, extents)
            _emit_block(k, plan, tuple(batch), at.mul(block, BLOCK_ROWS))

    k.split(prod(extents), part)


def _emit_block(k: KernelBuild, plan: RowSumsPlan, batch: Index, row: IndexValue) -> None:
    b, at = k.b, k.e.at
    operands = k.root.operands[plan.matrix], k.root.operands[1 - plan.matrix]
    matrix, vector = (k.e.arrays[o][0] for o in operands)
    kind = ProductKind.of(
        b.module.target, matrix.shape.element_type, vector.shape.element_type, plan.total
    )
    first = at.add(at.strided(batch, plan.sides[0].batch), at.mul(row, plan.sides[0].free))
    result = at.add(at.strided(batch, plan.result), row)
    place = _address(k, k.results[0], result)
    count = b.intrinsic("smin", b.sub(plan.rows, at.value(row)), BLOCK_ROWS)
    is_narrow = plan.kept is not plan.total
    sums = b.alloca(kind.element, BLOCK_ROWS, align=64) if is_narrow else place
    arguments = RowSumsArguments(
        matrix=_address(k, matrix, first),
        row=b.const(I64, plan.sides[0].free * matrix.shape.element_type.host_nbytes),
        rows=count,
        vector=_address(k, vector, at.strided(batch, plan.sides[1].batch)),
        depth=b.const(I64, plan.depth),
        result=sums,
    )
    nbytes = prod(plan.batch) * plan.rows * plan.depth * matrix.shape.element_type.host_nbytes
    call_row_sums(b, kind, arguments, is_far=nbytes > CACHED_NBYTES)
    if is_narrow:
        zero = b.const(I64, 0)
        narrowing = NarrowingArguments(sums, zero, place, zero, b.const(I64, 1), count)
        call_narrowing(b, kind, plan.kept, narrowing)


def _address(k: KernelBuild, array: IrArray, offset: IndexValue) -> Value:
    nbytes = array.shape.element_type.host_nbytes
    return k.b.byte_address(array.base, k.e.at.value(k.e.at.mul(offset, nbytes)))
