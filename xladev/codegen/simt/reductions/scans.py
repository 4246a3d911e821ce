"""Accumulations along a dimension, which HLO spells as windows over all that comes before or after.

A block goes along a row in tiles. Each thread accumulates neighbours, sub-groups what their threads
have by shuffles, the block what its sub-groups have through shared memory. Long rows of which there
are few are cut into parts: one launch reduces each part, one accumulates what they have, one the
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter, is_row_major
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import I64, Value, vector
from xladev.codegen.reductions import Reduction, reduction_of
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.exchanges import over_block, over_subgroup, slots_nbytes
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import block_number, thread_in_block
from xladev.codegen.simt.reductions.block_scans import block_scan, block_scan_nbytes
from xladev.codegen.simt.reductions.reduction_plans import BLOCKS_WANTED
from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction

LEAST = 64
"""Shorter rows are windows like any other."""
_TILES_OF_PART = 4
"""Tiles of a part, at least."""

Load = Callable[[Value], list[Value]]
Store = Callable[[Value, Sequence[Value]], None]


@dataclass(frozen=True, slots=True)
class RowScan:
    """An accumulation.

    Attributes:
        reduction: how elements are combined.
        axis: the dimension that is gone along.
        backwards: whether from the last element to the first.
    """

    reduction: Reduction
    axis: int
    backwards: bool

    @property
    def dims(self) -> tuple[int, ...]:
        """Of the operand, and of the result."""
        return self.reduction.reduce.shape.dims

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.dims[self.axis]

    @property
    def outer(self) -> tuple[int, ...]:
        """Dimensions that count rows."""
        return (*self.dims[: self.axis], *self.dims[self.axis + 1 :])

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return prod(self.outer)

    @property
    def held(self) -> int:
        """Neighbouring elements of one thread: those of one access."""
        operand = self.reduction.reduce.operands[0].shape.element_type
        return max(2, min(8, 16 // max(1, operand.host_nbytes)))

    @property
    def tile(self) -> int:
        """Elements that a block accumulates at a time."""
        return BLOCK * self.held

    @property
    def parts(self) -> int:
        """Of a row, of equal lengths but the last."""
        wanted = -(-BLOCKS_WANTED // self.rows)
        return max(1, min(wanted, self.length // (_TILES_OF_PART * self.tile)))

    @property
    def part(self) -> int:
        """Elements of a part, a whole number of tiles."""
        return -(-self.length // (self.parts * self.tile)) * self.tile

    @property
    def is_in_vectors(self) -> bool:
        """True if what one thread has is side by side, in the order of accumulation."""
        is_inner = self.axis == len(self.dims) - 1 and not self.backwards
        return is_inner and self.length % self.held == 0

    def index(self, at: IndexMath, row: IndexValue, position: IndexValue) -> Index:
        """Coordinates of a position, counted from where the accumulation begins."""
        outer = at.delinear(row, self.outer)
        x = at.sub(self.length - 1, position) if self.backwards else position
        return (*outer[: self.axis], x, *outer[self.axis :])


def scan_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that accumulate along rows."""
    scan = row_scan(spec.computation.root)
    if scan is None:
        return None
    shared = block_scan_nbytes(scan.reduction, machine.subgroup)
    if scan.parts == 1:
        return KernelKind("scan", (Stage(partial(_accumulate, scan), shared),))
    stages = (
        Stage(partial(_reduce_parts, scan), slots_nbytes(1, BLOCK, machine.subgroup)),
        Stage(partial(_accumulate_totals, scan), shared),
        Stage(partial(_accumulate, scan), shared),
    )
    return KernelKind("scan in parts", stages, scan.rows * scan.parts * _nbytes(scan.reduction))


def _nbytes(reduction: Reduction) -> int:
    return max(1, reduction.dtype.host_nbytes)


