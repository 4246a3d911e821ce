"""Products of bf16 on tensor cores: 64 x 64 results a block, where no library computes them.

Eight warps, four by two, have 16 x 32 results each. The block puts 16 elements of the inner
dimension of 64 rows and 64 columns into shared memory at a time (`codegen.tensor_cores`).
"""

from __future__ import annotations

from math import prod

from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import FLOAT, Value
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.storage import store_element
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild, single
from xladev.codegen.simt.kernels.tiled_dots import TiledDot, operand_element, tiled_dot
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo import dtype as dt
from xladev.platforms.cuda.codegen.tensor_cores import (
    COLUMNS,
    DEPTH,
    PITCH,
    ROWS,
    SUMS,
    multiply_tiles,
)

TILE = 64
WARP = 32
WARP_ROWS = TILE // ROWS
WARP_COLUMNS = BLOCK // WARP // WARP_ROWS
PARTS = TILE // WARP_COLUMNS // COLUMNS
"""Tiles of one warp, side by side."""
TILE_NBYTES = TILE * PITCH * 2
LEAST = 16


def tensor_dot_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """How a product of bf16 of some size is computed."""
    dot = spec.computation.root
    if dot.opcode != "dot" or len(dot.operands) != 2:
        return None
    if any(o.shape.element_type is not dt.BF16 for o in dot.operands):
        return None
    if dot.shape.element_type not in (dt.BF16, dt.F32):
        return None
    t = tiled_dot(dot)
    sizes = [prod(group) for group in (t.rows, t.columns, t.inner)]
    if min(sizes) < LEAST or not prod(t.batch):
        return None
    dimensions = LaunchDimensions((prod(_tiles(t)), 1, 1), (BLOCK, 1, 1))
    return single("tensor dot", lambda build: _emit(build, t), dimensions, 2 * TILE_NBYTES)


def _tiles(t: TiledDot) -> tuple[int, int, int]:
    """Of the stack, along rows, along columns."""
    return prod(t.batch), -(-prod(t.rows) // TILE), -(-prod(t.columns) // TILE)


def _emit(build: ThreadBuild, t: TiledDot) -> None:
    """Writes the code of one thread."""
    e, b = build.e, build.b
    tid = thread_in_block(b)
    stack, row_tile, column_tile = e.at.delinear(block_number(b), _tiles(t))
    batch = e.at.delinear(stack, t.batch)
    first = [e.at.value(e.at.mul(x, TILE)) for x in (row_tile, column_tile)]
    left = shared_memory(b)
    right = b.byte_address(left, TILE_NBYTES)
    warp = b.udiv(tid, WARP)
    rows = b.mul(b.urem(warp, WARP_ROWS), ROWS)
    columns = b.mul(b.udiv(warp, WARP_ROWS), PARTS * COLUMNS)
    sums = b.alloca(FLOAT, PARTS * SUMS)
    for n in range(PARTS * SUMS):
        b.store(b.const(FLOAT, 0.0), b.byte_address(sums, 4 * n))
    with b.loop(0, prod(t.inner), DEPTH) as start:
        for part in range(TILE * DEPTH // BLOCK):
            position = b.add(tid, part * BLOCK)
            own = b.udiv(position, DEPTH), b.urem(position, DEPTH)
            _fill(build, t, 0, batch, left, first[0], start, own)
            own = b.urem(position, TILE), b.udiv(position, TILE)
            _fill(build, t, 1, batch, right, first[1], start, own)
        barrier(b)
        for part in range(PARTS):
            column = b.add(columns, part * COLUMNS)
            multiply_tiles(
                b,
                b.byte_address(left, b.mul(rows, PITCH * 2)),
                b.byte_address(right, b.mul(column, PITCH * 2)),
                b.byte_address(sums, part * SUMS * 4),
            )
        barrier(b)
    lane = b.urem(tid, WARP)
    at = (
        b.add(b.add(first[0], rows), b.udiv(lane, 4)),
        b.add(b.add(first[1], columns), b.mul(b.urem(lane, 4), 2)),
    )
    _store(build, t, batch, at, sums)


def _fill(
    build: ThreadBuild,
    t: TiledDot,
    side: int,
    batch: Index,
    tile: Value,
    first: Value,
    start: Value,
    own: tuple[Value, Value],
) -> None:
    """Puts one element of an operand into shared memory; zero behind the inner dimension."""
    e, b = build.e, build.b
    sizes = t.columns if side else t.rows
    # What is computed of rows behind the last one is not stored.
    at = b.intrinsic("umin", b.add(first, own[0]), prod(sizes) - 1)
    k = b.add(start, own[1])
    offset = b.add(b.mul(own[0], PITCH), own[1])
    with b.when(b.icmp("ult", k, prod(t.inner))), e.scope():
        element = operand_element(build, t, side, batch, e.at.delinear(at, sizes), k)
        store_element(b, tile, offset, dt.BF16, element)
    with b.when(b.icmp("uge", k, prod(t.inner))), e.scope():
        store_element(b, tile, offset, dt.BF16, constant_element(dt.BF16, 0))


def _store(
    build: ThreadBuild, t: TiledDot, batch: Index, at: tuple[Value, Value], sums: Value
) -> None:
    """Writes the results that there are."""
    e, b, result = build.e, build.b, t.dot.shape.element_type
    for n in range(PARTS * SUMS):
        part, position = divmod(n, SUMS)
        row = b.add(at[0], position // 2 * (ROWS // 2))
        column = b.add(at[1], part * COLUMNS + position % 2)
        inside = b.and_(b.icmp("ult", row, prod(t.rows)), b.icmp("ult", column, prod(t.columns)))
        with b.when(inside), e.scope():
            index = (*batch, *e.at.delinear(row, t.rows), *e.at.delinear(column, t.columns))
            total = b.load(FLOAT, b.byte_address(sums, 4 * n))
            made = total if result is dt.F32 else emit_convert(b, total, dt.F32, result)
            build.results[0].store(b, index, made)
