"""Reductions of rows: a warp or a block folds each row, its threads reading side by side.

Threads fold vectors of their own, then exchange what they have within the warp, and warps of a
block through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter, is_row_major
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.kernels.folds import Fold, fold_of
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import store_element
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.codegen.exchanges import WARP, over_block, over_warp, slots_nbytes
from xladev.platforms.cuda.codegen.kernel_kind import KernelKind, single
from xladev.platforms.cuda.codegen.launch_plan import BLOCK
from xladev.platforms.cuda.codegen.primitives import block_number, thread_in_block

LEAST_ROW = 64
"""Elements below which one thread folds a row."""
MOST_OF_WARP = 2048
"""Elements above which a whole block folds a row."""


@dataclass(frozen=True, slots=True)
class RowFold:
    """A reduce over trailing dimensions.

    Attributes:
        fold: how elements are combined.
        kept: dimensions that count rows.
        row: dimensions that are folded.
    """

    fold: Fold
    kept: tuple[int, ...]
    row: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return prod(self.kept)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(self.row)

    @property
    def threads(self) -> int:
        """That fold one row."""
        return WARP if self.length <= MOST_OF_WARP else BLOCK

    @property
    def dimensions(self) -> LaunchDimensions:
        """Blocks for all rows."""
        per_block = BLOCK // self.threads
        return LaunchDimensions((-(-self.rows // per_block), 1, 1), (BLOCK, 1, 1))

    @property
    def shared_nbytes(self) -> int:
        """One slot for each warp of a block that folds a row together."""
        return 0 if self.threads == WARP else slots_nbytes(1, BLOCK)


def row_fold(root: HloInstruction) -> RowFold | None:
    """How a kernel of this root folds rows; None if it folds none, or short ones."""
    fold = fold_of(root) if root.opcode == "reduce" else None
    if fold is None or not root.shape.size:
        return None
    shape = root.operands[0].shape
    kept = shape.rank - len(root["dimensions"])
    found = RowFold(fold, shape.dims[:kept], shape.dims[kept:])
    is_trailing = tuple(sorted(root["dimensions"])) == tuple(range(kept, shape.rank))
    if not is_trailing or not is_row_major(shape) or not is_row_major(root.shape):
        return None
    return found if found.length >= LEAST_ROW else None


def row_fold_kind(spec: KernelSpec) -> KernelKind | None:
    """The kind of kernels that are one reduce over rows."""
    rows = row_fold(spec.computation.root)
    if rows is None:
        return None
    return single(
        "row fold",
        lambda t: emit_row_fold(t.e, rows, t.results[0]),
        rows.dimensions,
        rows.shared_nbytes,
    )


def emit_row_fold(e: ElementalEmitter, rows: RowFold, result: IrArray) -> None:
    """Writes the code of one thread."""
    b = e.b
    tid = thread_in_block(b)
    lane = b.urem(tid, rows.threads)
    row = b.add(b.mul(block_number(b), BLOCK // rows.threads), b.udiv(tid, rows.threads))
    # Threads without a row of their own fold the last one too: all must come to each shuffle.
    inside = b.icmp("ult", row, rows.rows)
    own = b.intrinsic("umin", row, rows.rows - 1)
    total = over_warp(b, rows.fold, _over_row(e, rows, own, lane), WARP)
    if rows.shared_nbytes:
        (total,) = over_block(b, [rows.fold], [total], tid, BLOCK)
    is_first = b.icmp("eq", lane, 0)
    with b.when(b.and_(inside, is_first)), e.scope():
        start = e.element(rows.fold.reduce.operands[1], ())
        folded = rows.fold.rounded(b, rows.fold.combine(b, start, total))
        store_element(b, result.base, own, result.shape.element_type, folded)


def _over_row(e: ElementalEmitter, rows: RowFold, row: Value, lane: Value) -> Value:
    """What this thread folds of its row, in vectors where neighbours can be read at once."""
    for lanes in (8, 4, 2):
        if rows.row[-1] % lanes or lanes > _widest(rows):
            continue
        mark, functions, held = e.b.mark(), e.b.module.mark(), e.scopes()
        try:
            return _vectors(e, rows, row, lane, lanes)
        except NotInVectorsError:
            e.b.reset(mark)
            e.b.module.reset(functions)
            e.leave(held)
    return _folded(e, rows, row, lane, 1, lambda index: e.element(_operand(rows), index))


def _widest(rows: RowFold) -> int:
    """Elements of the folded type in 16 bytes; narrow ones up to 8."""
    return min(8, 16 // max(1, _operand(rows).shape.element_type.host_nbytes))


def _operand(rows: RowFold) -> HloInstruction:
    return rows.fold.reduce.operands[0]


def _vectors(e: ElementalEmitter, rows: RowFold, row: Value, lane: Value, lanes: int) -> Value:
    inner = VectorEmitter(e, lanes)
    found = _folded(
        inner, rows, row, lane, lanes, lambda index: inner.element(_operand(rows), index)
    )
    parts = [e.b.extract(found, n) for n in range(lanes)]
    total = parts[0]
    for part in parts[1:]:
        total = rows.fold.combine(e.b, total, part)
    return total


def _folded(
    e: ElementalEmitter,
    rows: RowFold,
    row: Value,
    lane: Value,
    lanes: int,
    element: Callable[[Index], Element],
) -> Value:
    """Folds every ``rows.threads``-th vector of a row, from this thread's first on."""
    b, fold = e.b, rows.fold
    kept = e.at.delinear(row, rows.kept)
    first, step = b.mul(lane, lanes), rows.threads * lanes
    initial = (fold.start(lanes),)
    with b.carried_loop(first, rows.length, step, initial=initial) as loop, e.scope():
        if isinstance(e, VectorEmitter):
            e.at.start(loop.index, lanes)
        within: tuple[IndexValue, ...] = e.at.delinear(loop.index, rows.row)
        loop.carry(fold.combine(b, loop.values[0], element((*kept, *within))))
    return loop.values[0]