def row_scan(i: HloInstruction) -> RowScan | None:
    """How an instruction accumulates; None if it does not, or not by an opcode of any order.

    What it starts with, which stands for elements outside of the row, must change none.
    """
    reduction = reduction_of(i) if i.opcode == "reduce-window" else None
    if reduction is None or i.operands[1].opcode != "constant" or not i.shape.size:
        return None
    if i.operands[1]["literal"].value != reduction.identity or i.shape.is_dynamic:
        return None
    dims = i.operands[0].shape.dims
    if i.shape.dims != dims or not is_row_major(i.shape):
        return None
    moving = [d for d, w in enumerate(i["window"]) if w != WindowDim(1)]
    if len(moving) != 1 or dims[moving[0]] < LEAST:
        return None
    (axis,) = moving
    size = dims[axis]
    directions = {
        WindowDim(size, pad_low=size - 1): False,
        WindowDim(size, pad_high=size - 1): True,
    }
    backwards = directions.get(i["window"][axis])
    return None if backwards is None else RowScan(reduction, axis, backwards)


# Elements


def _accumulate(scan: RowScan, t: ThreadBuild) -> LaunchDimensions:
    """A block for each part of each row."""
    b, parts = t.b, scan.parts
    block = block_number(b)
    row, part = b.udiv(block, parts), b.urem(block, parts)
    begin = b.mul(part, scan.part) if parts > 1 else b.const(I64, 0)
    end = b.intrinsic("smin", b.add(begin, scan.part), scan.length)
    before = scan.reduction.start(1)
    if parts > 1:
        before = real_of(load_element(b, t.scratch, block, scan.reduction.dtype), "a total")

    load, store = _reader(t, scan, row, end), _writer(t, scan, row, end)
    _along(t, scan.reduction, scan.held, load, store, (begin, end), before)
    return LaunchDimensions((scan.rows * parts, 1, 1), (BLOCK, 1, 1))


def _writer(t: ThreadBuild, scan: RowScan, row: Value, end: Value) -> Store:
    """Writes neighbours at once where whole vectors are in a row."""
    b, result = t.b, t.results[0]

    def one_by_one(first: Value, totals: Sequence[Value]) -> None:
        for n, total in enumerate(totals):
            position = b.add(first, n)
            with b.when(b.icmp("slt", position, end)), t.e.scope():
                result.store(b, scan.index(t.e.at, row, position), scan.reduction.rounded(b, total))

    def at_once(first: Value, totals: Sequence[Value]) -> None:
        both = Value("poison", vector(scan.reduction.type, scan.held))
        for n, total in enumerate(totals):
            both = b.insert(both, total, n)
        with b.when(b.icmp("slt", first, end)), t.e.scope():
            position = result.offset(b, scan.index(t.e.at, row, first))
            dtype = result.shape.element_type
            store_element(b, result.base, position, dtype, scan.reduction.rounded(b, both))

    return at_once if scan.is_in_vectors else one_by_one


def _reader(t: ThreadBuild, scan: RowScan, row: Value, end: Value) -> Load:
    """Reads neighbours at once where whole vectors are in a row; after its end there are none."""
    operand = scan.reduction.reduce.operands[0]

    def one_by_one(first: Value) -> list[Value]:
        return [_guarded(t, scan, row, t.b.add(first, n), end) for n in range(scan.held)]

    def at_once(first: Value) -> list[Value]:
        e = VectorEmitter(t.e, scan.held)
        e.at.start(first, scan.held)

        def read() -> Sequence[Value]:
            with e.scope():
                found = real_of(e.element(operand, scan.index(e.at, row, first)), "an element")
            return [t.b.extract(found, n) for n in range(scan.held)]

        none = [scan.reduction.start(1)] * scan.held
        return list(t.b.branch(t.b.icmp("slt", first, end), read, lambda: none))

    if not scan.is_in_vectors:
        return one_by_one

    def read(first: Value) -> list[Value]:
        mark, functions, held = t.b.mark(), t.b.module.mark(), t.e.scopes()
        try:
            return at_once(first)
        except NotInVectorsError:
            t.b.reset(mark)
            t.b.module.reset(functions)
            t.e.leave(held)
            return one_by_one(first)

    return read


