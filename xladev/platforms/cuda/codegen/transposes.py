"""Transposes in tiles: read along the operand's rows, written along the result's.

A block reads 32 x 32 elements into shared memory, whose rows are one element longer so that columns
lie in different banks, waits, and writes them in the other order. What computes the operand's
elements is fused in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.codegen.kernel_kind import KernelKind, single
from xladev.platforms.cuda.codegen.launch_plan import BLOCK
from xladev.platforms.cuda.codegen.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)

TILE = 32
PITCH = TILE + 1
LEAST = 16
"""Elements of either dimension below which tiles are mostly empty."""


@dataclass(frozen=True, slots=True)
class TiledTranspose:
    """A transpose that moves the innermost dimension.

    Attributes:
        transpose: the instruction.
        across: dimension of the operand that is innermost in the result.
    """

    transpose: HloInstruction
    across: int

    @property
    def dims(self) -> tuple[int, ...]:
        """Of the operand."""
        return self.transpose.operands[0].shape.dims

    @property
    def spaces(self) -> tuple[int, ...]:
        """Tiles along each dimension of the operand; single elements along most."""
        tiled = (self.across, len(self.dims) - 1)
        return tuple(-(-n // TILE) if d in tiled else n for d, n in enumerate(self.dims))

    @property
    def dimensions(self) -> LaunchDimensions:
        """A block for each tile."""
        return LaunchDimensions((prod(self.spaces), 1, 1), (BLOCK, 1, 1))

    @property
    def shared_nbytes(self) -> int:
        """One tile."""
        return TILE * PITCH * max(1, self.transpose.shape.element_type.host_nbytes)


def tiled_transpose(root: HloInstruction) -> TiledTranspose | None:
    """How a kernel of this root goes in tiles; None if its rows stay rows, or are short."""
    if root.opcode != "transpose" or not root.shape.size or root.shape.rank < 2:
        return None
    operand, across = root.operands[0].shape, root["dimensions"][-1]
    inner = operand.rank - 1
    if across == inner or not is_row_major(operand) or not is_row_major(root.shape):
        return None
    if min(operand.dims[across], operand.dims[inner]) < LEAST:
        return None
    return TiledTranspose(root, across)


def transpose_kind(spec: KernelSpec) -> KernelKind | None:
    """The kind of kernels that end with a transpose of the innermost dimension."""
    tiled = tiled_transpose(spec.computation.root)
    if tiled is None:
        return None
    return single(
        "tiled transpose",
        lambda t: emit_tiled_transpose(t.e, tiled, t.results[0]),
        tiled.dimensions,
        tiled.shared_nbytes,
    )


def emit_tiled_transpose(e: ElementalEmitter, t: TiledTranspose, result: IrArray) -> None:
    """Writes the code of one thread."""
    b, dtype = e.b, result.shape.element_type
    tid = thread_in_block(b)
    x, y = b.urem(tid, TILE), b.udiv(tid, TILE)
    place = e.at.delinear(block_number(b), t.spaces)
    tile = shared_memory(b)

    def read(index: tuple[IndexValue, ...], row: Value, column: Value) -> None:
        element = e.element(t.transpose.operands[0], index)
        store_element(b, tile, b.add(b.mul(row, PITCH), column), dtype, element)

    def write(index: tuple[IndexValue, ...], row: Value, column: Value) -> None:
        element = load_element(b, tile, b.add(b.mul(row, PITCH), column), dtype)
        result.store(b, tuple(index[d] for d in t.transpose["dimensions"]), element)

    for step in range(0, TILE, BLOCK // TILE):
        moved = b.add(y, step)
        _within(e, t, place, (moved, x), read)
    barrier(b)
    for step in range(0, TILE, BLOCK // TILE):
        moved = b.add(y, step)
        _within(e, t, place, (x, moved), write)


def _within(
    e: ElementalEmitter,
    t: TiledTranspose,
    place: tuple[IndexValue, ...],
    at: tuple[Value, Value],
    body: Callable[[tuple[IndexValue, ...], Value, Value], None],
) -> None:
    """Runs ``body`` on the element at a row and column of the tile, if the array has it."""
    b, inner = e.b, len(t.dims) - 1
    index = list(place)
    for d, offset in ((t.across, at[0]), (inner, at[1])):
        index[d] = b.add(e.at.value(e.at.mul(place[d], TILE)), offset)
    inside = b.and_(
        b.icmp("ult", e.at.value(index[t.across]), t.dims[t.across]),
        b.icmp("ult", e.at.value(index[inner]), t.dims[inner]),
    )
    with b.when(inside), e.scope():
        body(tuple(index), at[0], at[1])
