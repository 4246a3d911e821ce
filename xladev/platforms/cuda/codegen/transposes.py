"""Transposes in tiles: read along the operand's rows, written along the result's.

A block reads 32 x 32 elements into shared memory, whose rows are one element longer so that columns
lie in different banks, waits, and writes them in the other order. What computes the operand's
elements is fused in, and so is what is computed from the result's, element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.kernels.build import moved_as_bits
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.codegen.kernel_kind import KernelKind, ThreadBuild, single
from xladev.platforms.cuda.codegen.launch_plan import BLOCK
from xladev.platforms.cuda.codegen.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)

TILE = 32
PITCH = TILE + 1
MOST_TILES = 4
"""Arrays that are transposed by one kernel; of others, elements are read one by one."""
MOST_SHARED_NBYTES = 48 << 10
LEAST = 16
"""Elements of either dimension below which tiles are mostly empty."""


@dataclass(frozen=True, slots=True)
class TiledTranspose:
    """Transposes that move the innermost dimension, all in the same way.

    Attributes:
        transposes: the instructions; each has a tile.
        roots: what is computed from them, of the same dimensions.
    """

    transposes: tuple[HloInstruction, ...]
    roots: tuple[HloInstruction, ...]

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
        return tuple(-(-n // TILE) if d in tiled else n for d, n in enumerate(self.dims))

    @property
    def dimensions(self) -> LaunchDimensions:
        """A block for each tile."""
        return LaunchDimensions((prod(self.spaces), 1, 1), (BLOCK, 1, 1))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each tile begins in shared memory, then the size of all; in bytes."""
        found = [0]
        for i in self.transposes:
            nbytes = TILE * PITCH * max(1, i.shape.element_type.host_nbytes)
            found.append(found[-1] + -(-nbytes // 16) * 16)
        return tuple(found)


def tiled_transpose(root: HloInstruction) -> TiledTranspose | None:
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
    tiled = TiledTranspose(tuple(alike[:MOST_TILES]), roots)
    return tiled if tiled.offsets[-1] <= MOST_SHARED_NBYTES else None


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


def transpose_kind(spec: KernelSpec) -> KernelKind | None:
    """The kind of kernels that transpose, and compute with what they transposed."""
    tiled = tiled_transpose(spec.computation.root)
    if tiled is None:
        return None
    return single(
        "tiled transpose",
        lambda t: emit_tiled_transpose(t, tiled),
        tiled.dimensions,
        tiled.offsets[-1],
    )


def emit_tiled_transpose(t: ThreadBuild, tiled: TiledTranspose) -> None:
    """Writes the code of one thread."""
    b, e = t.b, t.e
    tid = thread_in_block(b)
    x, y = b.urem(tid, TILE), b.udiv(tid, TILE)
    place = e.at.delinear(block_number(b), tiled.spaces)
    shared = shared_memory(b)
    tiles = [
        (i, b.byte_address(shared, offset), _tile_type(t, i))
        for i, offset in zip(tiled.transposes, tiled.offsets, strict=False)
    ]

    def read(index: tuple[IndexValue, ...], row: Value, column: Value) -> None:
        at = b.add(b.mul(row, PITCH), column)
        for i, tile, dtype in tiles:
            store_element(b, tile, at, dtype, e.element(i.operands[0], index))

    def write(index: tuple[IndexValue, ...], row: Value, column: Value) -> None:
        at, moved = b.add(b.mul(row, PITCH), column), tuple(index[d] for d in tiled.order)
        for i, tile, dtype in tiles:
            e.hold(i, moved, load_element(b, tile, at, dtype))
        for root, result in zip(tiled.roots, t.results, strict=True):
            result.store(b, moved, e.element(root, moved))

    for step in range(0, TILE, BLOCK // TILE):
        _within(e, tiled, place, (b.add(y, step), x), read)
    barrier(b)
    for step in range(0, TILE, BLOCK // TILE):
        _within(e, tiled, place, (x, b.add(y, step)), write)


def _tile_type(t: ThreadBuild, i: HloInstruction) -> PrimitiveType:
    """What a tile holds: the bits of narrow floats, if the kernel moves them as such."""
    shapes = moved_as_bits(t.spec.computation, (i.shape,))
    return shapes[0].element_type


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
