"""Softmaxes, normalisations and their like: threads reduce a row together and go on with it.

They are a sub-group, part of one, or a block. A thread has the same elements of its row in every
pass. Up to `MOST_HELD` of them stay in its registers, so memory is read once and written once; of
longer rows each pass reads anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.reductions import Reduction, reduction_of
from xladev.codegen.row_program import Phase, RowProgram, row_program
from xladev.codegen.scalar.elements import Element, real_of
from xladev.codegen.simt.exchanges import over_block, over_subgroup, slots_nbytes
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild, single
from xladev.codegen.simt.launch_plan import BLOCK, widest_lanes
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import block_number, thread_in_block
from xladev.hlo.ir import HloInstruction

MOST_HELD = 32
"""Elements of a row that a thread keeps in registers."""
_HELD = 16
"""Elements of a thread where a block has a row: more threads wait less for memory."""
_BLOCKS = (128, 256, 512)
_LEAST_HELD = 8
"""Elements that each thread has of a row for which a sub-group is too many."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How the rows of a program are spread over threads.

    Attributes:
        program: what is done with each row.
        threads: that have one row; a sub-group, a part of one, or a block.
        lanes: neighbours that a thread should have.
        subgroup: threads of a sub-group.
    """

    program: RowProgram
    threads: int
    lanes: int
    subgroup: int

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions that count rows."""
        return self.program.space.dims[: self.program.space.kept]

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(self.program.space.row)

    @property
    def per_block(self) -> int:
        """Rows of a block."""
        return BLOCK // self.threads if self.threads <= self.subgroup else 1

    @property
    def dimensions(self) -> LaunchDimensions:
        """Blocks for all rows."""
        blocks = -(-prod(self.kept) // self.per_block)
        return LaunchDimensions((blocks, 1, 1), (self.per_block * self.threads, 1, 1))

    @property
    def shared_nbytes(self) -> int:
        """Slots for each reduction, if sub-groups reduce together."""
        reductions = sum(len(phase.reductions) for phase in self.program.phases)
        if self.threads <= self.subgroup:
            return 0
        return slots_nbytes(reductions, self.threads, self.subgroup)


def row_program_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of a kernel that reduces rows and uses them again."""
    program = row_program(spec.computation)
    if program is None:
        return None
    length, subgroup = prod(program.space.row), machine.subgroup
    wanted = -(-length // _HELD)
    # what sub-groups of a block have is reduced by one
    blocks = [n for n in _BLOCKS if n <= subgroup * subgroup]
    block = next((n for n in blocks if n >= wanted), blocks[-1])
    # a short row has few threads, for what they tell each other costs each of them as much
    parts = (1 << n for n in range(subgroup.bit_length()))
    few = next((n for n in parts if n * _LEAST_HELD >= length), subgroup)
    threads = few if length <= subgroup * MOST_HELD else block
    plan = RowPlan(program, threads, widest_lanes(spec, prod(program.space.dims)), subgroup)
    return single("row program", lambda t: _emit(t, plan), plan.dimensions, plan.shared_nbytes)


def _emit(t: ThreadBuild, plan: RowPlan) -> None:
    """The code of one thread, in the widest vectors that all accesses allow."""
    for lanes in (8, 4, 2):
        if lanes > plan.lanes or plan.program.space.row[-1] % lanes:
            continue
        mark, functions, held = t.b.mark(), t.b.module.mark(), t.e.scopes()
        try:
            _Thread(t, plan, lanes).emit()
        except NotInVectorsError:
            t.b.reset(mark)
            t.b.module.reset(functions)
            t.e.leave(held)
            continue
        return
    _Thread(t, plan, 1).emit()


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a thread has elements.

    Attributes:
        index: of the first of them.
        inside: whether the row has them; None if it surely has.
    """

    index: Index
    inside: Value | None


class _Thread:
    """Writes the code of one thread, which has ``lanes`` neighbours at each of its positions."""

    def __init__(self, t: ThreadBuild, plan: RowPlan, lanes: int) -> None:
        self.b: FunctionBuilder = t.b
        self.plan, self.program, self.lanes = plan, plan.program, lanes
        self.scalars: dict[HloInstruction, tuple[Element, ...]] = {}
        self.single = ElementalEmitter(t.b, ELEMENT_RULES, t.e.arrays, self.scalars)
        self.e = self.single if lanes == 1 else VectorEmitter(self.single, lanes)
        self.result = t.results[0]
        self.step = plan.threads * lanes
        self.is_held = -(-plan.length // self.step) * lanes <= MOST_HELD
        b = self.b
        self.tid = thread_in_block(b)
        self.lane = b.urem(self.tid, plan.threads)
        first = b.mul(block_number(b), plan.per_block)
        row = b.add(first, b.udiv(self.tid, plan.threads))
        # Sub-groups without a row of their own work on the last one too, and do not store.
        rows = prod(plan.kept)
        self.has_row = None if rows % plan.per_block == 0 else b.icmp("ult", row, rows)
        own = row if self.has_row is None else b.intrinsic("umin", row, rows - 1)
        self.outer: Index = self.e.at.delinear(own, plan.kept)
        self.positions = self._positions() if self.is_held else ()

    def emit(self) -> None:
        """All passes."""
        done = 0
        self._row_values(0)
        for number, phase in enumerate(self.program.phases):
            self._reduction(phase, done)
            done += len(phase.reductions)
            self._row_values(number + 1)
        if self.program.space.is_full(self.program.root):
            self._write()
        else:
            self._write_row_value()

    # Positions

    def _positions(self) -> tuple[_Position, ...]:
        """All positions of this thread, as many for each; the last ones may be outside."""
        b, first = self.b, self.b.mul(self.lane, self.lanes)
        positions: list[_Position] = []
        for start in range(0, self.plan.length, self.step):
            column, inside = b.add(first, start), None
            if start + self.step > self.plan.length:
                inside = b.icmp("ult", column, self.plan.length)
                column = b.intrinsic("umin", column, self.plan.length - self.lanes)
            positions.append(_Position(self._index(column), inside))
        return tuple(positions)

    def _index(self, column: Value) -> Index:
        if isinstance(self.e, VectorEmitter):
            self.e.at.start(column, self.lanes)
        within: tuple[IndexValue, ...] = self.e.at.delinear(column, self.program.space.row)
        return (*self.outer, *within)

    # Passes

    def _row_values(self, level: int) -> None:
        """Computes what is known of the row by now, once for all passes that follow."""
        for i in self.program.row_values(level):
            self.single.element(i, self._row_index(i))

    def _row_index(self, i: HloInstruction) -> Index:
        return (*self.outer, *(0,) * (i.shape.rank - len(self.plan.kept)))

    def _reduction(self, phase: Phase, slot: int) -> None:
        """One pass: what the row's threads reduce together is known to each of them."""
        reductions = [f for i in phase.reductions if (f := reduction_of(i)) is not None]
        parts = self._own(reductions)
        width = min(self.plan.threads, self.plan.subgroup)
        totals = [
            over_subgroup(self.b, f, p, width) for f, p in zip(reductions, parts, strict=True)
        ]
        if self.plan.threads > self.plan.subgroup:
            plan = self.plan
            totals = over_block(
                self.b, reductions, totals, self.tid, plan.threads, plan.subgroup, slot
            )
        for reduction, total in zip(reductions, totals, strict=True):
            start = self.single.element(reduction.reduce.operands[1], ())
            reduced = reduction.rounded(self.b, reduction.combine(self.b, start, total))
            self.scalars[reduction.reduce] = (reduced,)

    def _own(self, reductions: Sequence[Reduction]) -> list[Value]:
        """What this thread reduces of its own elements."""
        held = [reduction.start(self.lanes) for reduction in reductions]
        if self.is_held:
            for position in self.positions:
                held = self._combined(reductions, held, position)
        else:
            first = self.b.mul(self.lane, self.lanes)
            with (
                self.b.carried_loop(first, self.plan.length, self.step, initial=held) as loop,
                self.e.scope(),
            ):
                position = _Position(self._index(loop.index), None)
                loop.carry(*self._combined(reductions, loop.values, position))
            held = list(loop.values)
        return [self._over_lanes(f, v) for f, v in zip(reductions, held, strict=True)]

    def _combined(
        self, reductions: Sequence[Reduction], held: Sequence[Value], position: _Position
    ) -> list[Value]:
        after: list[Value] = []
        for reduction, value in zip(reductions, held, strict=True):
            new = real_of(
                self.e.element(reduction.reduce.operands[0], position.index), "a reduction"
            )
            if position.inside is not None:
                new = self.b.select(position.inside, new, reduction.start(self.lanes))
            after.append(reduction.combine(self.b, value, new))
        return after

    def _over_lanes(self, reduction: Reduction, value: Value) -> Value:
        if self.lanes == 1:
            return value
        parts = [self.b.extract(value, n) for n in range(self.lanes)]
        while len(parts) > 1:
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [reduction.combine(self.b, left, right) for left, right in pairs]
        return parts[0]

    # Results

    def _write(self) -> None:
        """The last pass."""
        if self.is_held:
            for position in self.positions:
                self._store(position)
            return
        first = self.b.mul(self.lane, self.lanes)
        with self.b.loop(first, self.plan.length, self.step) as column, self.e.scope():
            self._store(_Position(self._index(column), None))

    def _store(self, position: _Position) -> None:
        element = self.e.element(self.program.root, position.index)
        conditions = [c for c in (self.has_row, position.inside) if c is not None]
        if not conditions:
            self._put(position.index, element)
            return
        with self.b.when(self.b.and_(conditions[0], conditions[-1])), self.e.scope():
            self._put(position.index, element)

    def _put(self, index: Index, element: Element) -> None:
        if not isinstance(self.e, VectorEmitter):
            self.result.store(self.b, index, element)
            return
        self.e.store(self.result, self.e.offset(self.result, index), element)

    def _write_row_value(self) -> None:
        root = self.program.root
        index = self._row_index(root)
        element = self.single.element(root, index)
        is_first = self.b.icmp("eq", self.lane, 0)
        own = is_first if self.has_row is None else self.b.and_(is_first, self.has_row)
        with self.b.when(own), self.e.scope():
            self.result.store(self.b, index, element)