def _guarded(t: ThreadBuild, scan: RowScan, row: Value, position: Value, end: Value) -> Value:
    """An element of a row, or what changes nothing after its end."""

    def read() -> Sequence[Value]:
        with t.e.scope():
            element = t.e.element(
                scan.reduction.reduce.operands[0], scan.index(t.e.at, row, position)
            )
            return (real_of(element, "an element"),)

    inside = t.b.icmp("slt", position, end)
    return t.b.branch(inside, read, lambda: (scan.reduction.start(1),))[0]


def _along(
    t: ThreadBuild,
    reduction: Reduction,
    held: int,
    load: Load,
    store: Store,
    positions: tuple[Value, Value],
    before: Value,
) -> None:
    """Accumulates from one position to another, a tile at a time, after what came before."""
    b, tid = t.b, thread_in_block(t.b)
    begin, end = positions
    with b.carried_loop(begin, end, BLOCK * held, initial=[before]) as loop, t.e.scope():
        first = b.add(loop.index, b.mul(tid, held))
        own = load(first)
        for n in range(1, held):
            own[n] = reduction.combine(b, own[n - 1], own[n])
        earlier, whole = block_scan(b, reduction, own[-1], tid, t.subgroup)
        known = reduction.combine(b, loop.values[0], earlier)
        store(first, [reduction.combine(b, known, value) for value in own])
        loop.carry(reduction.combine(b, loop.values[0], whole))


# Parts


def _reduce_parts(scan: RowScan, t: ThreadBuild) -> LaunchDimensions:
    """What each part combines to, in the workspace."""
    b, reduction, tid, block = t.b, scan.reduction, thread_in_block(t.b), block_number(t.b)
    row, part = b.udiv(block, scan.parts), b.urem(block, scan.parts)
    begin = b.mul(part, scan.part)
    end = b.intrinsic("smin", b.add(begin, scan.part), scan.length)
    load = _reader(t, scan, row, end)
    first = b.add(begin, b.mul(tid, scan.held))
    with b.carried_loop(first, end, scan.tile, initial=[reduction.start(1)]) as loop, t.e.scope():
        total = loop.values[0]
        for element in load(loop.index):
            total = reduction.combine(b, total, element)
        loop.carry(total)
    own = over_subgroup(b, reduction, loop.values[0], t.subgroup)
    (whole,) = over_block(b, (reduction,), (own,), tid, BLOCK, t.subgroup)
    with b.when(b.icmp("eq", tid, 0)):
        store_element(b, t.scratch, block, reduction.dtype, whole)
    return LaunchDimensions((scan.rows * scan.parts, 1, 1), (BLOCK, 1, 1))


def _accumulate_totals(scan: RowScan, t: ThreadBuild) -> LaunchDimensions:
    """What all parts before each one combine to, in place of what it combines to itself."""
    b, reduction, row = t.b, scan.reduction, block_number(t.b)
    start = b.mul(row, scan.parts)

    def load(position: Value) -> list[Value]:
        def earlier() -> Sequence[Value]:
            at = b.sub(b.add(start, position), 1)
            return (real_of(load_element(b, t.scratch, at, reduction.dtype), "a total"),)

        is_some = b.and_(b.icmp("sgt", position, 0), b.icmp("slt", position, scan.parts))
        return list(b.branch(is_some, earlier, lambda: (reduction.start(1),)))

    def store(position: Value, totals: Sequence[Value]) -> None:
        with b.when(b.icmp("slt", position, scan.parts)):
            store_element(b, t.scratch, b.add(start, position), reduction.dtype, totals[0])

    positions = b.const(I64, 0), b.const(I64, scan.parts)
    _along(t, reduction, 1, load, store, positions, reduction.start(1))
    return LaunchDimensions((scan.rows, 1, 1), (BLOCK, 1, 1))
