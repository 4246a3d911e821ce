"""Matrix products that libraries have not: 32 x 32 results a block, through shared memory.

Any real element types and dimension numbers. The block reads 16 elements of the inner dimension at
a time, of 32 rows and 32 columns, in the type in which sums are formed; each thread then adds to
four results. Smaller products are summed one result for each thread (`codegen.simt.kernels.loops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xladev.codegen.elemental.contraction import accumulation_type
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild, single
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims

TILE = 32
DEPTH = 16
"""Elements of the inner dimension that are in shared memory at once."""
EACH = 2
"""Rows and columns of one thread, `TILE` / `EACH` apart."""
PITCH = TILE + 1
LEAST_RESULTS = 256
LEAST_DEPTH = 8


@dataclass(frozen=True, slots=True)
class TiledDot:
    """A product of stacks of matrices.

    Attributes:
        dot: the instruction.
        dims: its dimension numbers.
        batch, rows, inner, columns: sizes of the dimensions of each kind, in order.
    """

    dot: HloInstruction
    dims: DotDims
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    inner: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Of the stack, along rows, along columns."""
        return prod(self.batch), -(-prod(self.rows) // TILE), -(-prod(self.columns) // TILE)

    @property
    def total(self) -> PrimitiveType:
        """The type in which products are summed."""
        return accumulation_type(self.dot.shape.element_type)

    @property
    def tile_nbytes(self) -> int:
        """Of what is read of one operand at a time."""
        return DEPTH * PITCH * max(1, self.total.host_nbytes)


def tiled_dot_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """How a product of some size is computed."""
    dot = spec.computation.root
    if dot.opcode != "dot" or len(dot.operands) != 2:
        return None
    if any(s.element_type.is_complex for s in (dot.shape, *(o.shape for o in dot.operands))):
        return None
    t = tiled_dot(dot)
    sizes = [prod(group) for group in (t.rows, t.columns, t.inner)]
    if not all(sizes) or not prod(t.batch):
        return None
    if sizes[0] * sizes[1] < LEAST_RESULTS or min(sizes) < LEAST_DEPTH:
        return None
    dimensions = LaunchDimensions((prod(t.tiles), 1, 1), (BLOCK, 1, 1))
    return single("tiled dot", lambda b: _emit(b, t), dimensions, 2 * t.tile_nbytes)


def tiled_dot(dot: HloInstruction) -> TiledDot:
    """A dot with its dimensions by kind."""
    dims = DotDims.of(dot)
    lhs, rhs = (o.shape for o in dot.operands)
    groups = (
        tuple(shape.dims[d] for d in which)
        for shape, which in (
            (lhs, dims.lhs_batch),
            (lhs, dims.lhs_free(lhs.rank)),
            (lhs, dims.lhs_contracting),
            (rhs, dims.rhs_free(rhs.rank)),
        )
    )
    return TiledDot(dot, dims, *groups)


def _emit(build: ThreadBuild, t: TiledDot) -> None:
    """Writes the code of one thread."""
    e, b = build.e, build.b
    tid = thread_in_block(b)
    stack, row_tile, column_tile = e.at.delinear(block_number(b), t.tiles)
    batch = e.at.delinear(stack, t.batch)
    first_row, first_column = (e.at.value(e.at.mul(x, TILE)) for x in (row_tile, column_tile))
    left = shared_memory(b)
    right = b.byte_address(left, t.tile_nbytes)
    x, y = b.urem(tid, DEPTH), b.udiv(tid, DEPTH)
    zero = cast(Value, constant_element(t.total, 0))  # complex products are no tiled dots
    depth = prod(t.inner)
    with b.carried_loop(0, depth, DEPTH, initial=(zero,) * (EACH * EACH)) as loop:
        for part in range(EACH):
            place = b.add(tid, part * BLOCK)
            row, k = b.udiv(place, DEPTH), b.urem(place, DEPTH)
            _fill(build, t, 0, batch, left, (first_row, row), (loop.index, k))
            column, k = b.urem(place, TILE), b.udiv(place, TILE)
            _fill(build, t, 1, batch, right, (first_column, column), (loop.index, k))
        barrier(b)
        sums = _added(build, t, left, right, (y, x), loop.values)
        barrier(b)
        loop.carry(*sums)
    _store(build, t, batch, (b.add(first_row, y), b.add(first_column, x)), loop.values)


def _fill(
    build: ThreadBuild,
    t: TiledDot,
    side: int,
    batch: Index,
    tile: Value,
    along: tuple[Value, Value],
    inner: tuple[Value, Value],
) -> None:
    """Puts one element of an operand into shared memory; zero behind the inner dimension."""
    e, b = build.e, build.b
    sizes = t.columns if side else t.rows
    # Rows behind the last one are the last one again: what is computed of them is not stored.
    at = b.intrinsic("umin", b.add(*along), prod(sizes) - 1)
    k = b.add(*inner)
    offset = b.add(b.mul(inner[1], PITCH), along[1])
    inside = b.icmp("ult", k, prod(t.inner))
    with b.when(inside), e.scope():
        element = operand_element(build, t, side, batch, e.at.delinear(at, sizes), k)
        source = t.dot.operands[side].shape.element_type
        if source is not t.total:
            element = emit_convert(b, element, source, t.total)
        store_element(b, tile, offset, t.total, element)
    with b.when(b.icmp("uge", k, prod(t.inner))), e.scope():
        store_element(b, tile, offset, t.total, constant_element(t.total, 0))


def operand_element(
    build: ThreadBuild, t: TiledDot, side: int, batch: Index, kept: Index, k: Value
) -> Element:
    """One element of an operand.

    Args:
        build: the code of one thread.
        t: the product.
        side: 0 for the left operand, 1 for the right.
        batch, kept: coordinates of the stack, and of the row or column.
        k: place along the inner dimension.
    """
    operand, dims = t.dot.operands[side], t.dims
    rank = operand.shape.rank
    summed = build.e.at.delinear(k, t.inner)
    groups = (
        ((dims.lhs_batch, batch), (dims.lhs_free(rank), kept), (dims.lhs_contracting, summed)),
        ((dims.rhs_batch, batch), (dims.rhs_free(rank), kept), (dims.rhs_contracting, summed)),
    )[side]
    index: list[IndexValue] = [0] * rank
    for which, coordinates in groups:
        for d, coordinate in zip(which, coordinates, strict=True):
            index[d] = coordinate
    return build.e.element(operand, tuple(index))


def _added(
    build: ThreadBuild,
    t: TiledDot,
    left: Value,
    right: Value,
    at: tuple[Value, Value],
    sums: Sequence[Value],
) -> list[Value]:
    """The sums of a thread after one step of the inner dimension."""
    b, step = build.b, TILE // EACH
    found: list[Element] = list(sums)
    both = (t.total, t.total)
    for k in range(DEPTH):
        rows, columns = (
            [
                load_element(b, tile, b.add(own, k * PITCH + part * step), t.total)
                for part in range(EACH)
            ]
            for tile, own in ((left, at[0]), (right, at[1]))
        )
        for n in range(EACH * EACH):
            pair = rows[n // EACH], columns[n % EACH]
            product = emit_elementwise(b, "multiply", both, t.total, pair)
            found[n] = emit_elementwise(b, "add", both, t.total, (found[n], product))
    return [cast(Value, sum_) for sum_ in found]


def _store(
    build: ThreadBuild,
    t: TiledDot,
    batch: Index,
    at: tuple[Value, Value],
    sums: Sequence[Value],
) -> None:
    """Writes the results that there are."""
    e, b, step = build.e, build.b, TILE // EACH
    result = t.dot.shape.element_type
    for n, total in enumerate(sums):
        row, column = b.add(at[0], n // EACH * step), b.add(at[1], n % EACH * step)
        inside = b.and_(b.icmp("ult", row, prod(t.rows)), b.icmp("ult", column, prod(t.columns)))
        with b.when(inside), e.scope():
            index = (*batch, *e.at.delinear(row, t.rows), *e.at.delinear(column, t.columns))
            made = total if result is t.total else emit_convert(b, total, t.total, result)
            build.results[0].store(b, index, made)
